//! Constraints that are followed from outside: masks within a budget, and rollbacks.

use super::common::{Bench, Dice, data};
use llgtrt::config::GrammarConfig;
use llgtrt::grammar::{Compiled, GrammarSpec, Matcher, Next};
use llgtrt::types::Token;
use serde_json::{Value, json};

fn compile(bench: &Bench, spec: &GrammarSpec) -> Option<Compiled> {
    bench.compiler.compile(spec, 0).wait().ok()
}

fn schema(bench: &Bench, schema: &Value) -> Compiled {
    compile(bench, &GrammarSpec::JsonSchema(schema.to_string())).unwrap()
}

fn row(bench: &Bench, matcher: &mut Matcher) -> Result<Vec<u32>, String> {
    let mut row = vec![u32::MAX; bench.vocab.len().div_ceil(32) + 1];
    matcher.fill(&mut row).map_err(|e| e.to_string())?;
    assert_eq!(row.pop(), Some(0));
    Ok(row)
}

fn tokens(row: &[u32]) -> Vec<Token> {
    (0..row.len() as Token * 32).filter(|t| row[*t as usize / 32] >> (t % 32) & 1 == 1).collect()
}

/// Draws tokens of the masks until an end token comes, with walks ahead that are taken back.
fn drawn(bench: &Bench, matcher: &mut Matcher, dice: &mut Dice) -> Result<String, String> {
    for at in 0.. {
        let allowed = row(bench, matcher)?;
        let list = tokens(&allowed);
        if at % 3 == 0 {
            let steps = 1 + dice.roll(4);
            let walked: usize = (0..steps).map(|_| usize::from(step(bench, matcher, dice))).sum();
            matcher.rollback(walked).unwrap();
            assert_eq!(row(bench, matcher)?, allowed);
        }
        let plain = |t: &&Token| bench.vocab.is_eog(**t) || bench.vocab.bytes(**t)[0] < 0x80;
        let some: Vec<Token> = list.iter().filter(plain).copied().collect();
        let token = *some.get(dice.roll(some.len().max(1))).ok_or("nothing may come")?;
        assert_eq!(matcher.validate(&[token]), Ok(1));
        assert_eq!(matcher.accept(&[token]), Ok(true));
        if matcher.is_terminated() {
            return Ok(String::from_utf8_lossy(&bench.vocab.decode(matcher.tokens())).into_owned());
        }
    }
    unreachable!()
}

fn step(bench: &Bench, matcher: &mut Matcher, dice: &mut Dice) -> bool {
    let Ok(allowed) = row(bench, matcher) else { return false };
    let list = tokens(&allowed);
    !list.is_empty() && matcher.accept(&[list[dice.roll(list.len())]]).is_ok_and(|taken| taken)
}

