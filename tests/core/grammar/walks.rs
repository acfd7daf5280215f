//! Random walks over grammars of real schemas: there is always a way on, and a way to the end.

use super::common::{Bench, Dice, data};
use llgtrt::grammar::{Grammar, GrammarSpec};
use serde_json::Value;
use std::io::Write;
use std::time::{Duration, Instant};

/// Tokens before a walk looks for the end.
const WANDER: usize = 60;
/// Tokens that a walk to the end may take. Each closes something, or writes what is required.
const HOME: usize = 4_000;

/// How little a token leads towards the end: what closes comes first, then what is short.
fn homeward(bytes: &[u8], in_string: bool, in_number: bool) -> usize {
    match bytes {
        b"\"" if in_string => 0,
        [b'\\', ..] => 100,
        _ if in_string => 2 + bytes.len(),
        b"}" | b"]" => 0,
        b"," => 50,
        // A number may go on for ever.
        [b'0'..=b'9' | b'.' | b'e' | b'E', ..] if in_number => 60,
        _ if bytes.iter().all(|b| b.is_ascii_whitespace()) => 1_000,
        _ => 2 + bytes.len(),
    }
}

/// Whether a string is open at the end of the text.
fn in_string(text: &[u8]) -> bool {
    let (mut open, mut escaped) = (false, false);
    for b in text {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => open = !open,
            _ => {}
        }
    }
    open
}

/// A text of the grammar: at random first, then towards the end; None where that is not found. An error is a dead end.
pub fn walk(bench: &Bench, grammar: &mut Grammar, dice: &mut Dice) -> Result<Option<String>, String> {
    let mut text = Vec::new();
    for step in 0..WANDER + HOME {
        let mask = grammar.mask().map_err(|e| format!("{e} after {}", String::from_utf8_lossy(&text)))?;
        let may_end = bench.vocab.eog().iter().any(|t| mask.allows(*t));
        let next: Vec<u32> = mask.mask().unwrap().iter().filter(|t| !bench.vocab.is_special(*t)).collect();
        let wandering = step < WANDER;
        if may_end && (next.is_empty() || !wandering || dice.roll(8) == 0) {
            return String::from_utf8(text).map(Some).map_err(|e| e.to_string());
        }
        // Single bytes at random, so that letters above ASCII are begun rarely and always completed.
        let plain: Vec<u32> = next.iter().copied().filter(|t| bench.vocab.bytes(*t)[0] < 0x80).collect();
        let from = if plain.is_empty() { &next } else { &plain };
        let token = if wandering && dice.roll(3) > 0 {
            from[dice.roll(from.len())]
        } else {
            let inside = in_string(&text);
            let number = text.last().is_some_and(u8::is_ascii_digit);
            let far = |t: &u32| homeward(bench.vocab.bytes(*t), inside, number);
            let best = from.iter().map(&far).min().unwrap_or(0);
            let best: Vec<_> = from.iter().filter(|t| far(t) == best).collect();
            *best[dice.roll(best.len())]
        };
        text.extend_from_slice(bench.vocab.bytes(token));
        grammar.commit(token).map_err(|e| e.to_string())?;
    }
    // What must be written somewhere in a text is not found by a walk that looks one token ahead.
    Ok(None)
}

/// Every tenth schema of MaskBench; all of them, with their texts in a file for other validators, where
/// `LLGTRT_WALKS` names one.
#[test]
fn there_is_always_a_way_to_the_end() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let mut out = std::env::var_os("LLGTRT_WALKS").map(|path| std::fs::File::create(path).unwrap());
    let (every, each) = if out.is_some() { (1, 6) } else { (10, 2) };
    let (bench, mut dice, mut walked, mut astray) = (Bench::new(), Dice(7), 0, 0);
    let mut lost = Vec::new();
    for line in lines.lines().step_by(every) {
        let case: Value = serde_json::from_str(line).unwrap();
        let Ok(pristine) = bench.compile(&GrammarSpec::JsonSchema(case["schema"].to_string())) else {
            continue;
        };
        for _ in 0..each {
            match walk(&bench, &mut pristine.restart(), &mut dice) {
                Ok(None) => astray += 1,
                Ok(Some(text)) => {
                    walked += 1;
                    if let Some(out) = &mut out {
                        writeln!(out, "{}", serde_json::json!({"id": case["id"], "text": text})).unwrap();
                    }
                }
                Err(why) => lost.push(format!("{}: {why}", case["id"])),
            }
        }
    }
    println!("{walked} walks came to an end, {astray} had {HOME} tokens and more to go on with");
    assert!(lost.is_empty() && walked > 100 && astray * 20 < walked, "{astray} of {walked}; {lost:#?}");
}

/// Every twentieth schema of MaskBench, and one whose patterns take many steps.
#[test]
fn a_text_is_compared_as_it_would_be_written() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let bench = Bench::new();
    for (i, line) in lines.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        if i % 20 != 0 && case["id"] != "Github_hard---o21075" {
            continue;
        }
        let Ok(pristine) = bench.schema(&case["schema"]) else { continue };
        for test in case["tests"].as_array().unwrap() {
            let text = test["data"].to_string();
            let until = Instant::now() + Duration::from_secs(600);
            let walk = pristine.restart().walk(&bench.vocab, &text, until).unwrap();
            let whole = walk.may_end && walk.bytes == text.len();
            assert_eq!(
                bench.accepts(&mut pristine.restart(), &text).unwrap(),
                whole,
                "{}: {text}",
                case["id"]
            );
        }
    }
}
