//! What is out of range is an error, never an abort, and changes nothing.

use super::world::step;
use super::{config, homes, model, one_engine, opened, pooled};
use llgtrt::config::KvHome;
use llgtrt::exec::Run;
use llgtrt::types::{Slot, Token};

const SLOTS: u32 = 3;
const CONTEXT: u32 = 256;

fn run(slot: u32, start: u32, tokens: &[Token], outputs: u32) -> Run<'_> {
    Run { slot: Slot(slot), start, tokens, outputs, hidden: false }
}

#[test]
fn runs_out_of_range_are_refused() {
    let _turn = one_engine();
    for (home, config) in homes(SLOTS, CONTEXT) {
        let mut opened = opened(&model::random(), &config);
        let engine = &mut *opened.forward;
        let caps = engine.caps().clone();
        step(engine, 1, 0, &[1, 2, 3], 0);
        let long: Vec<Token> = vec![5; caps.max_step_tokens as usize];
        let word = caps.n_vocab as Token;
        let cases: Vec<(&str, Vec<Run<'_>>)> = vec![
            ("no runs", vec![]),
            ("no tokens", vec![run(0, 0, &[], 0)]),
            ("too many outputs", vec![run(0, 0, &[1], 2)]),
            ("token = n_vocab", vec![run(0, 0, std::slice::from_ref(&word), 1)]),
            ("token = u32::MAX", vec![run(0, 0, &[1, Token::MAX], 1)]),
            ("slot = slots", vec![run(caps.slots, 0, &[1], 1)]),
            ("slot = u32::MAX", vec![run(u32::MAX, 0, &[1], 1)]),
            ("start in an empty slot", vec![run(0, 7, &[1], 1)]),
            ("start behind the end", vec![run(1, 4, &[1], 1)]),
            ("start before the end", vec![run(1, 2, &[1], 1)]),
            ("twice the same slot", vec![run(0, 0, &[1], 1), run(0, 0, &[1], 1)]),
            ("out of order", vec![run(2, 0, &[1], 1), run(0, 0, &[1], 1)]),
            ("too many tokens", vec![run(0, 0, &long, 1), run(2, 0, &[1], 1)]),
            ("past the context", vec![run(1, 3, &long[..CONTEXT as usize - 2], 1)]),
        ];
        for (name, runs) in cases {
            assert!(engine.forward(&runs).is_err(), "{home:?}: {name}");
        }
        // Nothing has moved.
        assert_eq!(step(engine, 1, 3, &[4], 1).len(), 1);
        assert_eq!(step(engine, 0, 0, &[4], 1).len(), 1);
    }
}

#[test]
fn slots_out_of_range_are_refused() {
    let _turn = one_engine();
    for (_, config) in homes(SLOTS, CONTEXT) {
        let mut opened = opened(&model::random(), &config);
        let engine = &mut *opened.forward;
        let none = Slot(engine.caps().slots);
        step(engine, 0, 0, &[1, 2, 3], 0);
        step(engine, 2, 0, &[1], 0);
        assert!(engine.truncate(none, 0).is_err());
        assert!(engine.truncate(Slot(0), 4).is_err());
        assert!(engine.truncate(Slot(0), 3).is_ok());
        assert!(engine.copy(Slot(0), none, 1).is_err());
        assert!(engine.copy(none, Slot(1), 1).is_err());
        assert!(engine.copy(Slot(0), Slot(0), 1).is_err());
        assert!(engine.copy(Slot(0), Slot(2), 1).is_err(), "the target is filled");
        assert!(engine.copy(Slot(0), Slot(1), 4).is_err(), "more than there is");
        assert!(engine.save(none).is_none());
        assert!(engine.save(Slot(1)).is_none(), "empty");
        let kv = engine.save(Slot(0)).unwrap();
        assert!(!engine.restore(none, &kv));
        assert!(!engine.restore(Slot(2), &kv), "the target is filled");
        assert!(engine.copy(Slot(0), Slot(1), 2).is_ok());
        assert_eq!(step(engine, 1, 2, &[4], 1).len(), 1);
    }
}

#[test]
fn bytes_that_are_no_kv_are_refused() {
    let _turn = one_engine();
    for (home, config) in homes(SLOTS, CONTEXT) {
        let mut opened = opened(&model::random(), &config);
        let engine = &mut *opened.forward;
        step(engine, 0, 0, &[1, 2, 3], 0);
        let kv = engine.save(Slot(0)).unwrap();
        let mut other = kv.clone();
        other[0] ^= 1;
        for bad in [&[][..], &[0; 7], &kv[..kv.len() / 2], &kv[..kv.len() - 1], &other, &vec![0xff; kv.len()]]
        {
            assert!(!engine.restore(Slot(1), bad), "{home:?}: {} bytes", bad.len());
            assert_eq!(step(engine, 1, 0, &[4], 1).len(), 1, "the slot is empty");
            engine.truncate(Slot(1), 0).unwrap();
        }
        assert!(engine.restore(Slot(1), &kv));
        let (restored, source) = (step(engine, 1, 3, &[4], 1), step(engine, 0, 3, &[4], 1));
        assert!(home == KvHome::Pool || restored == source);
    }
}

/// The shared pool can run out although every slot has room: an error, and what was there stays.
#[test]
fn an_exhausted_pool_is_an_error() {
    let _turn = one_engine();
    let mut config = config(4, CONTEXT);
    config.kv_cache_max_tokens = Some(300);
    let mut opened = opened(&model::random(), &pooled(config));
    let engine = &mut *opened.forward;
    let text: Vec<Token> = (0..200).collect();
    step(engine, 0, 0, &text, 0);
    step(engine, 1, 0, &text, 0);
    // 512 cells, 400 used.
    let error = engine.forward(&[run(0, 200, &text[..20], 1), run(2, 0, &text, 1)]).unwrap_err();
    assert!(error.to_string().contains("no cell is free"), "{error}");
    assert_eq!(step(engine, 0, 200, &text[..20], 1).len(), 1);
    engine.truncate(Slot(1), 0).unwrap();
    assert_eq!(step(engine, 2, 0, &text, 1).len(), 1);
}
