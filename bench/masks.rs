//! Masks of the core beside llguidance called directly, on a vocabulary of one's own.
//!
//!     cargo run --release --features python,llama --example masks -- tokenizer.json cases.jsonl walks.jsonl
//!
//! A case is a line of MaskBench, `{"schema", "tests": [{"valid", "data"}]}`; its first valid instance is walked as
//! compact JSON, token by token, twice. It may have `gbnf` in place of a schema, and texts for its data. One line of JSON per
//! engine: microseconds of each mask (with the tokens' own cost before it) the first time and the second, of compiling to the
//! first mask, of the same for the schemas that both engines take, and how many schemas were refused or instances left. The
//! walks are written as lines
//! `{"schema", "tokens"}`, for engines elsewhere.

mod compiling;

use compiling::Core;
use llgtrt::grammar::{Grammar, GrammarSpec};
use llgtrt::types::Token;
use llgtrt::vocab::{Vocab, VocabOptions};
use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::error::Error;
use std::time::Instant;
use toktrie::InferenceCapabilities;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A grammar at some place of an instance.
trait Walk: Sized {
    /// The beginning of another text of the same grammar, from this one's.
    fn again(&self) -> Self;
    /// The mask here, and whether it has a token.
    fn allows(&mut self, token: Token) -> Result<bool>;
    fn commit(&mut self, token: Token) -> Result<()>;
}

/// What compiles schemas.
trait Engine {
    type Walk: Walk;
    fn name(&self) -> &'static str;
    fn compile(&self, schema: &Value) -> Result<Self::Walk>;
}

impl Engine for Core {
    type Walk = Grammar;

    fn name(&self) -> &'static str {
        "llgtrt"
    }

    fn compile(&self, schema: &Value) -> Result<Grammar> {
        let spec = match schema.as_str() {
            Some(gbnf) => GrammarSpec::Gbnf(gbnf.to_owned()),
            None => GrammarSpec::JsonSchema(schema.to_string()),
        };
        Core::compile(self, &spec)
    }
}

impl Walk for Grammar {
    fn again(&self) -> Grammar {
        self.restart()
    }

    fn allows(&mut self, token: Token) -> Result<bool> {
        Ok(self.mask()?.allows(token))
    }

    fn commit(&mut self, token: Token) -> Result<()> {
        Ok(Grammar::commit(self, token)?)
    }
}

/// llguidance as its documentation says, in this thread.
struct Direct(ParserFactory);

impl Engine for Direct {
    type Walk = Matcher;

    fn name(&self) -> &'static str {
        "llguidance"
    }

    fn compile(&self, schema: &Value) -> Result<Matcher> {
        let grammar = TopLevelGrammar::from_json_schema(schema.clone());
        Ok(Matcher::new(Ok(self.0.create_parser(grammar)?)))
    }
}

impl Walk for Matcher {
    fn again(&self) -> Matcher {
        // Shares the lexer, unlike a deep copy.
        self.clone()
    }

    fn allows(&mut self, token: Token) -> Result<bool> {
        Ok(self.compute_mask_or_eos()?.is_allowed(token))
    }

    fn commit(&mut self, token: Token) -> Result<()> {
        Ok(self.consume_token(token)?)
    }
}

/// Microseconds of everything, and what did not go through.
#[derive(Default)]
struct Times {
    masks: Vec<f64>,
    /// Where the schema's masks have been computed before.
    again: Vec<f64>,
    /// By case; none where the schema is refused.
    compiles: Vec<Option<f64>>,
    left: usize,
}

