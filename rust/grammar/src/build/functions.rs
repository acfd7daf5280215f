//! Compiles the functions of a request. Most of them were compiled for earlier requests.

use super::gbnf::Dialect;
use super::lark::part;
use super::{Builder, unstyled};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::lark::{Named, with_schemas};
use crate::part::Pristine;
use crate::schema;
use crate::spec::{Calls, JsonStyle, JsonType, Parameters, Tool};
use crate::types::Narrowed;
use crate::written::Written;
use crate::{GrammarSpec, calls, texts};
use llguidance::api::TopLevelGrammar;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most memory for functions that are known, in bytes.
const MOST_BYTES: u64 = 32 << 20;
/// Bytes of a function's rules and terminals for each byte of its schema, about.
const BYTES_PER_BYTE: usize = 16;
/// The name under which Lark knows what may come in place of calls.
const ANSWER: &str = "answer";

/// The grammars of functions' arguments. An agent sends the same functions with each request, but for a few.
pub(super) struct Functions(Cache<Key, Arc<Function>, Weight>);

/// A schema, and how its values are written.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    schema: String,
    style: JsonStyle,
    parameters: Option<(Parameters, BTreeMap<String, BTreeSet<JsonType>>)>,
}

struct Function {
    written: Written,
    /// What was noted, with pointers into its schema.
    narrowed: Vec<Narrowed>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Arc<Function>> for Weight {
    fn weight(&self, key: &Key, _: &Arc<Function>) -> u64 {
        (key.schema.len() * BYTES_PER_BYTE) as u64
    }
}

impl Functions {
    /// None yet.
    pub(super) fn new() -> Self {
        Functions(Cache::with_weighter(1_000, MOST_BYTES, Weight))
    }
}

/// Compiles calls.
///
/// # Errors
/// What cannot be enforced.
pub(super) fn build(builder: &Builder, calls: &Calls, budget: &Budget) -> Result<Pristine> {
    let size: usize = calls.tools.iter().map(|tool| tool.schema.len()).sum();
    if size > builder.config.max_schema_bytes {
        let why = format!("their schemas are longer than {} bytes", builder.config.max_schema_bytes);
        return Err(Error::grammar("", "tools", why));
    }
    let parameters = calls.parameters.as_ref();
    let written = |tool: &Tool| budget.within(&tool.at, || arguments(builder, (tool, parameters), budget));
    let schemas = calls.tools.iter().map(written).collect::<Result<_>>()?;
    let mut named = Named::new(budget, &builder.library);
    let (beside, lark) = match calls.or.as_ref().map(|or| unstyled(or, budget)) {
        None => (None, None),
        Some(or @ (GrammarSpec::Gbnf(source) | GrammarSpec::Ebnf(source))) => {
            (None, Some((builder.gbnf(source, Dialect::of(or), budget)?, &builder.rules)))
        }
        Some(GrammarSpec::LarkGrammar(source)) => {
            let source = with_schemas("lark_grammar", source, &builder.config, &mut named)?;
            (None, Some((source, &builder.user)))
        }
        Some(or) => (Some(builder.written(or, budget)?), None),
    };
    let mut all = calls::written(calls, schemas, beside, &builder.vocab)?;
    schema::check_divisors(all.divisors)?;
    let compiled = match lark {
        None => builder.finish(all),
        Some((or, limits)) => {
            let rules = builder.filter(all.shape.take());
            let lead = named.add(texts::fixed(&calls.lead, &builder.config, &builder.vocab)?)?;
            let start = part(None, format!("start: @{} | @{lead} @{ANSWER}", named.add(all)?));
            let grammars = vec![start, part(Some(ANSWER.to_owned()), or)];
            let list = TopLevelGrammar { grammars, max_tokens: None };
            let compiled = builder.compile_list(list, named, limits);
            compiled.map(|compiled| Pristine { rules, ..compiled })
        }
    };
    compiled.map_err(|why| locate(builder, calls, budget, why))
}

/// The grammar of a function's arguments.
///
/// # Errors
/// What cannot be enforced.
pub(super) fn arguments(
    builder: &Builder,
    (tool, parameters): (&Tool, Option<&Parameters>),
    budget: &Budget,
) -> Result<Written> {
    let known = &builder.functions.0;
    let key = Key {
        schema: tool.schema.clone(),
        style: budget.style(),
        parameters: parameters.map(|parameters| (parameters.clone(), tool.types.clone())),
    };
    if let Some(function) = known.get(&key) {
        function.narrowed.iter().for_each(|narrowed| budget.note(narrowed.clone()));
        return Ok(function.written.clone());
    }
    let before = budget.notes();
    let written = match parameters {
        None => builder.json(&tool.schema, budget)?,
        Some(spec) => {
            let parameters = schema::Parameters { spec, types: &tool.types, vocab: &builder.vocab };
            let (value, config) = (schema::parse(&tool.schema, &builder.config)?, &builder.config);
            schema::prepare_as(&value, config, (budget, &builder.library, false), Some(parameters))?
        }
    };
    let narrowed = budget.take_notes(before);
    narrowed.iter().for_each(|narrowed| budget.note(narrowed.clone()));
    known.insert(key, Arc::new(Function { written: written.clone(), narrowed }));
    Ok(written)
}

/// What is wrong where the grammar of calls does not compile: the first of its parts that does not alone.
fn locate(builder: &Builder, calls: &Calls, budget: &Budget, why: String) -> Error {
    let alone = |tool: &Tool| budget.within(&tool.at, || builder.json_alone(&tool.schema, budget));
    let faults = calls.tools.iter().filter_map(|tool| alone(tool).err());
    let or = calls.or.iter().filter_map(|or| builder.whole(or, budget).err());
    faults.chain(or).next().unwrap_or_else(|| Error::grammar("", "tools", why))
}
