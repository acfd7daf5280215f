//! Masks from states of our own are those that llguidance computes.

use super::common::{Bench, Dice, data};
use super::differential::vocabulary;
use llgtrt::config::GrammarConfig;
use llgtrt::grammar::{Grammar, GrammarSpec, Mask};
use llgtrt::types::Token;
use llgtrt::vocab::Vocab;
use serde_json::Value;
use std::sync::Arc;

const LENGTH: usize = 60;
/// Lark of every kind.
pub const LARK: &[&str] = &[
    r#"start: "x" <[64]> "y"? | "x" <[65-70]>+"#,
    r#"start: (<|im_start|> "a" | /[a-c]+/) "!""#,
    r#"start: ("get" | /[a-z]+/) " "? /[0-9]+/"#,
    "start: e\ne: e \"+\" t | t\nt: \"(\" e \")\" | N\nN: /[0-9]+/\n%ignore / +/",
    "start: (A | B)* C\nA: \"ab\"\nB: /a[^b]/\nC: \"c\" | \"cc\"",
    "start: a{2,5} b?\na: /x|yy/ \",\"\nb[lazy]: /[a-z]*z/",
    "start: w+\nw[capture]: /[a-z]{1,3} /",
    "start: (\"a\"? \"b\"? \"c\")* \"d\"?",
    "start: x\nx: \"[\" (x (\",\" x)*)? \"]\" | /[ab]*c/",
    "start: /(?s:.*)/ \"!\"",
    "start: /[ab]*c/?",
    "start: <|im_start|> \"a\" | \"b\"",
    "start: <[64]>? \"b\"",
    "start: <[65-70]> \"a\" | <[64-66]> \"a\" | \"cab\"",
    "start: \"{\" %json {\"type\": \"object\"} \"}\"",
    "start: A %json {\"enum\": [\"a\", \"ab\", 1]} A? | \"x\" %json {\"type\": [\"string\", \"integer\"]} /[0-9a]+/\nA: /[\"a-c]+/ | \"1\"",
    "start: x %json {\"properties\": {\"a\": {\"type\": \"string\"}}, \"type\": \"object\"}\nx[lazy]: /[a-c\"]*c/ | \"\"",
    "start: %json {\"type\": \"string\", \"maxLength\": 9} | <[65-70]> %json {\"const\": \"a\"} | <|im_start|>",
    "start: T \"!\"\nT: /[a-c]{2,5}/ & ~/ab.*/",
    "start: any::0\nany::_: \"\" %if bit_count_ge([0:2], 1)\n | \"a\" any::set_bit(0) %if bit_clear(0)\n | \"bc\" any::set_bit(1) %if bit_clear(1)",
    "start: \"<\" T \">\"\nT: %regex {\"substring_words\": \"the quick brown fox\"}",
    "start: /[a-z]+/i (\" \" WORD)*\nWORD: \"x\"i | /y./s",
];
/// Those that are not followed, or only up to where they end.
pub const OTHERS: &[&str] = &[
    "start: \"a\" t \"b\"\nt[stop=\"!\"]: /.*/",
    "start: t \"b\"\nt[max_tokens=3]: /[a-z]*/",
    "start: t \"b\"\nt[suffix=\"!\"]: /.*/",
    "start: \"a\" %json {\"type\": \"array\"} \"b\"\n%ignore / /",
    "start: \"a\" \"b\" \"c\"\n%ignore / /\n%llguidance {\"ignore_once\": true}",
];

/// A random walk; how many of its masks came from our states, and all.
fn walk(bench: &Bench, grammar: &mut Grammar, dice: &mut Dice, what: &str) -> (usize, usize) {
    let some = |mask: &Mask| {
        let next: Vec<Token> = mask.iter().filter(|t| !bench.vocab.eog().contains(t)).collect();
        next.get(dice.roll(next.len().max(1))).copied()
    };
    walk_by(bench, grammar, some, what)
}

/// The same by the tokens that `choose` picks.
fn walk_by(
    bench: &Bench,
    grammar: &mut Grammar,
    mut choose: impl FnMut(&Mask) -> Option<Token>,
    what: &str,
) -> (usize, usize) {
    let (mut own, mut all) = (0, 0);
    let mut text = Vec::new();
    for _ in 0..LENGTH {
        let mask = grammar.mask();
        let (expected, is_own) = match grammar.mask_by_llguidance() {
            Ok(expected) => expected.expect("a grammar holds"),
            // Limits of llguidance.
            Err(_) => return (own, all),
        };
        let mask = match mask {
            Ok(mask) => mask.mask().unwrap().clone(),
            Err(_) => Mask::none(bench.vocab.len()),
        };
        let differ =
            |a: &Mask, b: &Mask| a.iter().filter(|token| !b.allows(*token)).take(5).collect::<Vec<Token>>();
        let text_so_far = String::from_utf8_lossy(&text);
        let (more, less) = (differ(&mask, &expected), differ(&expected, &mask));
        assert!(mask == expected, "{what}: behind {text_so_far:?} more {more:?}, less {less:?}");
        (own, all) = (own + usize::from(is_own), all + 1);
        let Some(next) = choose(&mask) else { break };
        text.extend_from_slice(bench.vocab.bytes(next));
        grammar.commit(next).unwrap();
        if grammar.is_ended() {
            break;
        }
    }
    (own, all)
}

