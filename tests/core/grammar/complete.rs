//! Outputs are complete within `max_tokens`, whatever is drawn.

use super::common::{Bench, Dice, data};
use llgtrt::config::GrammarConfig;
use llgtrt::grammar::{Grammar, GrammarSpec};
use llgtrt::types::Token;
use serde_json::Value;

/// A text of at most `budget` tokens, drawn at random as an engine does; where it is not complete, what there is of it.
fn drawn(bench: &Bench, grammar: &mut Grammar, budget: usize, dice: &mut Dice) -> Result<String, String> {
    let mut text = Vec::new();
    for at in 0..budget {
        let left = (budget - at - 1) as u32;
        let broken = |e: &dyn ToString| format!("{} after {}", e.to_string(), String::from_utf8_lossy(&text));
        let mask = grammar.mask().map_err(|e| broken(&e))?;
        let mut cursor = grammar.cursor();
        let mut others = cursor.listed(&mask, bench.vocab.len());
        let mut next = None;
        for _ in 0..8 {
            let some: Vec<Token> = others.iter().filter(|t| bench.vocab.bytes(*t)[0] < 0x80).collect();
            let Some(token) = some.get(dice.roll(some.len().max(1))).copied() else { break };
            if cursor.fits(token, left).unwrap() {
                next = Some(token);
                break;
            }
            others.set(token, false);
        }
        let next = next.or_else(|| cursor.way().map(|way| way.0)).ok_or_else(|| broken(&"no way"))?;
        drop(cursor);
        if bench.vocab.eog().contains(&next) {
            return String::from_utf8(text).map_err(|e| e.to_string());
        }
        text.extend_from_slice(bench.vocab.bytes(next));
        grammar.commit(next).map_err(|e| e.to_string())?;
        if grammar.is_ended() {
            return String::from_utf8(text).map_err(|e| e.to_string());
        }
    }
    let whole = bench.may_end(grammar).is_ok_and(|may_end| may_end);
    let text = String::from_utf8_lossy(&text).into_owned();
    if whole { Ok(text) } else { Err(format!("not complete with {budget}: {text}")) }
}

/// Every tenth schema of MaskBench's sample; all where `LLGTRT_ALL` is set.
#[test]
fn real_schemas_are_completed_with_the_fewest_tokens_and_more() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let every = if std::env::var_os("LLGTRT_ALL").is_some() { 1 } else { 10 };
    let bench = Bench::with(&GrammarConfig { compile_seconds: 600.0, ..GrammarConfig::default() });
    let (mut dice, mut told, mut unknown, mut faults) = (Dice(7), 0, Vec::new(), Vec::new());
    for line in lines.lines().step_by(every) {
        let case: Value = serde_json::from_str(line).unwrap();
        let spec = GrammarSpec::JsonSchema(case["schema"].to_string());
        let Ok(mut grammar) = bench.compile(&spec) else { continue };
        let Some((_, least)) = grammar.cursor().way() else {
            unknown.push(case["id"].clone());
            continue;
        };
        told += 1;
        for budget in [least, least + 1, 2 * least] {
            if let Err(why) = drawn(&bench, &mut grammar.restart(), budget as usize, &mut dice) {
                faults.push(format!("{} ({least}): {why}", case["id"]));
            }
        }
    }
    // Limits of the lexer are met on the way only, in words that are counted and the like.
    let broken = faults.len();
    faults.retain(|fault| !fault.contains("lexer error"));
    let broken = broken - faults.len();
    println!("{told} schemas; unknown: {unknown:?}; broken off: {broken}");
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(unknown.len() * 500 <= told && broken * 200 <= told, "{unknown:?}, {broken}");
}

/// The shortest texts of all lexemes together have more states than a lexer may have.
#[test]
fn a_grammar_of_many_long_texts_is_completed() {
    let names: Vec<String> = (0..150).map(|i| format!("{i}_{}", "name".repeat(20))).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), serde_json::json!({ "enum": [name] }))).collect();
    let schema = serde_json::json!({ "properties": properties, "required": names[..3], "type": "object" });
    let bench = Bench::running(&GrammarConfig::default(), 64);
    let mut grammar = bench.compile(&GrammarSpec::JsonSchema(schema.to_string())).unwrap();
    let (_, least) = grammar.cursor().way().unwrap();
    let text = drawn(&bench, &mut grammar, least as usize, &mut Dice(3)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap().as_object().unwrap().len(), 3, "{text}");
}
