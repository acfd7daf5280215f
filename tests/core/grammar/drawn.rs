//! Schemas drawn at random over all keywords: each is compiled or refused, and what its grammar can say is valid.

use super::common::{Bench, Dice, by_the_letter};
use super::walks::walk;
use jsonschema::Validator;
use llgtrt::config::{GrammarConfig, KeyOrder};
use llgtrt::error::Error;
use llgtrt::grammar::GrammarSpec;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Schemas of a run, where `LLGTRT_DRAWN` does not say how many.
const SCHEMAS: usize = 20_000;
/// Texts of each.
const TEXTS: usize = 3;

/// What draws schemas.
struct Drawing {
    dice: Dice,
    /// No references: the validator follows those in a circle without end.
    is_plain: bool,
}

impl Drawing {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.dice.roll(from.len())].clone()
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.dice.roll(one_in) == 0
    }

    fn count(&mut self) -> Value {
        json!(self.dice.roll(4))
    }

    fn name(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "ab", "é"])
    }

    fn names(&mut self) -> BTreeSet<&'static str> {
        (0..self.dice.roll(3)).map(|_| self.name()).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.dice.roll(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.chance(2)),
            2 => json!(self.dice.roll(7).cast_signed() - 3),
            3 => json!(self.pick(&[0.5, -1.25, 2.0, 1e2])),
            4 | 5 => json!(self.pick(&["", "a", "b", "ab", "2020-01-01", "é\"\n", "zz"])),
            6 => (0..self.dice.roll(3)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let member = |own: &mut Self| (own.name().to_owned(), own.value(depth - 1));
                (0..self.dice.roll(3)).map(|_| member(self)).collect::<Map<_, _>>().into()
            }
        }
    }

    fn schemas(&mut self, depth: usize, most: usize) -> Value {
        (0..=self.dice.roll(most)).map(|_| self.schema(depth)).collect()
    }

    fn by_name(&mut self, depth: usize) -> Value {
        let member = |own: &mut Self| (own.name().to_owned(), own.schema(depth));
        (0..=self.dice.roll(3)).map(|_| member(self)).collect::<Map<_, _>>().into()
    }

    /// A schema of a few keywords, nested so deep at most.
    fn schema(&mut self, depth: usize) -> Value {
        if self.chance(12) {
            return json!(!self.chance(4));
        }
        let mut map = Map::new();
        if !self.chance(3) {
            let types = ["string", "integer", "number", "boolean", "null", "array", "object"];
            let kind = self.pick(&types);
            map.insert(
                "type".into(),
                if self.chance(5) { json!([kind, self.pick(&types)]) } else { json!(kind) },
            );
        }
        if let Some(Value::Array(list)) = map.get_mut("type") {
            list.dedup();
        }
        for _ in 0..1 + self.dice.roll(3) {
            let (keyword, value) =
                if depth > 0 && self.chance(2) { self.applied(depth - 1) } else { self.asserted() };
            map.insert(keyword.into(), value);
        }
        map.into()
    }

    /// A keyword that says something of a value itself. Patterns have no dot, which takes other line ends in the validator, and
    /// no times, of which it knows the leap seconds.
    fn asserted(&mut self) -> (&'static str, Value) {
        let keyword = self.pick(&[
            "const",
            "enum",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "pattern",
            "format",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "required",
            "dependentRequired",
        ]);
        let value = match keyword {
            "const" => self.value(1),
            "enum" => (0..=self.dice.roll(3)).map(|_| self.value(1)).collect(),
            "minimum" | "exclusiveMinimum" => json!(self.pick(&[-3.0, 0.0, 0.5, 7.0])),
            "maximum" | "exclusiveMaximum" => json!(self.pick(&[-1.0, 3.0, 9.5, 100.0])),
            "multipleOf" => json!(self.pick(&[1.0, 2.0, 3.0, 0.5, 0.25])),
            "pattern" => json!(self.pick(&["^a", "b$", "^[ab]*$", "a|b", "^\\d{2}$", "^(?!a)", "é"])),
            "format" => {
                json!(self.pick(&["date", "uuid", "ipv4", "ipv6", "email", "hostname", "json-pointer"]))
            }
            "uniqueItems" => json!(true),
            "required" => json!(self.names()),
            "dependentRequired" => json!({ self.name(): self.names() }),
            _ => self.count(),
        };
        (keyword, value)
    }

    /// A keyword that has schemas inside.
    fn applied(&mut self, depth: usize) -> (&'static str, Value) {
        let keyword = self.pick(&[
            "properties",
            "properties",
            "properties",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "items",
            "items",
            "prefixItems",
            "contains",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "then",
            "else",
            "dependentSchemas",
            "unevaluatedItems",
            "unevaluatedProperties",
            "$ref",
            "$dynamicRef",
        ]);
        let value = match keyword {
            "$ref" | "$dynamicRef" if self.is_plain => return ("minLength", self.count()),
            "$ref" | "$dynamicRef" => json!(self.pick(&["#/$defs/a", "#/$defs/b"])),
            "properties" | "dependentSchemas" => self.by_name(depth),
            "patternProperties" => json!({ self.pick(&["^a", "b", "[a-z]"]): self.schema(depth) }),
            "prefixItems" | "allOf" | "anyOf" | "oneOf" => self.schemas(depth, 2),
            _ => self.schema(depth),
        };
        (keyword, value)
    }
}

