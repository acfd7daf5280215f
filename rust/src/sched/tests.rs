use super::*;
use crate::request::{Limits, Request, RequestSpec};
use crate::types::{RequestId, Slot};
use crate::vocab::Vocab;
use std::sync::Arc;
use std::time::Instant;

const BOUNDS: Bounds =
    Bounds { tokens: 1000, chunk_tokens: 100, scored_rows: 30, chunked: true, pass_tokens: 0 };

/// Sequences that have computed nothing, with prompts of so many tokens; of the negative ones with log-probabilities.
fn running(prompts: &[i32]) -> Vec<Sequence> {
    let vocab = Vocab::toy().unwrap();
    let limits = Limits { context: 10_000, max_prompt: 10_000, ..Limits::small(vocab.len()) };
    let sequence = |(number, length): (u32, &i32)| {
        let prompt = vec![1; length.unsigned_abs() as usize];
        let scores = if *length < 0 { r#","prompt_logprobs":1"# } else { "" };
        let spec: RequestSpec = serde_json::from_str(&format!(r#"{{"prompt":{prompt:?}{scores}}}"#)).unwrap();
        let request = Arc::new(Request::new(spec, &limits).unwrap());
        let id = (RequestId(u64::from(number)), 0);
        let mut sequence = Sequence::new(id, request, vocab.clone(), 0, Instant::now());
        sequence.place(Slot(number), 0);
        sequence
    };
    (0..).zip(prompts).map(sequence).collect()
}

/// What each gets in a turn.
fn in_turn(prompts: &[i32], bounds: &Bounds, turn: Turn) -> Vec<u32> {
    let mut counts = vec![0; prompts.len()];
    plan(&running(prompts), bounds, turn).iter().for_each(|(index, count)| counts[*index] += count);
    counts
}

/// The same where the shortest comes first.
fn planned(prompts: &[i32], bounds: &Bounds) -> Vec<u32> {
    in_turn(prompts, bounds, Turn::Shortest)
}

#[test]
fn the_shortest_and_the_oldest_prompt_come_first_in_turn() {
    let in_turn =
        |prompts: &[i32]| [Turn::Shortest, Turn::Oldest].map(|turn| in_turn(prompts, &BOUNDS, turn));
    assert_eq!(in_turn(&[5000, 20]), [[80, 20], [100, 0]]);
    assert_eq!(in_turn(&[5000, 4000, 20, 1, 30]), [[0, 50, 20, 1, 30], [100, 0, 0, 1, 0]]);
    assert_eq!(in_turn(&[60, 50, 40, 40]), [[0, 20, 40, 40], [60, 0, 40, 0]]);
    assert_eq!(planned(&[5000, 4000], &Bounds { chunk_tokens: 0, ..BOUNDS }), [0, 1]);
    assert_eq!([Turn::Shortest.next(), Turn::Oldest.next()], [Turn::Oldest, Turn::Shortest]);
}

#[test]
fn a_second_piece_is_worth_its_pass() {
    let bounds = |pass_tokens| Bounds { pass_tokens, ..BOUNDS };
    assert_eq!(planned(&[5000, 20], &bounds(80)), [80, 20]);
    assert_eq!(planned(&[5000, 20], &bounds(81)), [0, 20]);
    assert_eq!(planned(&[5000, 1, 1], &bounds(1000)), [100, 1, 1]);
    assert_eq!(planned(&[600, 300, 100], &Bounds { chunked: false, ..bounds(1000) }), [600, 300, 100]);
}

#[test]
fn prompts_of_one_length_come_one_after_the_other() {
    assert_eq!(planned(&[200, 200, 200], &BOUNDS), [100, 0, 0]);
    let mut running = running(&[200, 200]);
    running[0].place(Slot(0), 150);
    let shares = plan(&running, &BOUNDS, Turn::Shortest);
    assert_eq!(shares, [(0, 50), (1, 50)]);
}

#[test]
fn single_tokens_come_first_and_all_are_within_the_step() {
    assert_eq!(planned(&[500, 1, 1, 60], &Bounds { tokens: 12, ..BOUNDS }), [0, 1, 1, 10]);
    assert_eq!(planned(&[500, 1, 1, 1], &Bounds { tokens: 2, ..BOUNDS }), [0, 1, 1, 0]);
}

#[test]
fn a_prompt_without_rows_for_its_scores_delays_no_other() {
    assert_eq!(planned(&[-500, -400, 600], &BOUNDS), [0, 30, 70]);
    assert_eq!(planned(&[-500, -10, -20, 600], &BOUNDS), [0, 10, 20, 70]);
    assert_eq!(planned(&[700, -500, -600, 800], &BOUNDS), [70, 30, 0, 0]);
    assert_eq!(planned(&[-500, -400, 600], &Bounds { scored_rows: 1, ..BOUNDS }), [0, 1, 99]);
    let whole = Bounds { chunked: false, scored_rows: 8, ..BOUNDS };
    assert_eq!(planned(&[-500, -400, 600], &whole), [8, 0, 600]);
}

#[test]
fn whole_prompts_are_not_overtaken() {
    let whole = Bounds { chunked: false, ..BOUNDS };
    assert_eq!(planned(&[600, 500, 100], &whole), [600, 0, 0]);
    assert_eq!(planned(&[600, 300, 100], &whole), [600, 300, 100]);
    assert_eq!(planned(&[5000, 1], &whole), [0, 1]);
    assert_eq!(planned(&[5000], &whole), [1000]);
}
