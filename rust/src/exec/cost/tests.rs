//! Simulated models, whose passes take 0.1 to 400 ms.

use super::*;
use proptest::prelude::*;
use std::ops::Add;

impl Add for Work {
    type Output = Work;

    fn add(self, other: Work) -> Work {
        Work {
            passes: self.passes + other.passes,
            rows: self.rows + other.rows,
            chunk: self.chunk + other.chunk,
            cells: self.cells + other.cells,
        }
    }
}

/// Seconds of work by these prices.
fn took(prices: &[f64; N], work: Work) -> f64 {
    dot(prices, &work.parts())
}

fn rows(rows: u32) -> Work {
    Work::of_step(rows, 0)
}

fn learn(cost: &mut Cost, prices: &[f64; N], work: Work) {
    cost.learn(work, Duration::from_secs_f64(took(prices, work)));
}

fn about(a: f64, b: f64, tolerance: f64) -> bool {
    (a / b - 1.0).abs() < tolerance
}

/// Prices of a model: a pass, a row, a token of a prompt, and a cell, from the first of these in seconds.
fn prices() -> impl Strategy<Value = [f64; N]> {
    (1e-4f64..0.4, 0.02f64..1.0, 0.3f64..1.0, 2e-4f64..4e-3).prop_map(|(pass, row, token, cell)| {
        let row = pass * row;
        [pass, row, row * token, row * cell]
    })
}

/// What a probe measures of a model.
fn probed(prices: &[f64; N]) -> Cost {
    Cost::new(&[1, 4, 16].map(|n| (n, took(prices, rows(n)))))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// One in five passes is held up.
    #[test]
    fn prices_are_found(
        prices in prices(),
        steps in proptest::collection::vec((1u32..40, 0u32..600, 0u64..4000, 0.95f64..1.05, 0u32..10), 300),
    ) {
        let mut cost = probed(&prices);
        for (n, chunk, depth, noise, held_up) in steps {
            let chunk = f64::from(if chunk > 300 { chunk } else { 0 });
            let work = Work { chunk, cells: cells(depth as f64, chunk), ..rows(n) } + Work { cells: depth as f64 * f64::from(n), ..Work::default() };
            let slower = if held_up < 2 { 3.0 } else { 1.0 };
            cost.learn(work, Duration::from_secs_f64(took(&prices, work) * noise * slower));
        }
        for work in [Work::of_step(10, 20_000), Work::of_step(20, 30_000), Work { chunk: 500.0, cells: cells(0.0, 500.0), ..rows(4) }] {
            prop_assert!(about(cost.seconds(work), took(&prices, work), 0.4), "{work:?}: {} {:?} {:?}", cost.seconds(work), cost, prices);
        }
    }

    /// While others decode, a step takes about as long as its limit, or as twice what decoding alone does; prompts get a
    /// half of the time at least where these take longer than that.
    #[test]
    fn prompts_and_decoding_share_a_step(prices in prices(), n in 1u32..32, held in 0u64..3000, drafted in 0u32..4) {
        let (mut cost, limit) = (probed(&prices), 0.25);
        let (mut depth, mut chunks, mut spent) = (0, 0.0, (0.0, 0.0));
        let beside = Work::of_step(n, held * u64::from(n));
        for step in 0..200 {
            let chunk = cost.chunk_tokens(beside, depth, Duration::from_secs_f64(limit)).min(2048);
            prop_assert!(chunk >= 1);
            let drafts = Work { passes: 0.0, ..rows(n * drafted) };
            let read = Work { chunk: f64::from(chunk), cells: cells(depth as f64, f64::from(chunk)), ..Work::default() };
            let decoding = took(&prices, beside);
            learn(&mut cost, &prices, beside + drafts + read);
            if step > 20 {
                let seconds = decoding + took(&prices, read);
                let most = limit.max(2.0 * decoding) * 1.5 + took(&prices, Work { chunk: 1.0, cells: depth as f64, ..Work::default() });
                prop_assert!(seconds < most, "step {step}: {seconds} with {chunk} at {depth}, {cost:?}");
                spent = (spent.0 + decoding, spent.1 + seconds);
                chunks += f64::from(chunk);
            }
            depth = if depth > 8000 { 0 } else { depth + u64::from(chunk) };
        }
        if spent.0 / 179.0 > limit {
            prop_assert!(spent.1 > 1.3 * spent.0, "{spent:?}, {chunks} tokens");
        }
    }

    /// Alone, most of a pass is spent on its tokens.
    #[test]
    fn a_prompt_alone_is_read_fast(prices in prices()) {
        let cost = probed(&prices);
        let chunk = cost.chunk_tokens(Work::default(), 0, Duration::from_millis(250));
        let tokens = f64::from(chunk + 1) * prices[1];
        prop_assert!(tokens > 2.0 * prices[0], "{chunk} tokens: {tokens} of {}", tokens + prices[0]);
    }
}

#[test]
fn a_machine_that_became_slower_is_slower_everywhere() {
    let prices = [0.01, 0.002, 0.001, 0.0];
    let slower = prices.map(|price| 3.0 * price);
    let mut cost = probed(&prices);
    for _ in 0..400 {
        learn(&mut cost, &slower, rows(4));
    }
    for n in [1, 4, 16] {
        assert!(about(cost.seconds(rows(n)), took(&slower, rows(n)), 0.05), "{n}: {cost:?}");
    }
}

#[test]
fn what_was_dear_for_a_while_is_thought_cheap_again_where_the_probe_says_so() {
    let (prices, dear) = ([0.01, 0.001, 0.001, 0.0], [0.01, 0.02, 0.001, 0.0]);
    let mut cost = probed(&prices);
    for n in [1, 6].into_iter().cycle().take(200) {
        learn(&mut cost, &dear, rows(n));
    }
    assert!(cost.seconds(rows(6)) > 0.1, "{cost:?}");
    for _ in 0..400 {
        learn(&mut cost, &prices, rows(1));
    }
    assert!(about(cost.seconds(rows(6)), took(&prices, rows(6)), 0.1), "{cost:?}");
}

#[test]
fn nothing_known_is_a_first_chunk() {
    let mut cost = Cost::default();
    let chunk = |cost: &Cost| cost.chunk_tokens(rows(1), 0, Duration::from_millis(250));
    assert!(!cost.known() && chunk(&cost) == FIRST_CHUNK);
    cost.learn(Work::default(), Duration::from_millis(1));
    assert!(!cost.known());
    let prices = [0.01, 0.001, 0.002, 0.0];
    (0..5).for_each(|_| learn(&mut cost, &prices, Work { chunk: 64.0, ..rows(1) }));
    (0..5).for_each(|_| learn(&mut cost, &prices, rows(1)));
    assert!((100..150).contains(&chunk(&cost)), "{} {cost:?}", chunk(&cost));
}

#[test]
fn runs_are_rows_or_chunks() {
    let runs = [(10, 0, 3), (0, 100, 0), (7, 0, 1)];
    let work = Work::of(runs.into_iter(), &[6, 100]);
    // Two rows fill a gap.
    assert_eq!((work.passes, work.rows, work.chunk), (2.0, 6.0, 100.0));
    assert!(about(work.cells, 11.5 + 7.0 * 50.0 + 7.5, 1e-9), "{work:?}");
}