/// Adds one schema and the walk over its instance.
fn measure<E: Engine>(engine: &E, schema: &Value, tokens: &[Token], times: &mut Times) -> Result<()> {
    let mut begin = Instant::now();
    let Ok(compiled) = engine.compile(schema) else {
        times.compiles.push(None);
        return Ok(());
    };
    for is_first in [true, false] {
        let mut walk = compiled.again();
        for (index, &token) in tokens.iter().enumerate() {
            let allowed = walk.allows(token).unwrap_or(false);
            let micros = begin.elapsed().as_secs_f64() * 1e6;
            match (is_first, index) {
                (true, 0) => times.compiles.push(Some(micros)),
                (true, _) => times.masks.push(micros),
                (false, 0) => {}
                (false, _) => times.again.push(micros),
            }
            if !allowed {
                times.left += usize::from(is_first);
                break;
            }
            begin = Instant::now();
            walk.commit(token)?;
        }
    }
    Ok(())
}

/// Mean and percentiles by nearest rank.
fn spread(mut micros: Vec<f64>) -> Value {
    micros.sort_by(f64::total_cmp);
    let Some(&max) = micros.last() else { return Value::Null };
    let rank = |share: f64| micros[((micros.len() as f64 * share).ceil() as usize).max(1) - 1];
    let mean = micros.iter().sum::<f64>() / micros.len() as f64;
    json!({"mean": mean, "p50": rank(0.5), "p99": rank(0.99), "p999": rank(0.999), "max": max, "count": micros.len()})
}

/// `others`: what the other engine took to compile.
fn print<E: Engine>(engine: &E, times: &Times, others: &[Option<f64>]) {
    let both = times.compiles.iter().zip(others).filter(|(_, other)| other.is_some());
    let line = json!({
        "engine": engine.name(),
        "mask_us": spread(times.masks.clone()),
        "again_us": spread(times.again.clone()),
        "compile_us": spread(times.compiles.iter().flatten().copied().collect()),
        "compile_both_us": spread(both.filter_map(|(own, _)| *own).collect()),
        "refused": times.compiles.iter().filter(|own| own.is_none()).count(),
        "left": times.left,
    });
    println!("{line}");
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, tokenizer, file, walks] = &*args else {
        return Err("usage: masks tokenizer.json cases.jsonl walks.jsonl".into());
    };
    let json = std::fs::read(tokenizer)?;
    let tables: Value = serde_json::from_slice(&json)?;
    // An end token is all that the grammars need of what stands beside a tokenizer.json.
    let specials = tables["added_tokens"].as_array().into_iter().flatten();
    let eog = specials.filter_map(|t| t["id"].as_u64()).map(|id| id as Token).max();
    let options = VocabOptions { eog: eog.into_iter().collect(), ..VocabOptions::default() };
    let vocab = Vocab::from_tokenizer_json(&json, &options)?;
    let mut cases = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let mut case: Value = serde_json::from_str(line)?;
        let tests = case["tests"].as_array().into_iter().flatten();
        let kind = if case.get("gbnf").is_some() { "gbnf" } else { "schema" };
        let written = |data: &Value| match data.as_str() {
            Some(text) if kind == "gbnf" => text.to_owned(),
            _ => data.to_string(),
        };
        let text = tests.filter(|t| t["valid"] == true).map(|t| written(&t["data"])).next();
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            cases.push((case[kind].take(), vocab.encode(&[(&text, false)])?));
        }
    }
    let lines =
        cases.iter().map(|(schema, tokens)| format!("{}\n", json!({"schema": schema, "tokens": tokens})));
    std::fs::write(walks, lines.collect::<String>())?;
    let slices = SlicedBiasComputer::general_slices();
    let direct = Direct(ParserFactory::new(vocab.tok_env(), InferenceCapabilities::default(), &slices)?);
    let core = Core::new(&vocab)?;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    // In turns, since a machine is not as fast all the time, and the second finds the case in the processor's cache.
    for (number, (schema, tokens)) in cases.iter().enumerate() {
        if number % 2 == 0 {
            measure(&core, schema, tokens, &mut ours)?;
            measure(&direct, schema, tokens, &mut theirs)?;
        } else {
            measure(&direct, schema, tokens, &mut theirs)?;
            measure(&core, schema, tokens, &mut ours)?;
        }
    }
    print(&core, &ours, &theirs.compiles);
    print(&direct, &theirs, &ours.compiles);
    Ok(())
}
