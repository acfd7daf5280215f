//! The JSON schema of [`Config`], read as a table of keys: their names, what each must hold, in words, and its range.

use super::Config;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema of `Config` with every sub-schema written out in its place.
pub(super) fn root() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Config>().to_value()
}

/// The schema of the member `key` of the object or map that `schema` describes.
pub(super) fn member<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|members| members.get(key));
    named.or_else(|| schema.get("additionalProperties").filter(|values| values.is_object()))
}

/// True where `schema` describes an object with named members.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.get("properties").is_some()
}

/// `path.key`, or `key` at the top.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Dotted names of every key below `schema`, groups included, in the order of the structs.
pub(super) fn names(schema: &Value, path: &str) -> Vec<String> {
    let members = schema.get("properties").and_then(Value::as_object);
    let below = |(key, sub): (&String, &Value)| {
        let name = join(path, key);
        let deeper = names(sub, &name);
        std::iter::once(name).chain(deeper).collect::<Vec<_>>()
    };
    members.into_iter().flatten().flat_map(below).collect()
}

/// What a value must be, in words that follow "must be".
pub(super) fn words(schema: &Value) -> String {
    let null = if has_type(schema, "null") { " or null" } else { "" };
    format!("{}{null}", kind(schema))
}

fn kind(schema: &Value) -> String {
    if let Some(choices) = choices(schema) {
        let quoted: Vec<_> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
        let or = if has_type(schema, "object") { ", or an object" } else { "" };
        return format!("one of {}{or}", quoted.join(", "));
    }
    if let Some(items) = schema.get("items") {
        return format!("a list in which each item is {}", words(items));
    }
    let plain = [("object", "an object"), ("boolean", "true or false"), ("string", "a string")];
    if has_type(schema, "string") && limit(schema, "minLength").is_some_and(|least| least > 0.0) {
        return "a string that is not empty".into();
    }
    if let Some((_, words)) = plain.into_iter().find(|(name, _)| has_type(schema, name)) {
        return words.into();
    }
    let what = if has_type(schema, "integer") { "a whole number" } else { "a number" };
    format!("{what}{}", range(schema))
}

fn range(schema: &Value) -> String {
    let above = limit(schema, "exclusiveMinimum").map(|bound| format!(" above {bound}"));
    let least = limit(schema, "minimum").map(|bound| format!(" from {bound}"));
    let most = limit(schema, "maximum").map(|bound| format!(" to {bound}"));
    match (above, least, most) {
        (Some(above), _, Some(most)) => format!("{above} up{most}"),
        (Some(above), _, None) => above,
        (None, Some(least), Some(most)) => format!("{least}{most}"),
        (None, least, most) => least.or(most).unwrap_or_default(),
    }
}

/// The values of an enumeration, or none for any other kind.
pub(super) fn choices(schema: &Value) -> Option<Vec<&str>> {
    let variants = schema.get("oneOf")?.as_array()?;
    variants.iter().map(|variant| variant.get("const")?.as_str()).collect()
}

/// True where `schema` lists `name` among its types.
pub(super) fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

/// A numeric keyword of `schema`.
pub(super) fn limit(schema: &Value, keyword: &str) -> Option<f64> {
    schema.get(keyword)?.as_f64()
}

/// True where `value`, which has the right type, is within the range or length that `schema` asks for.
pub(super) fn in_range(schema: &Value, value: &Value) -> bool {
    match value {
        Value::Null => has_type(schema, "null"),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            limit(schema, "minimum").is_none_or(|bound| number >= bound)
                && limit(schema, "exclusiveMinimum").is_none_or(|bound| number > bound)
                && limit(schema, "maximum").is_none_or(|bound| number <= bound)
        }
        Value::String(text) => {
            limit(schema, "minLength").is_none_or(|least| text.chars().count() as f64 >= least)
        }
        _ => true,
    }
}
