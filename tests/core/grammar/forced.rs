//! Forced runs against masks taken one by one.

use super::common::{Bench, data};
use llgtrt::config::{DraftSource, SpeculativeConfig};
use llgtrt::exec::ahead::Ahead;
use llgtrt::exec::helpers::Helpers;
use llgtrt::exec::{Ask, Draft};
use llgtrt::grammar::{Grammar, GrammarSpec, Next};
use llgtrt::request::{Limits, Request, RequestSpec};
use llgtrt::sampler::Sampler;
use llgtrt::types::{Slot, Token};
use serde_json::Value;

const MOST: u32 = 40;

fn proposed(bench: &Bench, grammar: &mut Grammar) -> Draft {
    let limits = Limits {
        n_vocab: bench.vocab.len() as u32,
        context: 100,
        max_prompt: 100,
        default_output: u32::MAX,
        faults: false,
        lacks: Default::default(),
    };
    let spec: RequestSpec = serde_json::from_str(r#"{"prompt":[1]}"#).unwrap();
    let sampler = Sampler::new(Request::new(spec, &limits).unwrap().into(), 0, 0, bench.vocab.clone());
    let mut draft = Draft::default();
    let ask = Ask {
        slot: Slot(0),
        age: 0,
        group: (0, 0, 0),
        known: &[],
        prompt: 0,
        prediction: &[],
        draft: &mut draft,
        grammar: Some(grammar),
        sampler: &sampler,
        want: MOST,
        allows: DraftSource::ALL.map(|source| source == DraftSource::Forced),
        drawn: 0,
        late: false,
    };
    let config = SpeculativeConfig::default();
    let mut ahead = Ahead::new(&config, bench.vocab.len(), Helpers::new(1));
    ahead.propose(&mut [ask]);
    draft
}

/// The same by committing one forced token after the other.
fn step_by_step(bench: &Bench, grammar: &mut Grammar) -> (Vec<Token>, Vec<Next>) {
    let (mut tokens, mut masks) = (Vec::new(), Vec::new());
    while !grammar.is_ended() {
        let mask = grammar.mask().unwrap();
        masks.push(mask.clone());
        let forced = mask.single().filter(|t| !bench.vocab.is_eog(*t) && tokens.len() < MOST as usize);
        let Some(token) = forced else { break };
        grammar.commit(token).unwrap();
        tokens.push(token);
    }
    (tokens, masks)
}

/// Walks an instance, and compares at every fourth place; the number of forced tokens met. None: the text is refused.
fn walk(bench: &Bench, pristine: &Grammar, text: &str) -> Option<usize> {
    let (mut grammar, mut history, mut forced) = (pristine.restart(), Vec::new(), 0);
    let mut rest = text.as_bytes();
    for place in 0.. {
        if rest.is_empty() {
            break;
        }
        if place % 4 == 0 {
            let mut fresh = pristine.restart();
            history.iter().for_each(|t| fresh.commit(*t).unwrap());
            let draft = proposed(bench, &mut grammar);
            let (tokens, masks) = step_by_step(bench, &mut fresh);
            assert_eq!((&draft.tokens, &draft.masks), (&tokens, &masks), "after {history:?} of {text}");
            forced += tokens.len();
        }
        let next = grammar.mask().ok()?;
        // Byte by byte, but for what is forced.
        let fits = |t: &Token| !bench.vocab.is_special(*t) && rest.starts_with(bench.vocab.bytes(*t));
        let token = next.mask()?.iter().filter(fits).min_by_key(|t| bench.vocab.bytes(*t).len())?;
        rest = &rest[bench.vocab.bytes(token).len()..];
        grammar.commit(token).ok()?;
        history.push(token);
    }
    Some(forced)
}

#[test]
fn forced_runs_are_the_masks_with_one_token() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let bench = Bench::new();
    let (mut walked, mut forced) = (0, 0);
    for line in lines.lines().step_by(3) {
        let case: Value = serde_json::from_str(line).unwrap();
        let Ok(pristine) = bench.compile(&GrammarSpec::JsonSchema(case["schema"].to_string())) else {
            continue;
        };
        let tests = case["tests"].as_array().unwrap();
        let valid = tests.iter().find(|test| test["valid"] == true && test["data"].to_string().len() < 600);
        let met = valid.and_then(|test| walk(&bench, &pristine, &test["data"].to_string()));
        walked += usize::from(met.is_some());
        forced += met.unwrap_or(0);
    }
    println!("{walked} instances, {forced} forced tokens");
    assert!(walked > 50 && forced > 1000, "{walked} instances, {forced} forced tokens");
}