/// The schema with what its references name.
fn with_definitions(mut schema: Value, drawing: &mut Drawing) -> Value {
    if let Some(map) = schema.as_object_mut() {
        drawing.is_plain = true;
        // The validator takes only objects behind references beside unevaluatedProperties.
        let mut definition =
            |depth| Some(drawing.schema(depth)).filter(Value::is_object).unwrap_or(json!({}));
        map.insert("$defs".into(), json!({"a": definition(2), "b": definition(1)}));
        drawing.is_plain = false;
    }
    schema
}

/// The same schema with its keywords, and those of the schemas in it, in another order.
fn shuffled(schema: &Value, dice: &mut Dice) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let mut entries: Vec<(String, Value)> = Vec::new();
    for (keyword, value) in map {
        let by_name =
            matches!(keyword.as_str(), "properties" | "patternProperties" | "dependentSchemas" | "$defs");
        let is_data = matches!(keyword.as_str(), "const" | "enum" | "required" | "dependentRequired");
        let value = match value {
            Value::Object(inner) if by_name => inner
                .iter()
                .map(|(name, value)| (name.clone(), shuffled(value, dice)))
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(inner) if !is_data => inner.iter().map(|value| shuffled(value, dice)).collect(),
            value if is_data => value.clone(),
            value => shuffled(value, dice),
        };
        entries.insert(dice.roll(entries.len() + 1), (keyword.clone(), value));
    }
    entries.into_iter().collect::<Map<_, _>>().into()
}

/// The schema without one of its keywords, if it has any.
fn weakened(schema: &Value, dice: &mut Dice) -> Option<Value> {
    let mut map = schema.as_object()?.clone();
    let keywords: Vec<String> = map.keys().cloned().collect();
    map.remove(&keywords[dice.roll(keywords.len())]);
    Some(map.into())
}

fn validator(schema: &Value) -> Validator {
    let options =
        jsonschema::options().with_draft(jsonschema::Draft::Draft202012).should_validate_formats(true);
    options.build(schema).unwrap_or_else(|e| panic!("{schema}: {e}"))
}

/// Whether the text is a value of the schema; None where it has a number that the validator has no room for.
fn is_valid((schema, validator): (&Value, &Validator), text: &str) -> Option<bool> {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            read_as_floats(&mut value);
            Some(validator.is_valid(&value))
        }
        Err(e) if e.to_string().starts_with("number out of range") => None,
        Err(e) => panic!("{schema} has {text}: {e}"),
    }
}

