//! Free text with triggers: the grammar is dormant in it, holds exactly behind a trigger, and walks over both are undone.

use super::calls::calls;
use super::common::{Bench, Dice};
use llgtrt::error::Error;
use llgtrt::grammar::spec::{Limit, Section, Tool, Trigger};
use llgtrt::grammar::{Grammar, GrammarSpec, Next};
use llgtrt::types::Token;
use proptest::test_runner::{Config, TestRunner};

pub(super) fn trigger(text: &str, next: usize) -> Trigger {
    Trigger { text: text.into(), at_start: false, next: Some(next) }
}

pub(super) fn free(triggers: Vec<Trigger>, may_end: bool) -> Section {
    Section::Free { triggers, may_end, limit: None, reasoning: false }
}

fn bound(regex: &str, next: Option<usize>) -> Section {
    Section::Bound { grammar: GrammarSpec::Regex(regex.into()), next }
}

/// Numbers behind `<n>`, time after time.
fn numbers() -> Vec<Section> {
    vec![free(vec![trigger("<n>", 1)], true), bound(r"[0-9]{2,3}</n>", Some(0))]
}

pub(super) fn commit(grammar: &mut Grammar, text: &str) {
    text.bytes().for_each(|b| grammar.commit(u32::from(b)).unwrap());
}

/// The token of the toy vocabulary that is this text.
pub(super) fn token(bench: &Bench, text: &str) -> Token {
    (0..bench.vocab.len() as Token).find(|t| bench.vocab.bytes(*t) == text.as_bytes()).unwrap()
}

#[test]
fn there_is_no_mask_in_free_text_and_one_behind_a_trigger() {
    let bench = Bench::new();
    let mut grammar = bench.compile(&GrammarSpec::Sections(numbers())).unwrap();
    for (text, dormant) in [("a < b <n", true), (">", false), ("12", false), ("</n>", true), ("<n>7", false)]
    {
        commit(&mut grammar, text);
        assert_eq!(grammar.is_dormant(), dormant, "{text}");
        let next = grammar.mask().unwrap();
        assert_eq!(next == Next::Any { end: true }, dormant, "{text}: {next:?}");
    }
    assert!(grammar.commit(u32::from(b'x')).is_err());
    commit(&mut grammar, "7</n>");
    assert!(!grammar.is_ended() && grammar.is_dormant());
}

#[test]
fn a_section_without_a_next_one_ends_the_output() {
    let bench = Bench::new();
    let sections = vec![free(vec![trigger("<n>", 1)], true), bound(r"[0-9]{2}!", None)];
    let mut grammar = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
    commit(&mut grammar, "x<n>12");
    assert!(!grammar.is_ended());
    commit(&mut grammar, "!");
    assert!(grammar.is_ended());
}

