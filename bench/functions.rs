//! Compiling the functions of an agent: all of them for the first time, and again where one of them has changed.
//!
//!     cargo run --release --example functions -- tokenizer.json [functions] [rounds] [tags]
//!
//! Each function has 8 parameters of the usual kinds. With `tags` arguments are written one by one, as Qwen3-Coder does. One line of JSON: milliseconds from the request to the first mask, median and
//! largest over the rounds. `known_ms`: all functions were compiled before, and come in another order.

mod compiling;

use compiling::Core;
use llgtrt::grammar::GrammarSpec;
use llgtrt::grammar::spec::{Calls, Parameters, Tool};
use llgtrt::vocab::{Vocab, VocabOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The function of this number in its version of this number.
fn function(number: usize, version: usize) -> Tool {
    let name = |kind: &str| format!("{kind}_{}", (number * 7 + version * 13) % 97);
    let schema = json!({
        "type": "object",
        "properties": {
            name("query"): {"type": "string", "description": "what to look for"},
            name("limit"): {"type": "integer", "minimum": 1, "maximum": 100 + number},
            name("ratio"): {"type": "number", "minimum": 0, "maximum": 1},
            name("exact"): {"type": "boolean"},
            name("order"): {"enum": ["up", "down", format!("by_{number}")]},
            name("since"): {"type": "string", "format": "date"},
            name("tags"): {"type": "array", "items": {"type": "string"}, "maxItems": 5},
            name("where"): {
                "type": "object",
                "properties": {"city": {"type": "string"}, "country": {"type": "string", "maxLength": 2}},
                "required": ["city"],
            },
        },
        "required": [name("query"), name("order")],
    });
    let (name, at) = (format!("function_{number}"), format!("/tools/{number}"));
    Tool { name, schema: schema.to_string(), at, types: BTreeMap::new() }
}

/// Milliseconds to the first mask.
fn time(core: &Core, tools: Vec<Tool>, parameters: Option<Parameters>) -> Result<f64> {
    let calls = Calls {
        tools,
        open: String::new(),
        before: "{\"name\": \"".to_owned(),
        between: "\", \"arguments\": ".to_owned(),
        betweens: Vec::new(),
        after: "}".to_owned(),
        separator: None,
        close: String::new(),
        begun: String::new(),
        or: None,
        lead: String::new(),
        parameters,
        except: None,
    };
    let begin = Instant::now();
    core.compile(&GrammarSpec::Calls(Box::new(calls)))?.mask()?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Arguments in tags.
fn tags() -> Result<Parameters> {
    let types = ["null", "boolean", "number", "string", "array", "object"];
    let between: Value = types.into_iter().map(|of| (of.to_owned(), json!(">\n"))).collect();
    let tags = json!({
        "before": "\n<parameter=", "between": between, "after": "\n</parameter>", "raw": true, "python": true,
    });
    Ok(serde_json::from_value(tags)?)
}

fn spread(mut millis: Vec<f64>) -> Value {
    millis.sort_by(f64::total_cmp);
    json!({"median": millis.get(millis.len() / 2), "max": millis.last()})
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let Some(tokenizer) = args.get(1) else {
        return Err("usage: functions tokenizer.json [functions] [rounds]".into());
    };
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |text| text.parse());
    let (count, rounds) = (number(2, 60)?, number(3, 20)?);
    let vocab = Vocab::from_tokenizer_json(
        &std::fs::read(tokenizer)?,
        &VocabOptions { eog: vec![0], ..VocabOptions::default() },
    )?;
    let parameters = args.get(4).map(|_| tags()).transpose()?;
    let core = Core::new(&vocab)?;
    let (mut first, mut changed, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let version = 3 * round;
        let all: Vec<Tool> = (0..count).map(|number| function(number, version)).collect();
        first.push(time(&core, all.clone(), parameters.clone())?);
        let mut other = all.clone();
        other[round % count] = function(round % count, version + 1);
        changed.push(time(&core, other, parameters.clone())?);
        known.push(time(&core, all.into_iter().rev().collect(), parameters.clone())?);
    }
    let [first, changed, known] = [first, changed, known].map(spread);
    println!("{}", json!({"functions": count, "first_ms": first, "changed_ms": changed, "known_ms": known}));
    Ok(())
}