/// Reads numbers as clients do, as 64-bit floats.
fn read_as_floats(value: &mut Value) {
    match value {
        Value::Number(n) => *value = json!(n.as_f64().expect("a number is one of 64 bits")),
        Value::Array(items) => items.iter_mut().for_each(read_as_floats),
        Value::Object(members) => members.values_mut().for_each(read_as_floats),
        _ => {}
    }
}

/// The order of keywords says nothing: what differs between two schemas that have the same.
fn reordered(bench: &Bench, schemas: [&Value; 2], texts: bool, dice: &mut Dice) -> Option<String> {
    let [schema, other] = schemas;
    match schemas.map(|schema| bench.compile(&GrammarSpec::JsonSchema(schema.to_string()))) {
        [Ok(_), Ok(_)] if !texts => None,
        [Ok(mut one), Ok(mut another)] => {
            let text = walk(bench, &mut one, dice).ok()??;
            let is_taken = bench.accepts(&mut another, &text).unwrap_or(true);
            (!is_taken).then(|| format!("{schema} has {text}, {other} has not"))
        }
        [Err(_), Err(_)] => None,
        [Ok(_), Err(e)] => Some(format!("{other} is refused ({e}), {schema} is not")),
        [Err(e), Ok(_)] => Some(format!("{schema} is refused ({e}), {other} is not")),
    }
}

#[test]
fn whatever_is_drawn_is_refused_or_enforced() {
    let count = std::env::var("LLGTRT_DRAWN").map_or(SCHEMAS, |count| count.parse().unwrap());
    let with = |key_order| Bench::with(&GrammarConfig { key_order, ..by_the_letter() });
    let benches = [with(KeyOrder::Schema), with(KeyOrder::Any), with(KeyOrder::Required)];
    // Another seed draws other schemas.
    let seed = std::env::var("LLGTRT_DRAWN_SEED").map_or(11, |seed| seed.parse().unwrap());
    let mut drawing = Drawing { dice: Dice(seed), is_plain: false };
    let (mut compiled, mut refused, mut valid, mut caught) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for (number, bench) in benches.iter().cycle().take(count).enumerate() {
        let schema = drawing.schema(3);
        let schema = with_definitions(schema, &mut drawing);
        let judge = (&schema, &validator(&schema));
        match bench.compile(&GrammarSpec::JsonSchema(schema.to_string())) {
            Err(Error::Grammar { why, .. }) if !why.contains("failed inside") => refused += 1,
            Err(Error::Invalid { .. }) => refused += 1,
            Err(other) => panic!("{schema}: {other}"),
            Ok(pristine) => {
                compiled += 1;
                for _ in 0..TEXTS {
                    match walk(bench, &mut pristine.restart(), &mut drawing.dice) {
                        Ok(None) => {}
                        Ok(Some(text)) => match is_valid(judge, &text) {
                            None => {}
                            Some(true) => valid += 1,
                            Some(false) => wrong.push(format!("{schema} has {text}")),
                        },
                        Err(why) => wrong.push(format!("{schema}: {why}")),
                    }
                }
            }
        }
        let other = shuffled(&schema, &mut drawing.dice);
        // Elsewhere keys come in the order in which keywords name them.
        let in_any_order = number % benches.len() == 1;
        wrong.extend(reordered(bench, [&schema, &other], in_any_order, &mut drawing.dice));
        // A rule that is forgotten is found out.
        let Some(weak) = weakened(&schema, &mut drawing.dice) else { continue };
        let Ok(mut grammar) = bench.compile(&GrammarSpec::JsonSchema(weak.to_string())) else { continue };
        if let Ok(Some(text)) = walk(bench, &mut grammar, &mut drawing.dice) {
            caught += usize::from(is_valid(judge, &text) == Some(false));
        }
    }
    println!("{compiled} compiled, {refused} refused, {valid} texts; {caught} forgotten keywords found out");
    assert!(wrong.is_empty(), "{}: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(compiled * 3 > count && valid > compiled && caught * 10 > count);
}