/// `, "` of the token `", "` is behind a trigger that its first byte completes.
#[test]
fn a_token_over_a_trigger_counts_as_far_as_the_grammar_takes_it() {
    let bench = Bench::new();
    let over = token(&bench, "\", \"");
    for (regex, taken) in [(r#", "x"#, true), (r#", ?".x"#, true), (r#",x"#, false), (r#"[a-z]+"#, false)] {
        let sections = vec![free(vec![trigger("a\"", 1)], false), bound(regex, None)];
        let pristine = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
        let mut grammar = pristine.restart();
        assert_eq!(grammar.mask().unwrap(), Next::Any { end: false });
        commit(&mut grammar, "bba");
        let next = grammar.mask().unwrap();
        assert_eq!(next.allows(over), taken, "{regex}");
        assert!(next.allows(u32::from(b'"')) && next.allows(u32::from(b'b')));
        if let Next::Only(mask) = &next {
            assert!(bench.vocab.eog().iter().all(|end| !mask.allows(*end)), "it may not end here");
            assert!(mask.count() > 200, "all but few tokens");
        }
        assert_eq!(grammar.cursor().push(over).unwrap(), taken, "{regex}");
        assert_eq!(grammar.commit(over).is_ok(), taken, "{regex}");
        if !taken {
            commit(&mut grammar, "\"");
        }
        assert!(!grammar.is_dormant());
    }
}

#[test]
fn triggers_at_the_start_count_behind_white_space_only() {
    let bench = Bench::new();
    let start = Trigger { at_start: true, ..trigger("{n", 1) };
    let sections = vec![free(vec![start, trigger("<n>", 1)], true), bound(r"[0-9]{2}", Some(0))];
    let pristine = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
    for (text, dormant) in
        [("{n", false), (" \n{n", false), ("a{n", true), ("{ n", true), ("{{n", true), ("{<n>", false)]
    {
        let mut grammar = pristine.restart();
        commit(&mut grammar, text);
        assert_eq!(grammar.is_dormant(), dormant, "{text}");
    }
    let mut grammar = pristine.restart();
    commit(&mut grammar, "<n>12{n");
    assert!(!grammar.is_dormant(), "the section begins again");
}

#[test]
fn forbidden_texts_do_not_come() {
    let bench = Bench::new();
    let never = |text: &str| Trigger { next: None, ..trigger(text, 0) };
    let sections = vec![free(vec![never("ab"), never(" th")], true)];
    let mut grammar = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
    let the = token(&bench, " the");
    assert!(!grammar.mask().unwrap().allows(the));
    commit(&mut grammar, "aa");
    let next = grammar.mask().unwrap();
    assert!(!next.allows(u32::from(b'b')) && !next.allows(the) && next.allows(u32::from(b'a')));
    assert!(next.allows(bench.vocab.eog()[0]) && grammar.commit(u32::from(b'b')).is_err());
    commit(&mut grammar, "cb t");
    assert!(!grammar.mask().unwrap().allows(u32::from(b'h')));
}

#[test]
fn a_limit_closes_the_section_after_exactly_so_many_tokens() {
    let bench = Bench::new();
    let limit = |tokens| Some(Limit { tokens, text: "\n</t>".into() });
    for tokens in [0, 1, 5] {
        let thinking = Section::Free {
            triggers: vec![trigger("</t>", 1)],
            may_end: false,
            limit: limit(tokens),
            reasoning: true,
        };
        let sections = vec![thinking, bound("ok", None)];
        let mut grammar = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
        for _ in 0..tokens {
            assert_eq!(grammar.mask().unwrap(), Next::Any { end: false });
            commit(&mut grammar, "<");
        }
        for byte in "\n</t>".bytes() {
            assert!(grammar.is_reasoning());
            assert_eq!(grammar.mask().unwrap().single(), Some(u32::from(byte)));
            assert!(!grammar.cursor().push(u32::from(b'?')).unwrap());
            commit(&mut grammar, std::str::from_utf8(&[byte]).unwrap());
        }
        assert!(!grammar.is_dormant() && !grammar.is_reasoning());
        commit(&mut grammar, "ok");
        assert!(grammar.is_ended());
    }
}

/// A token that may come, often one that triggers are made of.
fn some_token(dice: &mut Dice, bench: &Bench, next: &Next) -> Token {
    loop {
        let token = match dice.roll(3) {
            0 => dice.roll(bench.vocab.len()),
            _ => usize::from(b"<n>{\"ab12/!"[dice.roll(11)]),
        };
        let token = token as Token;
        if next.allows(token) && !bench.vocab.is_eog(token) {
            return token;
        }
        if let Some(mask) = next.mask() {
            let tokens: Vec<Token> = mask.iter().filter(|t| !bench.vocab.is_eog(*t)).collect();
            return tokens[dice.roll(tokens.len())];
        }
    }
}

/// Whether every text between a trigger and its end is a number; the sections told apart by a search in the text alone.
fn is_right(mut text: &str) -> bool {
    loop {
        let plain = text.find("<n>").map(|at| (at, "</n>", 2..=3));
        let json = text.find("{\"a").map(|at| (at, "!", 1..=4));
        let found = [plain, json].into_iter().flatten().min_by_key(|found| found.0);
        let Some((at, end, digits)) = found else { return true };
        let rest = &text[at + 3..];
        let body = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let closed = rest[body..].starts_with(end);
        if !closed {
            // Only where the text was cut.
            return body <= *digits.end() && end.starts_with(&rest[body..]);
        }
        if !digits.contains(&body) {
            return false;
        }
        text = &rest[body + end.len()..];
    }
}

/// Walks ahead by up to six tokens, over whatever borders they have, undoes that, and commits another branch.
#[test]
fn walks_over_borders_are_undone_and_what_is_bound_is_right() {
    let bench = Bench::new();
    let mut sections = numbers();
    sections[0] = free(vec![trigger("<n>", 1), trigger("{\"a", 2)], true);
    sections.push(bound(r"[0-9]{1,4}!", Some(0)));
    let pristine = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let walk = |seed: u64| {
        let (mut dice, mut grammar, mut history) = (Dice(seed), pristine.restart(), Vec::new());
        for _ in 0..40 {
            let next = grammar.mask().unwrap();
            let mut fresh = pristine.restart();
            history.iter().for_each(|t| fresh.commit(*t).unwrap());
            assert_eq!(next, fresh.mask().unwrap(), "seed {seed}, after {history:?}");
            assert_eq!(grammar.is_dormant(), fresh.is_dormant());
            {
                let mut cursor = grammar.cursor();
                for _ in 0..dice.roll(7) {
                    let ahead = cursor.mask().unwrap();
                    let token = some_token(&mut dice, &bench, &ahead);
                    assert!(cursor.push(token).unwrap(), "what the mask allows is taken");
                    fresh.commit(token).unwrap();
                    assert_eq!(cursor.mask().unwrap(), fresh.mask().unwrap());
                }
            }
            let token = some_token(&mut dice, &bench, &next);
            grammar.commit(token).unwrap();
            history.push(token);
        }
        let bytes: Vec<u8> = history.iter().flat_map(|t| bench.vocab.bytes(*t)).copied().collect();
        // Bytes that are no UTF-8 are single ones here.
        let text: String = bytes.into_iter().map(char::from).collect();
        assert!(is_right(&text), "seed {seed}: {text:?}");
        text.matches("</n>").count() + text.matches('!').count()
    };
    let strategy = proptest::num::u64::ANY;
    let counted = std::cell::Cell::new(0);
    runner
        .run(&strategy, |seed| {
            counted.set(counted.get() + walk(seed));
            Ok(())
        })
        .unwrap();
    assert!(counted.get() > 100, "{} closed parts were seen", counted.get());
}

#[test]
fn what_is_wrong_is_refused_by_its_place() {
    let bench = Bench::new();
    let sections = |list: Vec<Section>| bench.compile(&GrammarSpec::Sections(list)).unwrap_err();
    let long = "x".repeat(257);
    let limited = Section::Free {
        triggers: vec![trigger("</t>", 0)],
        may_end: false,
        limit: Some(Limit { tokens: 1, text: "</t> ".into() }),
        reasoning: false,
    };
    for (list, place) in [
        (vec![], "/sections/0"),
        (vec![free(vec![], true), free(vec![trigger("a", 2)], true)], "/sections/1"),
        (vec![free(vec![trigger("", 0)], true)], "/sections/0"),
        (vec![free(vec![trigger(&long, 0)], true)], "/sections/0"),
        (vec![bound("a", Some(1))], "/sections/0"),
        (vec![limited], "/sections/0"),
        (vec![Section::Bound { grammar: GrammarSpec::Sections(numbers()), next: None }], "/sections/0"),
    ] {
        let Error::Grammar { pointer, keyword, .. } = sections(list) else { panic!("{place}") };
        assert_eq!((&*pointer, &*keyword), (place, "sections"));
    }
    let mut wrong = calls(None, None);
    wrong.tools[1].schema = r##"{"type":"object","properties":{"q":{"$ref":"#/nowhere"}}}"##.into();
    let error = bench.compile(&GrammarSpec::Calls(Box::new(wrong))).unwrap_err();
    let Error::Grammar { pointer, keyword, .. } = error else { panic!("{error:?}") };
    assert_eq!((&*pointer, &*keyword), ("/tools/get_all/properties/q", "$ref"));
    // What has been left out of one function's schema is nothing to another's.
    let mut second = calls(None, None);
    second.tools[0].schema =
        r#"{"type":"object","properties":{"f":{"type":"string","not":{"format":"hostname"}}}}"#.into();
    second.tools[1].schema = r#"{"type":"object","required":["a"],"properties":{"a":false}}"#.into();
    let error = bench.compile(&GrammarSpec::Calls(Box::new(second))).unwrap_err();
    let Error::Grammar { pointer, .. } = error else { panic!("{error:?}") };
    assert!(pointer.starts_with("/tools/get_all"), "{pointer}");
    for tools in [0, 129] {
        let mut many = calls(None, None);
        many.tools = (0..tools).map(|i| Tool { name: format!("f{i}"), ..many.tools[0].clone() }).collect();
        assert!(bench.compile(&GrammarSpec::Calls(Box::new(many))).is_err());
    }
}
