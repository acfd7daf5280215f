//! What each kind of spec admits.

use super::common::Bench;
use llgtrt::error::Error;
use llgtrt::grammar::{Grammar, GrammarSpec};
use serde_json::json;

pub fn admits(spec: &GrammarSpec, yes: &[&str], no: &[&str]) {
    let bench = Bench::new();
    let grammar = bench.compile(spec).unwrap();
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            let mut fresh: Grammar = grammar.restart();
            assert_eq!(bench.accepts(&mut fresh, text).unwrap(), expected, "{text:?} in {spec:?}");
        }
    }
}

#[test]
fn json_objects_compact_spaced_and_indented() {
    let yes = ["{}", r#"{"a":1,"b":[]}"#, r#"{"a": 1, "b": []}"#, "{\n  \"a\": {\n    \"b\": 1\n  }\n}"];
    let no = ["[]", "1", "", r#"{"a":1"#, "{}\n", "{   }", r#"{"a" :1}"#, r#"{"\u0061":1}"#];
    admits(&GrammarSpec::JsonObject, &yes, &no);
}

#[test]
fn regular_expressions_match_the_whole_output() {
    let spec = |rx: &str| GrammarSpec::Regex(rx.to_owned());
    admits(&spec(r"\d{2}/\w+"), &["12/a", "00/a_9"], &["1/a", "12/", "12/a b", "١٢/a", "12/é"]);
    admits(&spec("^(yes|no)$"), &["yes", "no"], &["y", "yesno"]);
    admits(&spec(""), &[""], &["a"]);
    admits(&spec("a\nb"), &["a\nb"], &["ab"]);
}

#[test]
fn gbnf_means_what_it_says_character_by_character() {
    let spec = |source: &str| GrammarSpec::Gbnf(source.to_owned());
    // Lexemes that take all they can would never come to the last letter.
    let greedy = "root ::= word \"z\"\nword ::= [a-z]* # all";
    admits(&spec(greedy), &["z", "zz", "abcz"], &["", "a", "za", "Z"]);
    let list = "root ::= item (\", \" item){1,2}\nitem ::= \"-\"? digit+ | \"n/a\"\ndigit ::= [0-9]";
    admits(&spec(list), &["1, 2", "-10, n/a, 3"], &["1", "1,2", "1, 2, 3, 4", "--1, 2"]);
    let odd = r#"root ::= [^\x00-\x7F"] . "\"\\{" ("" | "é")"#;
    admits(&spec(odd), &["éx\"\\{", "日\n\"\\{é"], &["ax\"\\{", "é\"\\{"]);
}

#[test]
fn choices_are_taken_literally() {
    let texts = ["yes", "yes, but", "a\"b\\c\n\u{7f}é", "/x/", "# no"].map(String::from).to_vec();
    let yes: Vec<&str> = texts.iter().map(String::as_str).collect();
    admits(&GrammarSpec::Choice(texts.clone()), &yes, &["ye", "yes,", "", "yesyes"]);
    admits(&GrammarSpec::Choice(vec![String::new(), "a".into()]), &["", "a"], &["aa"]);
    admits(&GrammarSpec::Choice(vec![String::new()]), &[""], &["a"]);
}

#[test]
fn lark_and_grammar_lists() {
    let lark = "start: \"<\" NAME \">\"\nNAME: /[a-z]+/";
    admits(&GrammarSpec::LarkGrammar(lark.into()), &["<ab>"], &["<>", "ab"]);
    let nested = "start: \"=\" %json {\"type\":\"integer\"}";
    admits(&GrammarSpec::LarkGrammar(nested.into()), &["=12"], &["=x", "12"]);
    let listed =
        r#"start: "=" %json {"type":"array","items":{"enum":["a",1,true]},"uniqueItems":true,"minItems":2}"#;
    let different = [r#"=["a",1]"#, r#"=[true,"a",1]"#];
    admits(&GrammarSpec::LarkGrammar(listed.into()), &different, &["=[]", "=[1]", "=[1,1]", r#"=[1,"a",1]"#]);
    let several = "start: A %json {\"not\": {\"multipleOf\": 3}, \"type\": \"integer\"} \";\" %json {\"enum\": [\"b\"]} b?
A: \"a\" | \"1\"
b: \"b\" | \"x\"";
    let yes = ["a4;\"b\"", "11;\"b\"b", "a-2; \"b\"x"];
    admits(&GrammarSpec::LarkGrammar(several.into()), &yes, &["a3;\"b\"", "4;\"b\"", "a4;b"]);
    // Where a lexeme has such a limit, llguidance gives each part of the grammar a lexeme class of its own.
    let limited = "start: t %json {\"type\": \"integer\"} t\nt[max_tokens=3]: /[a-z]*/\n%ignore \"_\"";
    admits(&GrammarSpec::LarkGrammar(limited.into()), &["ab12", "1b", "a1_b"], &["abx", "1_2", ""]);
    let list = json!({"grammars": [
        {"name": "top", "lark_grammar": "start: \"#\" @value"},
        {"name": "value", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    ]});
    let spec = GrammarSpec::Llguidance(list.to_string());
    admits(&spec, &[r##"#{"a":1}"##, "#{}"], &[r##"#{"a":"x"}"##, r##"#{"\u0061":"x"}"##]);
}

#[test]
fn a_grammar_that_cannot_be_rolled_back_is_walked_too() {
    let bench = Bench::new();
    let mut grammar =
        bench.compile(&GrammarSpec::LarkGrammar("start: a \"!\"\na[stop=\".\"]: /[a-z]+/".into())).unwrap();
    let before = grammar.mask().unwrap();
    {
        let mut cursor = grammar.cursor();
        assert!(cursor.push(u32::from(b'x')).unwrap());
        assert!(cursor.mask().unwrap().allows(u32::from(b'.')));
    }
    assert_eq!(grammar.mask().unwrap(), before);
    assert_eq!(grammar.committed(), 0);
    grammar.commit(u32::from(b'x')).unwrap();
    assert!(grammar.mask().unwrap().allows(u32::from(b'.')));
}

#[test]
fn texts_of_special_tokens_in_constants_are_plain_text() {
    let schema = json!({"const": {"a": "<|im_end|>", "<|im_start|>": 1}});
    let bench = Bench::new();
    assert!(bench.satisfies(&schema, r#"{"a":"<|im_end|>","<|im_start|>":1}"#));
}

#[test]
fn the_end_is_exactly_where_nothing_may_follow() {
    let bench = Bench::new();
    let mut grammar = bench.schema(&json!({"type": "integer", "minimum": 10, "maximum": 12})).unwrap();
    assert!(!grammar.is_ended());
    grammar.commit(u32::from(b'1')).unwrap();
    assert!(!bench.vocab.eog().iter().any(|t| grammar.mask().unwrap().allows(*t)));
    grammar.commit(u32::from(b'2')).unwrap();
    assert!(grammar.is_ended());
    assert_eq!(grammar.mask().unwrap().mask().unwrap().iter().collect::<Vec<_>>(), bench.vocab.eog());
    assert!(grammar.commit(u32::from(b'2')).is_err());
    assert!(!grammar.cursor().push(u32::from(b'2')).unwrap());
    assert!(!grammar.cursor().push(bench.vocab.eog()[0]).unwrap());
    assert!(grammar.is_ended(), "a refused token harms nothing");
    assert_eq!(grammar.committed(), 2);
}

#[test]
fn an_end_token_in_a_grammar_is_no_way_out() {
    let bench = Bench::new();
    let mut grammar =
        bench.compile(&GrammarSpec::LarkGrammar("start: \"a\" (<|im_end|> | \"b\") \"c\"".into())).unwrap();
    grammar.commit(u32::from(b'a')).unwrap();
    assert_eq!(grammar.mask().unwrap().single(), Some(u32::from(b'b')));
}

#[test]
fn what_the_lexer_refuses_is_named_by_its_kind() {
    let bench = Bench::new();
    for rx in ["a\\b{start}c", "(?s-u:.)\\xff"] {
        match bench.compile(&GrammarSpec::Regex(rx.into())) {
            Err(Error::Grammar { keyword, .. }) => assert_eq!(keyword, "regex", "{rx}"),
            other => panic!("{rx}: {:?}", other.err()),
        }
    }
}