#[test]
fn outputs_of_real_schemas_are_complete_within_a_budget() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let bench = Bench::with(&GrammarConfig { compile_seconds: 600.0, ..GrammarConfig::default() });
    let (mut dice, mut told, mut faults, mut broken) = (Dice(11), 0, Vec::new(), 0);
    for line in lines.lines().step_by(40) {
        let case: Value = serde_json::from_str(line).unwrap();
        let spec = GrammarSpec::JsonSchema(case["schema"].to_string());
        let Some(compiled) = compile(&bench, &spec) else { continue };
        let Some(least) = compiled.least() else { continue };
        let validator = jsonschema::options().should_validate_formats(false).build(&case["schema"]).ok();
        for budget in [least, least + 1, 2 * least, 300.max(least)] {
            let mut matcher = Matcher::new(&compiled, Some(budget as u32)).unwrap();
            let text = match drawn(&bench, &mut matcher, &mut dice) {
                Ok(text) => text,
                Err(why) if why.contains("lexer error") => {
                    broken += 1;
                    continue;
                }
                Err(why) => {
                    faults.push(format!("{} {budget}: {why}", case["id"]));
                    continue;
                }
            };
            told += 1;
            assert!(matcher.tokens().len() <= budget + 1, "{} {budget}: {text}", case["id"]);
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            if validator.as_ref().is_some_and(|validator| !validator.is_valid(&value)) {
                faults.push(format!("{} {budget}: {text} is not valid", case["id"]));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(told > 50 && broken * 50 <= told, "{told}, {broken}");
}

#[test]
fn a_mask_has_all_that_fits_and_nothing_else() {
    let bench = Bench::new();
    let address = json!({"type": "object", "required": ["street", "zip"], "additionalProperties": false,
        "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}}});
    let wanted = json!({"type": "object", "required": ["name", "home"], "additionalProperties": false,
        "properties": {"name": {"type": "string"}, "home": address, "work": address, "tags": {"type": "array",
            "items": {"enum": ["a", "bcd"]}}}});
    let compiled = schema(&bench, &wanted);
    let least = compiled.least().unwrap() as u32;
    let mut dice = Dice(5);
    for budget in [least, least + 3, least + 10, least + 40, 3 * least] {
        let mut matcher = Matcher::new(&compiled, Some(budget)).unwrap();
        let mut grammar = compiled.begin();
        loop {
            let mask = row(&bench, &mut matcher).unwrap();
            let left = budget - matcher.tokens().len() as u32;
            let next = grammar.mask().unwrap();
            let mut cursor = grammar.cursor();
            let all = cursor.listed(&next, bench.vocab.len());
            let fits = |t: &Token| bench.vocab.is_eog(*t) || left > 0 && cursor.fits(*t, left - 1).unwrap();
            let expected: Vec<Token> = all.iter().filter(fits).collect();
            drop(cursor);
            let list = tokens(&mask);
            assert_eq!(list, expected, "{left} left of {budget}");
            let token = list[dice.roll(list.len())];
            assert_eq!(matcher.accept(&[token]), Ok(true));
            if matcher.is_terminated() {
                break;
            }
            grammar.commit(token).unwrap();
        }
    }
}

#[test]
fn free_text_leaves_room_for_what_must_come() {
    let bench = Bench::new();
    let sections = json!([
        {"free": {"triggers": [{"text": "<call>", "next": 1}], "may_end": false}},
        {"bound": {"grammar": {"json_schema": r#"{"enum": ["one", "a much longer text than that"]}"#}, "next": null}},
    ]);
    let compiled =
        compile(&bench, &GrammarSpec::Sections(serde_json::from_value(sections).unwrap())).unwrap();
    let least = compiled.least().unwrap();
    for seed in 0..20 {
        let budget = least + seed as usize;
        let mut matcher = Matcher::new(&compiled, Some(budget as u32)).unwrap();
        let text = drawn(&bench, &mut matcher, &mut Dice(seed + 1)).unwrap();
        assert!(text.contains("<call>\"") && text.ends_with('"'), "{text}");
        assert!(matcher.tokens().len() <= budget + 1);
    }
}

#[test]
fn budgets_that_no_output_fits_are_refused() {
    let bench = Bench::new();
    let compiled = schema(&bench, &json!({"const": "abcdef"}));
    let error = Matcher::new(&compiled, Some(3)).unwrap_err().to_string();
    assert!(error.starts_with("max_tokens: is 3, but"), "{error}");
    assert!(Matcher::new(&compiled, Some(compiled.least().unwrap() as u32)).is_ok());
}

#[test]
fn tokens_are_taken_all_or_none() {
    let bench = Bench::new();
    let compiled = schema(&bench, &json!({"enum": ["abc", "abd"]}));
    let mut matcher = Matcher::new(&compiled, None).unwrap();
    let end = bench.vocab.eog()[0];
    let id = |text: &str| text.bytes().map(Token::from).collect::<Vec<_>>();
    assert_eq!(matcher.accept(&id("\"abx")), Ok(false));
    assert_eq!(matcher.tokens(), &[] as &[Token]);
    assert_eq!(matcher.validate(&id("\"abx")), Ok(3));
    assert_eq!(matcher.validate(&[end]), Ok(0));
    assert_eq!(matcher.accept(&id("\"abc\"")), Ok(true));
    assert!(matcher.is_complete() && matcher.may_end() && !matcher.is_terminated());
    assert_eq!(tokens(&row(&bench, &mut matcher).unwrap()), bench.vocab.eog());
    let mut other = matcher.copy();
    assert_eq!(matcher.accept(&[end]), Ok(true));
    assert!(matcher.is_terminated() && !other.is_terminated());
    assert_eq!(matcher.accept(&[end]), Ok(false));
    matcher.rollback(3).unwrap();
    assert_eq!(matcher.accept(&id("d\"")), Ok(true));
    other.rollback(4).unwrap();
    assert_eq!(other.forced().unwrap(), id("ab"));
    other.rollback(1).unwrap();
    assert!(other.rollback(1).unwrap_err().to_string().starts_with("n: is 1, but"));
    matcher.reset();
    assert_eq!(matcher.validate(&id("\"abd\"")), Ok(5));
}

/// Rollbacks further than states are kept, and of grammars that only llguidance follows.
#[test]
fn long_rollbacks_lead_to_the_same_masks() {
    let bench = Bench::new();
    let lark = "start: a B\na[suffix=\"x\"]: /[a-z ]*/\nB: /[0-9]+/";
    let specs = [
        GrammarSpec::JsonSchema(r#"{"type": "array", "items": {"type": "string"}}"#.into()),
        GrammarSpec::LarkGrammar(lark.into()),
    ];
    for spec in specs {
        let compiled = compile(&bench, &spec).unwrap();
        let mut matcher = Matcher::new(&compiled, None).unwrap();
        let mut dice = Dice(3);
        let mut rows = vec![row(&bench, &mut matcher).unwrap()];
        while rows.len() < 90 {
            let list: Vec<Token> = tokens(&rows[rows.len() - 1]).into_iter().filter(|t| *t < 0x80).collect();
            let token = list.get(dice.roll(list.len().max(1))).copied();
            if !token.is_some_and(|token| matcher.accept(&[token]).unwrap()) {
                break;
            }
            rows.push(row(&bench, &mut matcher).unwrap());
        }
        for back in [1, 5, 31, 3] {
            let back = back.min(rows.len() - 1);
            matcher.rollback(back).unwrap();
            rows.truncate(rows.len() - back);
            assert_eq!(row(&bench, &mut matcher).unwrap(), rows[rows.len() - 1], "{spec:?} {back}");
        }
        matcher.rollback(rows.len() - 1).unwrap();
        assert_eq!(row(&bench, &mut matcher).unwrap(), rows[0]);
    }
}

/// With `Next::Any`, the row has every token.
#[test]
fn free_text_allows_everything() {
    let bench = Bench::new();
    let sections = json!([{"free": {"triggers": [], "may_end": true}}]);
    let compiled =
        compile(&bench, &GrammarSpec::Sections(serde_json::from_value(sections).unwrap())).unwrap();
    let mut matcher = Matcher::new(&compiled, None).unwrap();
    assert_eq!(matcher.allowed(), Ok(Next::Any { end: true }));
    assert_eq!(tokens(&row(&bench, &mut matcher).unwrap()).len(), bench.vocab.len());
}
