//! Small languages: lists of all their texts, automata of the crate `regex-automata` from expressions written by hand, and
//! a counter.

use llgtrt::grammar::GrammarSpec;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::{Anchored, MatchKind, util::start};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// White space: behind brackets that open, commas and colons, and before brackets that close.
const W: &str = r"(?:\r?\n(?: {0,40}|\t{0,10})| )?";
/// A character of a string as outputs write it: one of UTF-16's units or two.
const C: &str = concat!(
    r#"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2}"#,
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
);

/// A set of texts.
pub enum Language {
    /// These.
    Texts(BTreeSet<Vec<u8>>),
    /// What an automaton accepts.
    Automaton(Box<dense::DFA<Vec<u32>>>),
    /// Arrays of such arrays.
    Nested,
    /// Such a text, with a space before it or not.
    Led(Box<Language>),
}

/// Whether some white space is `W` so many times at most, and whether it begins such.
fn spaces(run: &[u8], most: usize) -> (bool, bool) {
    let one = |run: &[u8]| {
        let line = run.strip_prefix(b"\r").unwrap_or(run);
        let indented = |rest: &[u8]| {
            let of = |byte: u8, most: usize| rest.len() <= most && rest.iter().all(|b| *b == byte);
            of(b' ', 40) || of(b'\t', 10)
        };
        run.is_empty() || run == b" " || line.strip_prefix(b"\n").is_some_and(indented)
    };
    let Some(fewer) = most.checked_sub(1) else { return (run.is_empty(), run.is_empty()) };
    let split = |at| run.split_at(at);
    let whole = (0..=run.len()).map(split).any(|(a, b)| one(a) && spaces(b, fewer).0);
    let begins = |(a, b): (&[u8], &[u8])| spaces(a, fewer).0 && (one(b) || b == b"\r");
    (whole, (0..=run.len()).map(split).any(begins))
}

impl Language {
    fn texts<T: AsRef<str>>(list: impl IntoIterator<Item = T>) -> Self {
        Language::Texts(list.into_iter().map(|text| text.as_ref().as_bytes().to_vec()).collect())
    }

    /// Whole matches; `W` and `C` in the expression are what they are here.
    fn expression(text: &str) -> Self {
        let whole = format!(r"(?:{})\z", text.replace('W', W).replace('C', C));
        let config = dense::Config::new().start_kind(StartKind::Anchored).match_kind(MatchKind::All);
        Language::Automaton(Box::new(dense::Builder::new().configure(config).build(&whole).unwrap()))
    }

    /// Whether the text begins one of the language, and whether it is one.
    pub fn judge(&self, text: &[u8]) -> (bool, bool) {
        match self {
            Language::Texts(list) => {
                let next = list.range(text.to_vec()..).next();
                (next.is_some_and(|next| next.starts_with(text)), list.contains(text))
            }
            Language::Automaton(dfa) => {
                let start = start::Config::new().anchored(Anchored::Yes);
                let mut state = dfa.start_state(&start).unwrap();
                text.iter().for_each(|b| state = dfa.next_state(state, *b));
                (!dfa.is_dead_state(state), dfa.is_match_state(dfa.next_eoi_state(state)))
            }
            Language::Nested => nested(text),
            Language::Led(_) if text == b" " => (true, false),
            Language::Led(inner) => inner.judge(text.strip_prefix(b" ").unwrap_or(text)),
        }
    }

    /// The bytes with which the text goes on.
    pub fn next(&self, text: &[u8]) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |b| self.judge(&[text, &[*b]].concat()).0)
    }

    /// The only byte with which the text goes on, if it must.
    pub fn only(&self, text: &[u8]) -> Option<u8> {
        let mut next = self.next(text);
        let first = next.next()?;
        (next.next().is_none() && !self.judge(text).1).then_some(first)
    }

    /// Whether this must follow the text, and is not nothing.
    pub fn forces(&self, text: &[u8], what: &[u8]) -> bool {
        let forced = |i: usize| self.only(&[text, &what[..i]].concat()) == Some(what[i]);
        !what.is_empty() && (0..what.len()).all(forced)
    }
}

