use super::*;
use crate::sched::costs::{LEAST_COST, Passes};
use proptest::prelude::*;

fn prospect(forced: u32, rate: f64) -> Prospect {
    Prospect { forced, odds: Odds { first: rate, next: rate }, most: 10 }
}

/// A speed, as it is compared: none is preferred to drafts that are hardly better.
fn preferred(speed: f64, none: bool) -> f64 {
    if none { speed * (1.0 + LEAST_GAIN) } else { speed }
}

fn tokens(prospects: &[Prospect], lengths: &[u32]) -> f64 {
    let of = |(p, n): (&Prospect, &u32)| 1.0 + (0..*n).map(|i| p.gain(i)).sum::<f64>();
    prospects.iter().zip(lengths).map(of).sum()
}

fn mean(asked: Asked) -> f64 {
    f64::from(asked.forced + asked.guessed) / asked.sequences as f64
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_length_for_all_is_the_best_of_all(
        costs in proptest::collection::vec(0.001f64..0.02, 11),
        rates in proptest::collection::vec((0u32..4, 0.0f64..0.99), 1..20),
    ) {
        let prospects: Vec<_> = rates.iter().map(|(forced, rate)| prospect(*forced, *rate)).collect();
        // Every length has been measured, with the same passes and other times for drafting; some cost less than shorter ones.
        let mut passes = Passes::default();
        for (length, cost) in (0u32..).zip(&costs) {
            // A single step might have been held up, and is not believed.
            (0..3).for_each(|_| passes.learn(prospects.len(), length * prospects.len() as u32, *cost));
        }
        let cost = |n: u32| costs[n as usize].max(costs[0] * (1.0 + LEAST_COST * f64::from(n)));
        let speed = |n: u32| tokens(&prospects, &vec![n; prospects.len()]) / cost(n);
        let worth = |n: u32| preferred(speed(n), n == 0);
        let most = (0..=10).max_by(|a, b| worth(*a).total_cmp(&worth(*b))).unwrap();
        let (chosen, promised) = best(&prospects, false, |asked| passes.at(asked.sequences, mean(asked)).unwrap());
        prop_assert!(chosen.iter().all(|n| *n == chosen[0]));
        prop_assert!((promised / speed(chosen[0]) - 1.0).abs() < 1e-9);
        prop_assert!(worth(chosen[0]) >= worth(most) * (1.0 - NOISE - 1e-9), "{:?}, not {}", chosen, most);
    }

    #[test]
    fn own_lengths_are_the_best_of_all_where_they_are_free(
        row in 0.0f64..0.5,
        rates in proptest::collection::vec((0u32..3, 0.0f64..0.99), 2..4),
    ) {
        let prospects: Vec<_> =
            rates.iter().map(|(forced, rate)| Prospect { most: 5, ..prospect(*forced, *rate) }).collect();
        let cost = |mean: f64| 0.01 * (1.0 + row * mean);
        let speed = |chosen: &[u32]| {
            let mean = f64::from(chosen.iter().sum::<u32>()) / chosen.len() as f64;
            preferred(tokens(&prospects, chosen) / cost(mean), mean == 0.0)
        };
        let all = (0..6u32.pow(prospects.len() as u32))
            .map(|code| (0..prospects.len() as u32).map(|i| code / 6u32.pow(i) % 6).collect::<Vec<_>>());
        let most = all.map(|chosen| speed(&chosen)).fold(0.0, f64::max);
        let (chosen, _) = best(&prospects, true, |asked| cost(mean(asked)));
        prop_assert!(speed(&chosen) >= most * (1.0 - NOISE - 1e-6), "{:?}: {} of {}", chosen, speed(&chosen), most);
    }
}

#[test]
fn forced_tokens_count_in_full() {
    let forced = [Prospect { forced: 6, most: 6, ..prospect(0, 0.0) }];
    assert_eq!(best(&forced, false, |asked| 0.01 + 0.003 * mean(asked)).0, [6]);
    // Behind them, what is drafted is asked for apart.
    let also = [Prospect { forced: 2, ..prospect(0, 0.9) }, prospect(0, 0.9)];
    let asked = Asked::new(&also, [5, 1].into_iter());
    assert_eq!(asked, Asked { sequences: 2, asking: 2, forced: 2, guessed: 4, longest: 3 });
}

#[test]
fn a_first_token_that_is_seldom_found_is_told_from_those_behind_it() {
    let seldom = [Prospect { odds: Odds { first: 0.1, next: 0.9 }, ..prospect(0, 0.0) }];
    assert!((speed(&seldom, 1, |_| 1.0) - 1.1).abs() < 1e-9);
    assert!((speed(&seldom, 10, |_| 1.0) - 1.651).abs() < 1e-3);
}
