//! A grammar's text in Lark, which engines elsewhere get, says the same as the grammar itself.

use super::common::{Bench, Dice, by_the_letter, data};
use llgtrt::config::GrammarConfig;
use llgtrt::grammar::GrammarSpec;
use serde_json::Value;

/// One schema in so many, and tokens of a walk over it.
const STEP: usize = 8;
const TOKENS: usize = 60;

#[test]
fn masks_are_the_same_on_random_walks() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    // Texts of schemas are longer than what clients may send.
    let config = GrammarConfig { max_lark_bytes: 16 << 20, ..by_the_letter() };
    let bench = Bench::with(&config);
    let (mut compared, mut steps) = (0, 0);
    for (number, line) in lines.lines().enumerate().step_by(STEP) {
        let case: Value = serde_json::from_str(line).unwrap();
        let Ok(mut grammar) = bench.schema(&case["schema"]) else { continue };
        // Lark cannot say what must not be multiples.
        let Some(text) = grammar.guide() else { continue };
        // Clients' grammars have lower limits than schemas.
        let Ok(mut other) = bench.compile(&GrammarSpec::LarkGrammar(text)) else { continue };
        let mut dice = Dice(number as u64);
        compared += 1;
        for _ in 0..TOKENS {
            let (one, same) = (grammar.mask().unwrap(), other.mask());
            let Ok(same) = same else { break };
            assert_eq!(one.mask().unwrap(), same.mask().unwrap(), "{}", case["id"]);
            let next: Vec<u32> = one.mask().unwrap().iter().filter(|t| !bench.vocab.is_special(*t)).collect();
            if next.is_empty() {
                break;
            }
            let token = next[dice.roll(next.len())];
            grammar.commit(token).unwrap();
            other.commit(token).unwrap();
            steps += 1;
        }
    }
    assert!(compared > 100 && steps > 3_000, "{compared} schemas, {steps} tokens");
}