/// What may come next in arrays of arrays.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Begin,
    Open,
    Comma,
    Close,
}

fn nested(text: &[u8]) -> (bool, bool) {
    let (mut depth, mut after, mut rest) = (0usize, After::Begin, text);
    while let [b, tail @ ..] = rest {
        rest = tail;
        (depth, after) = match (b, after) {
            (b'[', After::Begin | After::Open | After::Comma) => (depth + 1, After::Open),
            (b']', After::Open | After::Close) if depth > 0 => (depth - 1, After::Close),
            (b',', After::Close) if depth > 0 => (depth, After::Comma),
            (b' ' | b'\n' | b'\r' | b'\t', After::Open | After::Comma | After::Close) if depth > 0 => {
                let here = &text[text.len() - tail.len() - 1..];
                let length = here.iter().take_while(|b| b" \n\r\t".contains(b)).count();
                // An empty array may have some behind its first bracket and some before its last.
                let (behind, before) = (after != After::Close, after != After::Comma);
                let most = match here.get(length) {
                    Some(b']') => usize::from(behind) + usize::from(before),
                    Some(_) => usize::from(behind),
                    None => usize::from(behind) + usize::from(before),
                };
                let (whole, begins) = spaces(&here[..length], most);
                if length == here.len() {
                    return (begins, false);
                }
                if !whole {
                    return (false, false);
                }
                rest = &here[length..];
                (depth, after)
            }
            _ => return (false, false),
        };
    }
    (true, depth == 0 && after == After::Close)
}

/// A constraint, one that differs from it in something small, and the language of the first.
pub struct Row {
    pub spec: GrammarSpec,
    pub near: GrammarSpec,
    pub language: Language,
}

fn row(spec: GrammarSpec, near: GrammarSpec, language: Language) -> Row {
    Row { spec, near, language }
}

fn schema(schema: Value, near: Value, language: Language) -> Row {
    let spec = |schema: Value| GrammarSpec::JsonSchema(schema.to_string());
    row(spec(schema), spec(near), Language::Led(Box::new(language)))
}

fn regex(text: &str, near: &str, language: &str) -> Row {
    let spec = |text: &str| GrammarSpec::Regex(text.into());
    row(spec(text), spec(near), Language::expression(language))
}

fn integers(list: impl Iterator<Item = i32>) -> Language {
    Language::texts(list.map(|n| n.to_string()))
}

/// All of them.
pub fn rows() -> Vec<Row> {
    [texts(), numbers(), strings(), objects(), arrays()].into_iter().flatten().collect()
}

fn texts() -> Vec<Row> {
    let choices = |list: &[&str]| GrammarSpec::Choice(list.iter().map(ToString::to_string).collect());
    let list = ["ab", "abc", "a", "\"é\"", "{\"a\":1}", "null", "true "];
    let lark = |most: &str| {
        GrammarSpec::LarkGrammar(format!("start: \"<\" N (\",\" N)* \">\"\nN: /[a-c]{{1,{most}}}/"))
    };
    let gbnf = |sign: &str| GrammarSpec::Gbnf(format!("root ::= {sign} d+ (\", \" d+){{0,2}}\nd ::= [0-9]"));
    vec![
        row(choices(&list), choices(&list[1..]), Language::texts(list)),
        row(lark("3"), lark("4"), Language::expression("<[a-c]{1,3}(?:,[a-c]{1,3})*>")),
        row(gbnf("\"-\"?"), gbnf("\"-\""), Language::expression("-?[0-9]+(?:, [0-9]+){0,2}")),
        regex("(ab|a)*b{2,3}", "(ab|a)*b{2,4}", "(?:ab|a)*b{2,3}"),
        regex(r"(a|ab)(c|bcd)(d*)", r"(a|ab)(c|bcd)(d+)", "(?:ac|abcd|abc|abbcd)d*"),
        regex(r"[^\n]{0,2}é\d{2}", r"[^\n]{0,2}e\d{2}", "[^\n]{0,2}é[0-9]{2}"),
        regex("^(true|null)?$", "^(true|null)$", "|true|null"),
    ]
}

