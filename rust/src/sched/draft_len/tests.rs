use super::*;
use crate::sequence::Acceptance;
use proptest::prelude::*;

fn prospect(forced: u32, rate: f64) -> Prospect {
    Prospect { forced, rate, most: 10 }
}

/// A speed, as it is compared: none is preferred to drafts that are hardly better.
fn preferred(speed: f64, none: bool) -> f64 {
    if none { speed * (1.0 + LEAST_GAIN) } else { speed }
}

fn tokens(prospects: &[Prospect], lengths: &[u32]) -> f64 {
    let of = |(p, n): (&Prospect, &u32)| 1.0 + (0..*n).map(|i| p.gain(i)).sum::<f64>();
    prospects.iter().zip(lengths).map(of).sum()
}

/// Runs steps whose true cost is `seconds` of the mean length; the lengths of each step.
fn run(
    lengths: &mut Lengths,
    prospects: &[Prospect],
    ragged: bool,
    (steps, seconds): (usize, &dyn Fn(u32) -> f64),
) -> Vec<Vec<u32>> {
    let step = |_| {
        let chosen = lengths.choose(prospects, ragged, &Prior::new(), false);
        lengths.learn(&chosen, Duration::from_secs_f64(seconds(mean(&chosen))));
        chosen
    };
    (0..steps).map(step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_length_for_all_is_the_best_of_all(
        costs in proptest::collection::vec(0.001f64..0.02, 11),
        rates in proptest::collection::vec((0u32..4, 0.0f64..0.99), 1..20),
    ) {
        let prospects: Vec<_> = rates.iter().map(|(forced, rate)| prospect(*forced, *rate)).collect();
        // Every length has been measured; some cost less than shorter ones.
        let mut lengths = Lengths::default();
        for (length, cost) in (0u32..).zip(&costs) {
            lengths.learn(&vec![length; prospects.len()], Duration::from_secs_f64(*cost));
        }
        let cost = |n: u32| costs[n as usize].max(costs[0] * (1.0 + LEAST_COST * f64::from(n)));
        let speed = |n: u32| tokens(&prospects, &vec![n; prospects.len()]) / cost(n);
        let worth = |n: u32| preferred(speed(n), n == 0);
        let best = (0..=10).max_by(|a, b| worth(*a).total_cmp(&worth(*b))).unwrap();
        let chosen = lengths.choose(&prospects, false, &Prior::new(), false);
        prop_assert!(chosen.iter().all(|n| *n == chosen[0]));
        prop_assert!(worth(chosen[0]) >= worth(best) * (1.0 - NOISE - 1e-9), "{:?}, not {}", chosen, best);
    }

    #[test]
    fn own_lengths_are_the_best_of_all_where_they_are_free(
        row in 0.0f64..0.5,
        rates in proptest::collection::vec((0u32..3, 0.0f64..0.99), 2..4),
    ) {
        let prospects: Vec<_> =
            rates.iter().map(|(forced, rate)| Prospect { most: 5, ..prospect(*forced, *rate) }).collect();
        let mut lengths = Lengths::default();
        for length in 0..=5u32 {
            let cost = 0.01 * (1.0 + row * f64::from(length));
            lengths.learn(&vec![length; prospects.len()], Duration::from_secs_f64(cost));
        }
        let speed = |chosen: &[u32]| {
            let mean = f64::from(chosen.iter().sum::<u32>()) / chosen.len() as f64;
            preferred(tokens(&prospects, chosen) / (1.0 + row.max(LEAST_COST) * mean), mean == 0.0)
        };
        let all = (0..6u32.pow(prospects.len() as u32))
            .map(|code| (0..prospects.len() as u32).map(|i| code / 6u32.pow(i) % 6).collect::<Vec<_>>());
        let best = all.map(|chosen| speed(&chosen)).fold(0.0, f64::max);
        let chosen = lengths.choose(&prospects, true, &Prior::new(), false);
        prop_assert!(speed(&chosen) >= best * (1.0 - NOISE - 1e-6), "{:?}: {} of {}", chosen, speed(&chosen), best);
    }
}

#[test]
fn drafts_that_cost_more_than_they_bring_are_given_up() {
    let mut lengths = Lengths::default();
    let steps = run(&mut lengths, &[prospect(0, 0.3); 16], false, (2000, &|n| 0.01 + 0.008 * f64::from(n)));
    let drafted = steps.iter().filter(|s| s[0] > 0).count();
    assert!(drafted < 25, "{drafted} steps");
    let seconds: f64 = steps.iter().map(|s| 1.0 + 0.8 * f64::from(s[0])).sum();
    assert!(seconds / 2000.0 < 1.02, "{seconds}");
}

#[test]
fn a_change_of_cost_is_noticed() {
    let mut lengths = Lengths::default();
    let many = [prospect(0, 0.8); 4];
    run(&mut lengths, &many, false, (100, &|n| 0.01 + 0.01 * f64::from(n)));
    assert_eq!(lengths.choose(&many, false, &Prior::new(), false), [0; 4]);
    let steps = run(&mut lengths, &many, false, (3000, &|n| 0.01 + 0.0005 * f64::from(n)));
    assert!(steps.last().unwrap()[0] >= 5, "{:?}", steps.last());
}

#[test]
fn forced_tokens_count_in_full() {
    let mut lengths = Lengths::default();
    let forced = [Prospect { forced: 6, rate: 0.0, most: 6 }];
    let steps = run(&mut lengths, &forced, false, (40, &|n| 0.01 + 0.003 * f64::from(n)));
    assert_eq!(steps.last().unwrap(), &[6]);
}

#[test]
fn unlike_sequences_settle_at_unlike_lengths_where_that_is_free() {
    for seed in 0..20u64 {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        let mut lengths = Lengths::default();
        let mut acceptance = [Acceptance::default(); 2];
        let mut late = [0u32; 2];
        for step in 0..90 {
            let prospects = acceptance.map(|a| prospect(0, a.rate(0.5)));
            let chosen = lengths.choose(&prospects, true, &Prior::new(), false);
            let noise = 0.98 + 0.04 * random();
            let seconds = noise * 0.01 * (1.0 + 0.02 * f64::from(mean(&chosen)));
            lengths.learn(&chosen, Duration::from_secs_f64(seconds));
            for (i, right) in [0.95, 0.05].into_iter().enumerate() {
                let accepted = (0..chosen[i]).take_while(|_| random() < right).count() as u32;
                if chosen[i] > 0 {
                    acceptance[i].learn(accepted, accepted < chosen[i]);
                }
                late[i] += if step >= 50 { chosen[i] } else { 0 };
            }
        }
        let means = late.map(|sum| f64::from(sum) / 40.0);
        assert!(means[0] >= 5.0 && means[1] <= 1.0, "{means:?}");
    }
}
