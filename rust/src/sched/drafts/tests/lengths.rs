//! The chosen lengths are the best of all.

use super::*;
use proptest::prelude::*;

/// One sequence's gains, of which so many tokens are forced and the others accepted at this rate.
fn gains(forced: u32, rate: f64, most: u32) -> (u32, Vec<f64>) {
    (
        forced,
        (0..most)
            .map(|i| if i < forced { 1.0 } else { rate.powi(1 + i.cast_signed() - forced.cast_signed()) })
            .collect(),
    )
}

fn offers(gains: &[(u32, Vec<f64>)]) -> Vec<Offer> {
    let offer = |(found, gains): &(u32, Vec<f64>)| Offer {
        found: *found,
        gains: gains.clone(),
        known: 0.0,
        passes: 1.0,
    };
    gains.iter().map(offer).collect()
}

/// Tokens of a step with these lengths.
fn tokens(gains: &[(u32, Vec<f64>)], lengths: &[u32]) -> f64 {
    gains.iter().zip(lengths).map(|((_, gains), n)| 1.0 + gains[..*n as usize].iter().sum::<f64>()).sum()
}

/// A speed, as it is compared: none is preferred to drafts that are hardly better.
fn preferred(speed: f64, lengths: &[u32]) -> f64 {
    if lengths.iter().all(|n| *n == 0) { speed * (1.0 + LEAST_GAIN) } else { speed }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_length_for_all_is_the_best_of_all(
        costs in proptest::collection::vec(0.001f64..0.02, 11),
        rates in proptest::collection::vec((0u32..4, 0.0f64..0.99), 1..20),
    ) {
        let gains: Vec<_> = rates.iter().map(|(forced, rate)| gains(*forced, *rate, 10)).collect();
        // Some lengths cost less than shorter ones.
        let pass = |lengths: &[u32]| costs[lengths[0] as usize];
        let drafts = Drafts::new(false, &[]);
        let worth = |length: u32| {
            let lengths = vec![length; gains.len()];
            preferred(tokens(&gains, &lengths) / costs[length as usize], &lengths)
        };
        let most = (0..=10).map(worth).fold(0.0, f64::max);
        let (choice, promised) = drafts.lengths(Some(DraftModel), &offers(&gains), &pass);
        let chosen = choice.lengths[0].all;
        prop_assert!(choice.lengths.iter().all(|length| length.all == chosen));
        prop_assert!((promised * costs[chosen as usize] / tokens(&gains, &vec![chosen; gains.len()]) - 1.0).abs() < 1e-9);
        prop_assert!(worth(chosen) >= most * (1.0 - 1e-9), "{:?}, not {}", choice, most);
    }

    #[test]
    fn own_lengths_are_the_best_of_all_where_they_are_free(
        row in 0.0f64..0.5,
        rates in proptest::collection::vec((0u32..3, 0.0f64..0.99), 2..4),
    ) {
        let gains: Vec<_> = rates.iter().map(|(forced, rate)| gains(*forced, *rate, 5)).collect();
        let cost = |rows: u32| 0.01 * (1.0 + row * f64::from(rows));
        let pass = |lengths: &[u32]| cost(lengths.iter().map(|n| 1 + n).sum());
        let drafts = Drafts::new(true, &[]);
        let speed = |lengths: &[u32]| {
            let rows = lengths.iter().map(|n| 1 + n).sum();
            preferred(tokens(&gains, lengths) / cost(rows), lengths)
        };
        let all = (0..6u32.pow(gains.len() as u32))
            .map(|code| (0..gains.len() as u32).map(|i| code / 6u32.pow(i) % 6).collect::<Vec<_>>());
        let most = all.map(|lengths| speed(&lengths)).fold(0.0, f64::max);
        let (choice, _) = drafts.lengths(Some(DraftModel), &offers(&gains), &pass);
        let lengths: Vec<u32> = choice.lengths.iter().map(|length| length.all).collect();
        prop_assert!(speed(&lengths) >= most * (1.0 - 1e-6), "{:?}: {} of {}", lengths, speed(&lengths), most);
    }
}
