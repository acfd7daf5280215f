//! [`Config`] to commented JSON.

use super::{Config, schema};
use serde_json::Value;

/// The configuration as JSON with one `//` comment per key, taken from the structs' docs. It is itself a valid file:
/// `load(Some(&print(&config)), "{}")` gives `config` again.
pub fn print(config: &Config) -> String {
    let value = serde_json::to_value(config).expect("the configuration is plain data. This is a bug.");
    let mut out = String::new();
    write_value(&mut out, &schema::root(), &value, 0);
    out.push('\n');
    out
}

fn write_value(out: &mut String, schema: &Value, value: &Value, depth: usize) {
    let Some(members) = value.as_object().filter(|_| schema::is_object(schema)) else {
        out.push_str(&value.to_string());
        return;
    };
    let indent = "  ".repeat(depth + 1);
    out.push('{');
    for (index, (key, value)) in members.iter().enumerate() {
        let sub = schema::member(schema, key).expect("every field is in the schema. This is a bug.");
        let comma = if index == 0 { "" } else { "," };
        out.push_str(&format!(
            "{comma}\n{indent}// {}\n{indent}{}: ",
            comment(sub),
            Value::from(key.as_str())
        ));
        write_value(out, sub, value, depth + 1);
    }
    out.push_str(&format!("\n{}}}", "  ".repeat(depth)));
}

/// The key's doc comment on one line, and what it must be where that says more than the default does.
fn comment(schema: &Value) -> String {
    let doc = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut line = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let bounded = schema::choices(schema).is_some() || schema::limit(schema, "maximum").is_some();
    if bounded {
        line.push_str(&format!(" Must be {}.", schema::words(schema)));
    }
    line
}