/// Whole numbers of 64 bits with a sign.
fn of_64_bits() -> String {
    let up_to = |most: &str| {
        let lower = most.char_indices().filter(|(at, digit)| *digit > if *at == 0 { '1' } else { '0' });
        let lower = lower.map(|(at, digit)| {
            let (first, last) = (u8::from(at == 0), digit as u8 - b'1');
            format!("{}[{first}-{last}][0-9]{{{}}}", &most[..at], most.len() - 1 - at)
        });
        format!("[1-9][0-9]{{0,17}}|{}|{most}", lower.collect::<Vec<_>>().join("|"))
    };
    format!("0|{}|-(?:{})", up_to(&i64::MAX.to_string()), up_to(&i64::MIN.to_string()[1..]))
}

fn numbers() -> Vec<Row> {
    let within = |most: i32| json!({"type": "integer", "minimum": -12, "maximum": most});
    let branch = |of: i32| json!({"type": "integer", "multipleOf": of, "minimum": 0, "maximum": 200});
    let one_of = |a: i32, b: i32| json!({"oneOf": [branch(a), branch(b)]});
    vec![
        schema(within(105), within(106), integers(-12..=105)),
        schema(one_of(2, 5), one_of(2, 10), integers((0..=200).filter(|n| (n % 2 == 0) != (n % 5 == 0)))),
        schema(
            json!({"type": "integer"}),
            json!({"type": "integer", "maximum": 1_000_000}),
            Language::expression(&of_64_bits()),
        ),
        schema(
            json!({"type": "number", "minimum": 0.5, "maximum": 1.5}),
            json!({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1.5}),
            Language::expression(r"0\.[5-9][0-9]{0,15}|1(?:\.(?:[0-4][0-9]{0,15}|50{0,15}))?"),
        ),
        schema(
            json!({"type": "number", "minimum": 0, "exclusiveMaximum": 2, "multipleOf": 0.5}),
            json!({"type": "number", "minimum": 0, "exclusiveMaximum": 2, "multipleOf": 0.25}),
            // With as many decimals as the factor has.
            Language::expression(r"[01](?:\.[05])?"),
        ),
    ]
}

