//! GBNF, the grammars of llama.cpp, and the EBNF of SGLang and XGrammar, which is written almost the same way.
//!
//! llguidance reads its output in lexemes, each as long as can be, where GBNF goes by single characters: rule for rule, a
//! grammar would come to mean something else (`[a-z]* "z"` could never end). Where no rule refers to itself, all is one
//! regular expression ([`regex`]). Otherwise it is rules over lexemes ([`written`]): regular parts, where the lexer ends them
//! exactly where the rules may ([`lexing`]), and else single characters.

mod lexing;
mod parse;
mod part;
mod regex;
mod rules;
mod written;

use super::budget::Budget;
use crate::error::Result;
use parse::Source;
pub(super) use parse::{Dialect, Names};
pub(super) use regex::{of_class, times};
use std::collections::HashSet;
use written::Writer;

/// The Lark text of a grammar, as one regular expression if that has at most `most` bytes.
///
/// # Errors
/// `Error::Grammar` with line and column where the text is no GBNF, a rule is missing, or the text could never end;
/// where the budget is spent.
pub(super) fn to_lark(
    source: &str,
    (dialect, names): (Dialect, Names<'_>),
    most: usize,
    budget: &Budget,
) -> Result<String> {
    let rules = rules::reduced(&Source::read(source, dialect, names)?, budget)?;
    let writer = Writer::new(&rules, budget)?;
    if let Some(rx) = writer.regex(most) {
        return Ok(format!("start: /(?:{rx})/"));
    }
    let mut apart = HashSet::new();
    loop {
        let written = writer.write(Some(&apart))?;
        match lexing::too_long(&written, budget)? {
            None => return Ok(writer.write(None)?.lark()),
            Some(found) if found.is_empty() => return Ok(written.lark()),
            Some(found) => apart.extend(found.iter().map(|lexeme| written.lexemes[*lexeme].text.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn plain(name: &str, is_other: bool) -> Result<String, String> {
        Ok(if is_other { name.replace("<[", "<[^") } else { name.to_owned() })
    }

    fn lark(source: &str) -> String {
        to_lark(source, (Dialect::Gbnf, &plain), 10_000, &Budget::of_a_test())
            .unwrap_or_else(|e| panic!("{source}: {e}"))
    }

    fn refused(source: &str) -> String {
        let refusal = to_lark(source, (Dialect::Gbnf, &plain), 10_000, &Budget::of_a_test());
        let Err(Error::Grammar { keyword, why, .. }) = refusal else { panic!("{source}: {refusal:?}") };
        assert_eq!(keyword, "gbnf");
        why
    }

    #[test]
    fn rules_stand_in_their_places() {
        let rows = [
            ("root ::= \"a.\" b*\nb ::= [x-z^] | # one\n  \"\"", r"a\x{2e}(?:(?:[\x{5e}x-z]|))*"),
            (
                "root::=(\"a\"|\"b\"){2,}[^\\n-]? .",
                r"(?:(?:a|b)){2,}(?:[\x{0}-\x{9}\x{b}-\x{2c}\x{2e}-\x{10ffff}])?(?s:.)",
            ),
            (r#"root ::= "\x41\u00e9\U0001F600\"" "c"{ 1, 3 }+"#, r"A\x{e9}\x{1f600}\x{22}(?:(?:c){1,3})+"),
            ("root ::= my-rule\nmy-rule ::= \"a\"\n  \"b\"\nx ::= x", "ab"),
            (r#"root ::= "\?\e\0" [\.] {2,-1}"#, r"\x{3f}\x{1b}\x{0}(?:\x{2e}){2,}"),
            ("root ::= \"\" | (\"a\"){0}", "(?:|)"),
        ];
        for (source, rx) in rows {
            assert_eq!(lark(source), format!("start: /(?:{rx})/"), "{source}");
        }
    }

    #[test]
    fn a_rule_that_refers_to_itself_at_an_end_repeats() {
        for (source, rx) in [
            ("root ::= [a-z] root | \"!\"", r"(?:[a-z])*\x{21}"),
            ("root ::= root \",\" [0-9] | \"x\"", r"x(?:\x{2c}[0-9])*"),
            ("root ::= ws \"a\"\nws ::= ([ \\t] ws)?", r"(?:[\x{9}\x{20}])*a"),
            ("root ::= [a-z] more\nmore ::= \",\" root | \"\"", r"(?:[a-z]\x{2c})*[a-z]"),
        ] {
            assert_eq!(lark(source), format!("start: /(?:{rx})/"), "{source}");
        }
    }

    #[test]
    fn regular_parts_are_lexemes_where_they_end_as_the_rules_say() {
        let list = "root ::= \"[\" (root (\",\" root)*)? \"]\" | text\ntext ::= \"\\\"\" [^\"]* \"\\\"\"";
        assert!(lark(list).contains(r"/\x{22}(?:[\x{0}-\x{21}\x{23}-\x{10ffff}])*\x{22}/"), "{}", lark(list));
        // A word could not end before the next one.
        let words = lark("root ::= \"(\" (root | [a-z]+)* \")\"");
        assert!(!words.contains(")+/") && words.contains("/[a-z]/"), "{words}");
        assert!(lark("root ::= \"(\" (root | [a-z]+ \".\")* \")\"").contains(r"/(?:[a-z])+\x{2e}/"));
        // Nor could one text before another, though each by itself ends well.
        let texts = lark("root ::= \"(\" root \")\" | \"ab\" root \"c\" | \"abad\"");
        assert!(!texts.contains("abad") && texts.contains("/ab/") && texts.contains("/ad/"), "{texts}");
        // Two characters may begin with the same byte.
        let before = |c: char| lark(&format!("root ::= [é]+ x \"!\"\nx ::= \"{c}\" x \".\" | \"x\""));
        assert!(!before('è').contains(")+/") && before('e').contains(")+/"), "{}", before('è'));
    }

    #[test]
    fn tokens_are_apart_from_texts() {
        assert_eq!(lark("root ::= !<[12]>* <[12]>"), "start: r0\nr0: r1* <[12]>\nr1: <[^12]>\n");
        let lark = lark("root ::= <[12]> [a-z]+ (<|x|> | <think> \"b\"){2} [0-9]*");
        assert!(lark.starts_with("start: r0\nr0: <[12]> T0 r1{2} "), "{lark}");
        assert!(lark.contains("r1: <|x|> | <think> T1\n") && lark.contains("T0: /(?:[a-z])+/"), "{lark}");
    }

    #[test]
    fn xgrammar_s_dialect_has_long_escapes_and_any_character() {
        let read = |source| to_lark(source, (Dialect::Ebnf, &plain), 10_000, &Budget::of_a_test());
        assert_eq!(
            read(r#"root ::= "\x1F600" [^] [\x4e00-\x9fff]"#).unwrap(),
            "start: /(?:\\x{1f600}(?s:.)[\\x{4e00}-\\x{9fff}])/"
        );
        for wrong in [r#"root ::= "\x""#, r#"root ::= "\x110000""#, "root ::= []", "root ::= <a>"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(lark(r#"root ::= "\x1F600""#), r"start: /(?:\x{1f}600)/");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (source, place, why) in [
            ("", "line 1, column 1", "no rule root"),
            ("a ::= \"x\"", "line 1, column 1", "no rule root"),
            ("root ::= b\n", "line 1, column 10", "no rule b"),
            ("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1", "twice"),
            ("root ::= \"a\n\"", "line 1, column 10", "not closed"),
            ("root ::= [a", "line 1, column 10", "not closed"),
            ("root ::= [z-a]", "line 1, column 10", "empty"),
            ("root ::= []", "line 1, column 10", "empty"),
            ("root ::= [^\\x00-\\U0010FFFF]", "line 1, column 10", "empty"),
            ("root ::= (\"a\"", "line 1, column 10", "not closed"),
            ("root ::= \"a\")", "line 1, column 13", "a rule is missing"),
            ("root ::=\n \"\\q\"", "line 2, column 3", "no such escape"),
            ("root ::= [\\d]", "line 1, column 11", "no such escape"),
            ("root ::= \"\\ud800\"", "line 1, column 11", "digits"),
            ("root ::= \"a\"{3,2}", "line 1, column 13", "must be like"),
            ("root ::= \"a\"{99999}", "line 1, column 13", "must be like"),
            ("root ::= \"a\"{3", "line 1, column 13", "not closed"),
            ("root ::= \"a\"{", "line 1, column 13", "not closed"),
            ("root ::= \"a\"{}", "line 1, column 13", "must be like"),
            ("root ::= \"a\" $", "line 1, column 14", "means nothing"),
            ("root ::= \"a\" (= \"b\")", "line 1, column 14", "without being taken"),
            ("root ::= TagDispatch((\"<a>\", a))", "line 1, column 10", "TagDispatch is not supported"),
            ("root ::= \"a\" !\"b\"", "line 1, column 14", "!<think>"),
            ("root ::= !", "line 1, column 10", "!<think>"),
            ("root ::= !<[1-3]>", "line 1, column 10", "!<think>"),
            ("root ::= <a b>", "line 1, column 10", "like <think> or <[1000]>"),
            ("root ::= <[1-3]>", "line 1, column 10", "like <think> or <[1000]>"),
            ("root ::= <>", "line 1, column 10", "like <think> or <[1000]>"),
            ("root ::= <a", "line 1, column 10", "like <think> or <[1000]>"),
            ("root ::= [^]", "line 1, column 10", "empty"),
            ("root ::= root \"x\"", "line 1, column 10", "root can never end"),
            ("root ::= a\na ::= \"x\" b\nb ::= a | b b", "line 3, column 7", "a can never end"),
        ] {
            let said = refused(source);
            assert!(said.starts_with(place) && said.contains(why), "{source}: {said}");
        }
        assert!(refused(&format!("root ::= {}", "(".repeat(1000))).contains("nested"));
    }

    #[test]
    fn choices_that_can_never_end_are_left_out() {
        assert_eq!(lark("root ::= \"a\" | a | a? \"b\"\na ::= \"x\" a"), "start: /(?:(?:a|b))/");
    }

    #[test]
    fn large_ones_are_rules_or_refused_soon() {
        for end in ["\"a\"", "\"\""] {
            let doubling: String = (0..60).map(|i| format!("r{i} ::= r{} r{}\n", i + 1, i + 1)).collect();
            assert!(lark(&format!("root ::= r0\n{doubling}r60 ::= {end}")).len() < 10_000);
        }
        let chain: String = (0..5000).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect();
        assert!(lark(&format!("root ::= r0\n{chain}r5000 ::= \"a\"")).len() < 200_000);
        let backward: String = (0..5000).rev().map(|i| format!("r{i} ::= r{}\n", i + 1)).collect();
        assert!(lark(&format!("r5000 ::= \"a\"\n{backward}root ::= r0")).len() < 200_000);
    }
}