fn benches() -> [Bench; 2] {
    let config = GrammarConfig { compile_seconds: 600.0, ..GrammarConfig::default() };
    let of = |vocab: Arc<Vocab>| Bench::of(vocab, &config, 1);
    [of(Vocab::toy().unwrap()), of(vocabulary())]
}

/// Every tenth schema of MaskBench's sample; all where `LLGTRT_ALL` is set.
#[test]
fn masks_of_schemas_are_those_of_llguidance() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let every = if std::env::var_os("LLGTRT_ALL").is_some() { 1 } else { 10 };
    let (mut own, mut all) = (0, 0);
    for bench in benches() {
        let mut dice = Dice(3);
        for line in lines.lines().step_by(every) {
            let case: Value = serde_json::from_str(line).unwrap();
            let schema = &case["schema"];
            let spec = GrammarSpec::JsonSchema(schema.to_string());
            let Ok(grammar) = bench.compile(&spec) else { continue };
            for _ in 0..2 {
                let found = walk(&bench, &mut grammar.restart(), &mut dice, &case["id"].to_string());
                (own, all) = (own + found.0, all + found.1);
            }
        }
    }
    println!("{own} of {all} masks");
    assert!(own * 1000 >= all * 999, "{own} of {all}");
}

/// Strings that are not listed, beside listed ones, and strings with a length; and texts of them.
const STRINGS: &[(&str, &[&str])] = &[
    (
        r#"{"type": "object", "properties": {"a": {}, "ab": {}, "a\"b": {}, "é": {}, "name": {"type": "null"}}}"#,
        &[r#"{"ab":1,"a\"b":2,"a\"c":3,"é":"#, r#"{"nam":1,"name":null,"names":2,"n":"#, r#"{"":{},"a":[]}"#],
    ),
    (
        r#"{"type": "object", "properties": {"x-a": {}}, "patternProperties": {"^x-": {"type": "integer"}},
         "additionalProperties": {"type": "string"}}"#,
        &[r#"{"x-a":"b","x-ab":3,"x":"y"}"#, r#"{"y-a":"x","x-":1}"#],
    ),
    (
        r#"{"type": "object", "required": ["id"], "minProperties": 2, "additionalProperties": {"type": "boolean"},
         "properties": {"id": {"type": "integer"}, "idea": {"type": "null"}}}"#,
        &[r#"{"id":1,"idea":null,"ideas":true}"#, r#"{"i":true,"id":7}"#],
    ),
    (
        r#"{"anyOf": [{"enum": ["a", "ab", "ab c", 1, null]}, {"type": "string", "pattern": "^a.*c$"},
         {"type": "string", "maxLength": 3}]}"#,
        &["\"ab c\"", "\"abbbbc", "\"xyz\"", "\"ab\"", "null"],
    ),
    (
        r#"{"type": "string", "not": {"enum": ["a", "abc", "\"", "abcd"]}}"#,
        &["\"abce\"", r#""\"a""#, "\"abcd"],
    ),
    (r#"{"type": "string", "pattern": "^[a-c]+$", "not": {"enum": ["a", "abc"]}}"#, &["\"abca\"", "\"abc"]),
    (
        r#"{"type": "string", "minLength": 1, "maxLength": 3, "not": {"enum": ["ab", "abc"]}}"#,
        &["\"abd\"", "\"abc"],
    ),
    (
        r#"{"type": "string", "maxLength": 12}"#,
        &["\"hello world 12", "\"héllo wörld😀", r#""a\nb\u00e9\\\"cdef ghijkl"#, "\"     "],
    ),
    (r#"{"type": "string", "minLength": 3, "maxLength": 6}"#, &["\"ab", "\"name of", "\"日本語日本語\""]),
    (
        r#"{"type": "string", "pattern": "^(?:\\S+ ){0,9}\\S+$", "minLength": 1, "maxLength": 14}"#,
        &["\"hello world 12345", "\"a b c d e f g h", "\"é \\\" é"],
    ),
    (r#"{"type": "string", "pattern": "^a|bb$", "maxLength": 5}"#, &["\"xyzbb\"", "\"abcde\"", "\"xb"]),
];

#[test]
fn masks_of_strings_are_those_of_llguidance() {
    for bench in benches() {
        let mut dice = Dice(5);
        for (schema, texts) in STRINGS {
            let grammar = bench.compile(&GrammarSpec::JsonSchema((*schema).to_owned())).unwrap();
            for text in *texts {
                let mut tokens = bench.vocab.encode(&[(text, false)]).unwrap().into_iter();
                let along = |mask: &Mask| tokens.next().filter(|token| mask.allows(*token));
                let (own, all) = walk_by(&bench, &mut grammar.restart(), along, schema);
                assert!(own == all && all > 0, "{schema}: {own} of {all}");
            }
            let (own, all) = walk(&bench, &mut grammar.restart(), &mut dice, schema);
            assert_eq!(own, all, "{schema}");
        }
    }
}

#[test]
fn masks_of_lark_are_those_of_llguidance() {
    for bench in benches() {
        let mut dice = Dice(9);
        for (list, is_followed) in [(LARK, true), (OTHERS, false)] {
            for lark in list {
                // The second vocabulary has no such token.
                let Ok(grammar) = bench.compile(&GrammarSpec::LarkGrammar((*lark).into())) else {
                    assert!(lark.contains("im_start"), "{lark}");
                    continue;
                };
                for _ in 0..20 {
                    let (own, all) = walk(&bench, &mut grammar.restart(), &mut dice, lark);
                    assert!(own == all || !is_followed, "{lark}: {own} of {all}");
                }
            }
        }
    }
}