fn strings() -> Vec<Row> {
    let least = |least: u32| json!({"type": "string", "minLength": least, "maxLength": 3});
    // Longer than a token, at both ends.
    let long = |least: u32| json!({"type": ["string", "null"], "minLength": least, "maxLength": 20});
    let plain = r#"(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt])"#;
    let odd = "a\"\\\n\té/\u{7f}\u{1}";
    let not = |texts: &[&str]| json!({"type": "string", "pattern": "^[ab]*$", "maxLength": 2, "not": {"enum": texts}});
    let enumerated =
        |last: Value| json!({"enum": ["ab", "abc", "a\"b", "é", 12, true, null, [1, "x"], last]});
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    vec![
        schema(least(1), least(2), Language::expression("\"C{1,3}\"")),
        schema(long(6), long(7), Language::expression("(?:\"C{6,20}\"|null)")),
        schema(
            json!({"type": "string", "pattern": "[ab]{3}"}),
            json!({"type": "string", "pattern": "[ab]{4}"}),
            Language::expression(&format!("\"{plain}*[ab]{{3}}{plain}*\"")),
        ),
        schema(
            json!({"const": odd}),
            json!({"const": &odd[1..]}),
            Language::texts([r#""a\"\\\n\té/\u007f\u0001""#]),
        ),
        schema(
            not(&["a", "ab"]),
            not(&["a"]),
            Language::texts([r#""""#, r#""b""#, r#""aa""#, r#""ba""#, r#""bb""#]),
        ),
        schema(
            enumerated(json!({"k": 1})),
            enumerated(json!({"k": 12})),
            Language::expression(r#""ab"|"abc"|"a\\"b"|"é"|12|true|null|\[W1,W"x"W\]|\{W"k":W1W\}"#),
        ),
        schema(
            json!({"type": "string", "pattern": "^ab*c?$"}),
            json!({"type": "string", "pattern": "^ab*c$"}),
            Language::expression(r#""ab*c?""#),
        ),
        schema(
            json!({"type": "string", "format": "ipv4"}),
            json!({"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"}),
            Language::expression(&format!(r#""{byte}(?:\.{byte}){{3}}""#)),
        ),
    ]
}

fn objects() -> Vec<Row> {
    let properties = json!({"a": {"enum": [1, 12]}, "b": {"type": "boolean"}, "c": {"const": "x"}});
    let closed = |required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let dependent = |keyword: &str| json!({"type": "object", "properties": properties, "additionalProperties": false, keyword: {"a": ["c"]}});
    let conditional = |value: &str| {
        json!({
            "type": "object", "required": ["t", "v"], "additionalProperties": false,
            "properties": {"t": {"enum": ["a", "ab"]}, "v": true},
            "if": {"properties": {"t": {"const": value}}},
            "then": {"properties": {"v": {"type": "null"}}},
            "else": {"properties": {"v": {"type": "boolean"}}},
        })
    };
    let nested = |required: &str| {
        let inner = json!({"type": "array", "items": {"const": 0}, "maxItems": 2});
        let object = json!({"type": "object", "properties": {"i": inner}, "additionalProperties": false});
        json!({"type": "object", "properties": {"o": object}, required: ["o"], "additionalProperties": false})
    };
    let matching = |most: u32| {
        json!({"type": "object", "maxProperties": most, "patternProperties": {"^k{1,2}$": {"const": 0}},
               "additionalProperties": false})
    };
    let (a, b, c) = (r#""a":W(?:1|12)"#, r#""b":W(?:true|false)"#, r#""c":W"x""#);
    vec![
        schema(
            closed(json!(["b"])),
            closed(json!(["b", "c"])),
            Language::expression(&format!(r"\{{W(?:{a},W)?{b}(?:,W{c})?W\}}")),
        ),
        schema(
            dependent("dependentRequired"),
            dependent("x-dependent"),
            Language::expression(&format!(r"\{{W(?:(?:{a},W(?:{b},W)?|(?:{b},W)?){c}|(?:{b})?)W\}}")),
        ),
        schema(
            conditional("a"),
            conditional("ab"),
            Language::expression(r#"\{W"t":W(?:"a",W"v":Wnull|"ab",W"v":W(?:true|false))W\}"#),
        ),
        schema(matching(1), matching(2), Language::expression(r#"\{W(?:"k{1,2}":W0)?W\}"#)),
        schema(
            nested("required"),
            nested("x-required"),
            Language::expression(r#"\{W"o":W\{W(?:"i":W\[W(?:0(?:,W0)?)?W\])?W\}W\}"#),
        ),
    ]
}

fn arrays() -> Vec<Row> {
    let items =
        |least: u32| json!({"type": "array", "items": {"enum": [1, 12]}, "minItems": least, "maxItems": 3});
    let different = |unique: bool| json!({"type": "array", "items": {"enum": [1, 12, "a"]}, "maxItems": 2, "uniqueItems": unique});
    let contains = |what: &str| json!({"type": "array", "items": {"enum": ["a", "ab"]}, "contains": {"const": what}, "maxItems": 2});
    let tuple = |rest: Value| json!({"type": "array", "prefixItems": [{"const": 1}, {"type": "null"}], "items": rest});
    vec![
        schema(items(1), items(0), Language::expression(r"\[W(?:1|12)(?:,W(?:1|12)){0,2}W\]")),
        schema(
            different(true),
            different(false),
            Language::expression(r#"\[W(?:(?:1|12|"a")|1,W(?:12|"a")|12,W(?:1|"a")|"a",W(?:1|12))?W\]"#),
        ),
        schema(contains("a"), contains("ab"), Language::expression(r#"\[W(?:"a"(?:,W"ab?")?|"ab",W"a")W\]"#)),
        schema(tuple(json!(false)), tuple(json!(true)), Language::expression(r"\[W(?:1(?:,Wnull)?)?W\]")),
        schema(
            json!({"type": "array", "items": {"$ref": "#"}}),
            json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
            Language::Nested,
        ),
    ]
}
