//! Values as they are compared.

use serde_json::Value;
use std::fmt::Write as _;

/// A value as it is compared: numbers as the doubles that readers get, keys in one order.
pub(super) fn compared(value: &Value, out: &mut String) {
    match value {
        Value::Number(n) => out.push_str(&number(n.as_f64().unwrap_or(f64::INFINITY))),
        Value::Array(list) => {
            out.push('[');
            list.iter().for_each(|item| {
                compared(item, out);
                out.push(',');
            });
            out.push(']');
        }
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in pairs {
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                compared(value, out);
                out.push(',');
            }
            out.push('}');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// A number as it is compared.
pub(super) fn number(n: f64) -> String {
    // Adding 0 makes -0 the same as 0.
    format!("{:?}", n + 0.0)
}
