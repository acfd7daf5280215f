//! Inputs that are known to hurt llguidance: each ends in a clear error or compiles, and none ends the process.

use super::common::Bench;
use llgtrt::error::Error;
use llgtrt::grammar::GrammarSpec;
use serde_json::{Map, Value, json};
use std::time::Instant;

fn schema(schema: &Value) -> GrammarSpec {
    GrammarSpec::JsonSchema(schema.to_string())
}

fn lark(source: String) -> GrammarSpec {
    GrammarSpec::LarkGrammar(source)
}

fn properties(n: usize, of: impl Fn(usize) -> Value) -> Value {
    Value::Object((0..n).map(|i| (format!("p{i}"), of(i))).collect::<Map<_, _>>())
}

fn chain_of_rules(n: usize) -> String {
    (0..n).fold("start: r0".to_owned(), |s, i| format!("{s}\nr{i}: r{}", i + 1)) + &format!("\nr{n}: \"x\"")
}

fn chain_of_refs(n: usize) -> Value {
    let mut defs = Map::new();
    for i in 0..n {
        defs.insert(format!("d{i}"), json!({ "$ref": format!("#/$defs/d{}", i + 1) }));
    }
    defs.insert(format!("d{n}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// Name, spec, and whether it compiles (None: either is fine).
type Input = (&'static str, GrammarSpec, Option<bool>);

fn schemas_in_lark(n: usize) -> String {
    let rule = |i: usize| format!("a{i}: %json {{\"type\": \"integer\", \"multipleOf\": {}}}\n", 9001 + i);
    let names: Vec<_> = (0..n).map(|i| format!("a{i}")).collect();
    format!("start: {}\n{}", names.join(" | "), (0..n).map(rule).collect::<String>())
}

fn divisors() -> Vec<Input> {
    let many = properties(100, |i| json!({"multipleOf": 9001 + i}));
    let parts = json!([{"multipleOf": 4999}, {"multipleOf": 4993}]);
    let behind = json!({"$ref": "#/$defs/a", "multipleOf": 4999, "$defs": {"a": {"multipleOf": 4993}}});
    vec![
        ("one big divisor", schema(&json!({"multipleOf": 1_000_003})), Some(false)),
        ("the biggest divisor", schema(&json!({"type": "integer", "multipleOf": 9973})), Some(true)),
        ("a tiny divisor", schema(&json!({"type": "number", "multipleOf": 1e-300})), None),
        ("a huge divisor", schema(&json!({"type": "number", "multipleOf": 1e300})), Some(false)),
        ("many divisors", schema(&json!({ "properties": many })), Some(false)),
        ("divisors multiplied", schema(&json!({ "allOf": parts })), Some(false)),
        ("divisors over a reference", schema(&behind), Some(false)),
        ("divisors of many schemas in Lark", lark(schemas_in_lark(100)), Some(false)),
        ("a divisor in Lark", lark("start: %json {\"multipleOf\": 1000003}".into()), Some(false)),
    ]
}

fn objects() -> Vec<Input> {
    let text = |_| json!({"type": "string"});
    let parts: Vec<Value> = (0..3000).map(|i| json!({"properties": {format!("p{i}"): {}}})).collect();
    let keys: Map<_, _> = (0..50).map(|i| (format!("^k{i}-[a-z]+$"), json!({}))).collect();
    let feigned = json!({"properties": properties(2000, text), "required": vec!["z"; 1600]});
    let counted = json!({"type": "object", "minProperties": 1_000_000, "maxProperties": 1_000_000_000});
    vec![
        ("optional properties", schema(&json!({ "properties": properties(5000, text) })), Some(false)),
        ("feigned requirements", schema(&feigned), Some(true)),
        ("as many as allowed", schema(&json!({ "properties": properties(4500, text) })), Some(true)),
        ("optional properties in parts", schema(&json!({ "allOf": parts })), Some(false)),
        ("patterns for keys", schema(&json!({ "patternProperties": properties(300, text) })), Some(false)),
        ("fifty patterns", schema(&json!({ "patternProperties": keys })), None),
        ("counted properties", schema(&counted), None),
    ]
}

fn branches() -> Vec<Input> {
    let mail =
        |i: usize| json!({"type": "string", "format": "email", "pattern": format!("a{i}"), "maxLength": 90});
    let object = |i: usize| json!({"type": "object", "properties": {format!("p{i}"): {}}});
    let needs = |i: usize| json!({"required": [format!("p{i}")]});
    let any = |of: &dyn Fn(usize) -> Value, n| json!({"anyOf": (0..n).map(of).collect::<Vec<_>>()});
    let values: Vec<String> = (0..40_000).map(|i| format!("v{i}")).collect();
    vec![
        ("branches", schema(&any(&mail, 1500)), None),
        ("branches that are objects", schema(&any(&object, 1400)), None),
        ("branches within branches", schema(&json!({"anyOf": vec![any(&object, 60); 60]})), None),
        ("products of branches", schema(&json!({"allOf": vec![any(&needs, 60); 6]})), None),
        ("long enumeration", schema(&json!({ "enum": values })), Some(true)),
        ("ten thousand choices", GrammarSpec::Choice(values[..10_000].to_vec()), Some(true)),
    ]
}

fn counts() -> Vec<Input> {
    let text = json!({"type": "string", "minLength": 100_000, "maxLength": 1_000_000_000});
    let list = json!({"type": "array", "minItems": 1_000_000, "maxItems": 1_000_000_000, "items": {"type": "object"}});
    let nested = json!({"type": "string", "pattern": "^((a{1000}){1000}){1000}$"});
    let mixed = json!({"type": "string", "pattern": "(a|aa|aaa)*b(.*c.*d.*){30}e[^x]{500}"});
    let rules = (0..2500).fold("start: \"a\"".to_owned(), |s, i| format!("{s}\nr{i}: \"x\"{{1,{i}}}"));
    vec![
        ("counted strings", schema(&text), None),
        ("counted items", schema(&list), None),
        ("nested counts", schema(&nested), None),
        ("alternations", schema(&mixed), None),
        ("repeat counts", lark(rules), None),
        ("a big repeat", lark("start: (\"a\" | \"b\" start?){1,100000}".into()), None),
        ("repeats in a regular expression", GrammarSpec::Regex("(a{1000}){1000}".into()), None),
    ]
}

/// Each keyword that has no effect is left out unless a reference leads into it.
fn keywords_and_references() -> Value {
    let idle = |i: usize| json!({"not": false, "$ref": format!("#/$defs/d{}/not", i + 1)});
    let defs: Map<_, _> = (0..20_000).map(|i| (format!("d{i}"), idle(i))).collect();
    json!({"type": "integer", "$defs": defs, "anyOf": [{"$ref": "#/$defs/d0"}]})
}

/// Its rules stand in each other as often as there have to be items.
fn contained(n: usize) -> Value {
    json!({"contains": true, "minContains": n})
}

/// So many bytes of Lark whose rules stand in each other, each in as many groups as llguidance takes.
fn deep_groups(bytes: usize) -> String {
    let rule = |i: usize| format!("r{i}: {}r{}{}\n", "(".repeat(27), i + 1, ")".repeat(27));
    let rules: String = (0..bytes / 68).map(rule).collect();
    format!("start: r0\n{rules}r{}: \"x\"\n", bytes / 68)
}

fn chains() -> Vec<Input> {
    let schema_of = json!({"properties": {"a": contained(100_000)}}).to_string();
    let calls = json!({
        "tools": [{"name": "f", "schema": schema_of}], "before": "<c>", "between": "", "after": "",
    });
    let calls = GrammarSpec::Calls(serde_json::from_value(calls).unwrap());
    let arrays = |n| (0..n).fold(json!({}), |s, _| json!({"items": s, "type": "array"}));
    let tree = |of: &str| json!({"type": "object", "properties": {"c": {"$ref": format!("#/$defs/{of}")}}});
    let both = json!([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]);
    let crossing = json!({"allOf": both, "$defs": {"a": tree("a"), "b": tree("b")}});
    let turning = json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}});
    let literals = |n: usize| (0..n).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join("|");
    vec![
        ("chain of references", schema(&chain_of_refs(900)), Some(true)),
        ("longer chain", schema(&chain_of_refs(3000)), Some(false)),
        ("nested arrays", schema(&arrays(45)), Some(true)),
        ("deep arrays", schema(&arrays(500)), Some(false)),
        ("a schema of itself", schema(&json!({"$ref": "#"})), Some(false)),
        (
            "a loop of references",
            schema(&json!({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": turning})),
            Some(false),
        ),
        ("trees that cross", schema(&crossing), None),
        ("keywords and references", schema(&keywords_and_references()), None),
        ("rules in rules, in Lark", lark(format!("start: %json {}", contained(100_000))), Some(true)),
        ("rules in rules of a function", calls, Some(true)),
        (
            "repetitions of each other",
            GrammarSpec::Gbnf(format!("root ::= \"a\"{}", "?".repeat(60_000))),
            Some(false),
        ),
        ("groups in Lark", lark(deep_groups(64 * 1024)), None),
        ("many literals", lark(format!("start: {}", literals(300_000))), Some(false)),
        ("as many as fit", lark(format!("start: {}", literals(8_000))), None),
        ("chain of rules", lark(chain_of_rules(4000)), None),
    ]
}

fn rules() -> Vec<Input> {
    let gbnf = |source: String| GrammarSpec::Gbnf(source);
    let nested = |inner: &str| gbnf(format!("root ::= \"(\" root \")\" | {inner}"));
    let words: Vec<_> = (0..5_000).map(|i| format!("\"w{i}\"")).collect();
    let classes: Vec<_> = (0..1_500).map(|i| format!("[\\U{:08x}] \"!\" root", 0x4e00 + i)).collect();
    let chain: String = (0..1_500).map(|i| format!("r{i} ::= r{} | \"(\" root \")\"\n", i + 1)).collect();
    let counts: Vec<_> = (1..40).map(|i| format!("([a-z]{{{i},{}}} \"-\")", 50 * i)).collect();
    vec![
        ("ambiguous rules", gbnf("root ::= root root | [a-z] | root \"a\" root".into()), Some(true)),
        ("words beside rules", nested(&words.join(" | ")), None),
        ("characters beside rules", nested(&classes.join(" | ")), None),
        ("chain of choices", gbnf(format!("root ::= r0\n{chain}r1500 ::= \"x\"")), None),
        ("counts that overlap", nested(&counts.join(" | ")), None),
        ("counts of counts", nested("(([a-z]{1,5000} \"-\"){1,5000} root?){1,5000}"), None),
    ]
}

#[test]
fn the_worst_inputs_end_in_an_answer() {
    let bench = Bench::new();
    for (name, spec, compiles) in [divisors(), objects(), branches(), counts(), chains(), rules()].concat() {
        let start = Instant::now();
        let outcome = bench.compile(&spec);
        let took = start.elapsed();
        let said = match &outcome {
            Ok(_) => "compiles".to_owned(),
            Err(Error::Grammar { pointer, keyword, why }) => format!("{keyword} at {pointer:?}: {why}"),
            Err(other) => panic!("{name}: {other}"),
        };
        println!("{:>7.0} ms  {name}: {said}", took.as_secs_f64() * 1e3);
        if let Some(expected) = compiles {
            assert_eq!(outcome.is_ok(), expected, "{name}: {said}");
        }
        if let Ok(mut grammar) = outcome {
            // The first steps work too, or end with an error of this sequence.
            for _ in 0..8 {
                let Ok(next) = grammar.mask() else { break };
                let mask = next.mask().unwrap();
                let Some(token) = mask.iter().find(|t| !bench.vocab.is_eog(*t)) else { break };
                if grammar.commit(token).is_err() {
                    break;
                }
            }
        }
    }
    assert!(bench.schema(&json!({"type": "integer"})).is_ok(), "the compiler works on");
}

#[test]
fn escapes_in_keys_do_not_pass_for_other_keys() {
    let bench = Bench::new();
    let typed = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    assert!(bench.satisfies(&typed, r#"{"a":1,"b":"x"}"#));
    assert!(!bench.satisfies(&typed, r#"{"\u0061":"x"}"#));
    assert!(!bench.satisfies(&typed, r#"{"a":"x"}"#));
    let patterns = json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}}});
    assert!(!bench.satisfies(&patterns, r#"{"\u0061b":"x"}"#));
}
