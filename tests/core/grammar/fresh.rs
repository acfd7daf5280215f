//! A mask is a function of the committed tokens alone, whatever was drafted and undone on the way.

use super::common::{Bench, Dice, data};
use llgtrt::grammar::{Grammar, Next};
use llgtrt::types::Token;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// An allowed token that ends no text, if there is one.
fn any_of(dice: &mut Dice, next: &Next, end: &[Token]) -> Option<Token> {
    let mask = next.mask().expect("a mask where a grammar holds");
    let tokens: Vec<Token> = mask.iter().filter(|t| !end.contains(t)).collect();
    if tokens.is_empty() { None } else { Some(tokens[dice.roll(tokens.len())]) }
}

/// Speculates as an engine does: drafts up to five tokens, takes masks ahead, undoes, commits another branch.
fn walk(bench: &Bench, pristine: &Grammar, seed: u64) -> usize {
    let (mut dice, mut grammar, mut history) = (Dice(seed), pristine.restart(), Vec::new());
    let end = bench.vocab.eog();
    let mut checked = 0;
    for _ in 0..24 {
        let mask = grammar.mask().unwrap();
        let mut fresh = pristine.restart();
        history.iter().for_each(|t| fresh.commit(*t).unwrap());
        assert_eq!(mask, fresh.mask().unwrap(), "seed {seed}, after {history:?}");
        assert_eq!(grammar.is_ended(), fresh.is_ended());
        checked += 1;
        {
            let mut cursor = grammar.cursor();
            for _ in 0..dice.roll(6) {
                let ahead = if dice.roll(4) > 0 { cursor.mask().unwrap() } else { mask.clone() };
                let Some(token) = any_of(&mut dice, &ahead, end) else { break };
                if !cursor.push(token).unwrap() {
                    break;
                }
            }
        }
        let Some(token) = any_of(&mut dice, &mask, end) else { break };
        grammar.commit(token).unwrap();
        history.push(token);
    }
    checked
}

#[test]
fn masks_do_not_remember_abandoned_branches() {
    let bench = Bench::new();
    let text = json!({"type": "string"});
    let schemas = [
        json!({"type": "object", "properties": {"a": text, "b": text, "c": text}}),
        json!({"type": "object", "properties": {"kind": {"enum": ["x", "xy", "yx"]}, "n": {"type": "integer"}}}),
        json!({"anyOf": [{"type": "array", "items": {"enum": [1, 11, 111]}}, {"type": "string", "pattern": "^a+b*$"}]}),
    ];
    let grammars: Vec<Grammar> = schemas.iter().map(|s| bench.schema(s).unwrap()).collect();
    let mut runner = TestRunner::new(Config { cases: 120, failure_persistence: None, ..Config::default() });
    runner
        .run(&(0..grammars.len(), proptest::num::u64::ANY), |(i, seed)| {
            walk(&bench, &grammars[i], seed);
            Ok(())
        })
        .unwrap();
}

#[test]
fn masks_of_real_schemas_are_fresh() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let bench = Bench::new();
    let mut checked = 0;
    for (i, line) in lines.lines().enumerate().step_by(41) {
        let schema = serde_json::from_str::<Value>(line).unwrap()["schema"].clone();
        let Ok(grammar) = bench.schema(&schema) else { continue };
        for seed in 0..6 {
            checked += walk(&bench, &grammar, seed * 1000 + i as u64);
        }
    }
    assert!(checked > 1000, "{checked}");
}

#[test]
fn the_check_sees_a_walk_that_is_not_undone() {
    let bench = Bench::new();
    let mut grammar = bench.schema(&json!({"type": "object"})).unwrap();
    let before = grammar.mask().unwrap();
    {
        let mut cursor = grammar.cursor();
        cursor.push(u32::from(b'{')).unwrap();
        cursor.skip_rollback_for_test();
    }
    assert_ne!(grammar.mask().unwrap(), before);
}

#[test]
fn an_error_ahead_harms_nobody() {
    let bench = Bench::new();
    let deep = "start: x\nx: \"a\" x | \"a\"";
    let spec = llgtrt::grammar::GrammarSpec::LarkGrammar(deep.into());
    let pristine = bench.compile(&spec).unwrap();
    let mut grammar = pristine.restart();
    let a = u32::from(b'a');
    grammar.commit(a).unwrap();
    let before = grammar.mask().unwrap();
    let mut died = false;
    {
        let mut cursor = grammar.cursor();
        for _ in 0..6_000 {
            if cursor.mask().is_err() || !matches!(cursor.push(a), Ok(true)) {
                died = true;
                break;
            }
        }
    }
    assert!(died, "the rule in itself hits its limit");
    assert_eq!(grammar.committed(), 1);
    assert_eq!(grammar.mask().unwrap(), before);
    assert_eq!(pristine.restart().mask().unwrap().mask().unwrap().count(), 1);
}
