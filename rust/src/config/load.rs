//! File + flags to [`Config`]: JSON with comments, refused by the key's dotted name.

use super::parallel::make_way;
use super::speculative::take_list;
use super::{Config, schema};
use crate::error::{Error, Result};
use jsonc_parser::ParseOptions;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// How a file is called in errors that no key can be blamed for.
const FILE: &str = "runtime.json";
/// What a draft model's own file may set beside `kv_cache_*`.
const OF_DRAFTS: [&str; 5] =
    ["engine.kv_cache_type", "engine.threads", "engine.gpu_layers", "engine.main_gpu", "engine.tensor_split"];

/// Reads the configuration: defaults, then the file `text` (JSON with comments and trailing commas), then `overrides`,
/// a JSON object nested like the file.
///
/// # Errors
/// `Invalid` with the key's dotted name for an unknown key (with the nearest known one), a value of the wrong type or
/// one out of its range; with `runtime.json` for a file that is not JSON.
pub fn load(text: Option<&str>, overrides: &str) -> Result<Config> {
    let mut merged = text.map_or_else(|| Ok(Value::Object(Default::default())), parse)?;
    decode(&merged)?;
    take_list(&mut merged)?;
    let mut flags: Value =
        serde_json::from_str(overrides).map_err(|error| Error::invalid("overrides", error.to_string()))?;
    if !flags.is_object() {
        return Err(Error::invalid("overrides", "must be an object"));
    }
    take_list(&mut flags)?;
    make_way(&mut merged, &flags);
    merge(&mut merged, flags);
    let config = decode(&merged)?;
    config.validate()?;
    Ok(config)
}

/// The configuration of a draft model: the target's, with what the `runtime.json` in the draft's own folder says about
/// its KV, threads and GPUs. Others of TensorRT-LLM's keys, which its engine folders have, are logged and mean nothing there.
///
/// # Errors
/// `Invalid` naming the file where it cannot be read, the file and the key where it sets any other key or a value that
/// does not suit.
pub fn for_draft(target: &Config, file: &std::path::Path) -> Result<Config> {
    let refused = |why: String| Error::invalid(file.display().to_string(), why);
    let text = std::fs::read_to_string(file).map_err(|e| refused(format!("cannot be read: {e}")))?;
    let mut own = parse(&text).map_err(|e| refused(e.to_string()))?;
    let alone = decode(&own).map_err(|e| refused(e.to_string()))?;
    check_ranges(&alone).map_err(|e| refused(e.to_string()))?;
    let mut foreign = leaves(&own, "");
    foreign.retain(|key| !key.starts_with("kv_cache_") && !OF_DRAFTS.contains(&key.as_str()));
    let (grouped, ignored): (Vec<_>, Vec<_>) = foreign.into_iter().partition(|key| key.contains('.'));
    if !ignored.is_empty() {
        log::info!("{}: {} mean nothing for a draft model", file.display(), ignored.join(", "));
    }
    own.as_object_mut().into_iter().for_each(|keys| keys.retain(|key, _| !ignored.contains(key)));
    let foreign = grouped.into_iter().next();
    if let Some(key) = foreign {
        let own = OF_DRAFTS.join(", ");
        let why =
            format!("a draft model's file may set kv_cache_* and {own} only; move the rest to the target's");
        return Err(refused(format!("{key}: {why}")));
    }
    let target = Config { plan: None, ..target.clone() };
    let mut merged = serde_json::to_value(target).expect("the configuration is plain data. This is a bug.");
    merge(&mut merged, own);
    let config = decode(&merged).map_err(|e| refused(e.to_string()))?;
    check_ranges(&config).and_then(|()| config.engine.validate()).map_err(|e| refused(e.to_string()))?;
    Ok(config)
}

/// Dotted names of every value.
fn leaves(value: &Value, path: &str) -> Vec<String> {
    match value.as_object() {
        Some(members) => {
            members.iter().flat_map(|(key, value)| leaves(value, &schema::join(path, key))).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// The file's object.
pub(super) fn parse(text: &str) -> Result<Value> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: Value = jsonc_parser::parse_to_serde_value(text, &options)
        .map_err(|error| Error::invalid(FILE, format!("not valid JSON: {error}")))?;
    if file.is_object() { Ok(file) } else { Err(Error::invalid(FILE, "must hold one object")) }
}

/// Lays `over` on `base`: objects member by member, everything else as a whole.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn decode(value: &Value) -> Result<Config> {
    let root = schema::root();
    refuse_unknown(&root, &root, value, "")?;
    serde_path_to_error::deserialize(value).map_err(|error| ill_typed(&root, value, error.path()))
}

fn refuse_unknown(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<()> {
    let members = value.as_object().filter(|_| schema::is_object(schema));
    for (key, value) in members.into_iter().flatten() {
        let name = schema::join(path, key);
        let Some(sub) = schema::member(schema, key) else {
            let why = format!("unknown key; the nearest known one is {}", nearest(root, &name));
            return Err(Error::invalid(name, why));
        };
        refuse_unknown(root, sub, value, &name)?;
    }
    Ok(())
}

/// The known key closest to `name` by edit distance of the last part, then of the whole: a key in the wrong group is
/// found too.
fn nearest(root: &Value, name: &str) -> String {
    let leaf = |name: &str| name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let distance = |known: &String| {
        let of_leaf = strsim::damerau_levenshtein(&leaf(name), &leaf(known));
        (of_leaf, strsim::damerau_levenshtein(name, known))
    };
    schema::names(root, "").into_iter().min_by_key(distance).expect("there are keys. This is a bug.")
}

fn ill_typed(root: &Value, value: &Value, path: &Path) -> Error {
    let (mut schema, mut value) = (root, value);
    for segment in path.iter() {
        let (sub, inner) = match segment {
            Segment::Map { key } => (schema::member(schema, key), value.get(key)),
            Segment::Seq { index } => (schema.get("items"), value.get(index)),
            Segment::Enum { .. } | Segment::Unknown => break,
        };
        (schema, value) = (sub.unwrap_or(schema), inner.unwrap_or(value));
    }
    Error::invalid(path.to_string(), must_be(schema, value))
}

fn must_be(schema: &Value, value: &Value) -> String {
    let shown = match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        plain => plain.to_string(),
    };
    format!("must be {}, not {shown}", schema::words(schema))
}

/// Checks `config` against the ranges in its schema.
pub(super) fn check_ranges(config: &Config) -> Result<()> {
    let value = serde_json::to_value(config).expect("the configuration is plain data. This is a bug.");
    check_range(&schema::root(), &value, "")
}

fn check_range(schema: &Value, value: &Value, path: &str) -> Result<()> {
    match value {
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            // The schema does not describe the members of a free-form object; the engine that gets them checks them.
            schema::member(schema, key)
                .map_or(Ok(()), |sub| check_range(sub, value, &schema::join(path, key)))
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| check_range(&schema["items"], item, &format!("{path}[{index}]"))),
        plain if schema::in_range(schema, plain) => Ok(()),
        plain => Err(Error::invalid(path, must_be(schema, plain))),
    }
}
