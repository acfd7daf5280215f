//! Queue, cache and fairness.

use super::common::Bench;
use llgtrt::error::Error;
use llgtrt::grammar::GrammarSpec;
use serde_json::json;

fn slow(i: usize) -> GrammarSpec {
    // Tens of milliseconds, and none of it looks at the time.
    GrammarSpec::Choice((0..20_000).map(|text| format!("{i} of {text}")).collect())
}

#[test]
fn the_same_spec_is_compiled_once() {
    let bench = Bench::new();
    let mut handles: Vec<_> = (0..8).map(|_| bench.compiler.compile(&slow(0), 1)).collect();
    for handle in &mut handles {
        bench.wait(handle).unwrap();
    }
    bench.compile(&slow(0)).unwrap();
    let stats = bench.compiler.stats();
    assert_eq!((stats.hits, stats.misses, stats.entries, stats.durations.len()), (1, 8, 1, 1));
    assert!(bench.compiler.stats().durations.is_empty());
}

#[test]
fn refusals_are_cached_too() {
    let bench = Bench::new();
    let spec = GrammarSpec::JsonSchema(r#"{"type":"nothing"}"#.into());
    let first = bench.compile(&spec).map(|_| ()).unwrap_err();
    assert_eq!(bench.compile(&spec).map(|_| ()).unwrap_err(), first);
    assert_eq!(bench.compiler.stats().durations.len(), 1);
}

#[test]
fn a_dropped_handle_gives_its_compilation_up() {
    let bench = Bench::new();
    let mut first = bench.compiler.compile(&slow(0), 1);
    let dropped: Vec<_> = (1..20).map(|i| bench.compiler.compile(&slow(i), 1)).collect();
    drop(dropped);
    bench.wait(&mut first).unwrap();
    // Behind all of the others in the line: when it is ready, nothing is left.
    bench.compile(&slow(20)).unwrap();
    assert!(bench.compiler.stats().durations.len() < 20);
}

#[test]
fn what_nobody_waits_for_any_more_ends_soon() {
    let config = llgtrt::config::GrammarConfig { compile_seconds: 600.0, ..Default::default() };
    let bench = Bench::with(&config);
    // Each needs the one before it: more work than a compilation may take.
    let needs = |i: usize| {
        let before = format!("#/prefixItems/{i}");
        json!({"type": "object", "required": ["n"], "properties": {"n": {"$ref": before}}})
    };
    let items: Vec<_> = std::iter::once(json!({})).chain((0..3_000).map(needs)).collect();
    let schema = json!({ "prefixItems": items });
    let spec = GrammarSpec::JsonSchema(schema.to_string());
    drop(bench.compiler.compile(&spec, 0));
    while bench.compiler.stats().durations.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(bench.compiler.stats().entries, 0, "it was not looked at to its end");
    let refused = bench.compile(&spec).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Invalid { .. }), "{refused}");
    assert_eq!(bench.compiler.stats().entries, 1, "now it was");
}

#[test]
fn one_client_cannot_hold_up_another() {
    let config =
        llgtrt::config::GrammarConfig { compile_threads: 2, compile_seconds: 600.0, ..Default::default() };
    let bench = Bench::with(&config);
    let greedy: Vec<_> = (0..12).map(|i| bench.compiler.compile(&slow(i), 1)).collect();
    let mut modest = bench.compiler.compile(&GrammarSpec::JsonObject, 2);
    bench.wait(&mut modest).unwrap();
    let waiting = greedy.into_iter().map(|mut h| h.poll()).filter(Option::is_none).count();
    assert!(waiting > 0, "the other client's line is still there");
}

#[test]
fn without_keys_all_threads_compile() {
    let config =
        llgtrt::config::GrammarConfig { compile_threads: 2, compile_seconds: 600.0, ..Default::default() };
    let bench = Bench::with(&config);
    // Nothing that one thread could have ready while the other is at the first.
    let patterns: Vec<_> =
        (0..1_000).map(|i| json!({"type": "string", "pattern": format!("^a{i}")})).collect();
    let long = json!({"type": "array", "prefixItems": patterns}).to_string();
    let mut slowest = bench.compiler.compile(&GrammarSpec::JsonSchema(long), 0);
    let mut quick = bench.compiler.compile(&GrammarSpec::JsonObject, 0);
    bench.wait(&mut quick).unwrap();
    assert!(slowest.poll().is_none(), "the first was ready before the second began");
}

#[test]
fn what_takes_too_long_is_refused_and_kept_for_later() {
    let config = llgtrt::config::GrammarConfig { compile_seconds: 1e-4, ..Default::default() };
    let bench = Bench::with(&config);
    let too_complex = |error: Error| matches!(error, Error::Invalid { code: Some(code), .. } if code == "grammar_too_complex");
    let refused = bench.compile(&slow(7)).map(|_| ()).unwrap_err();
    assert!(too_complex(refused.clone()), "{refused}");
    // The part that cannot be stopped goes on, and nobody has to do it again.
    let ready = |_: &u32| match bench.compile(&slow(7)) {
        Ok(_) => true,
        Err(error) => {
            assert!(too_complex(error));
            std::thread::sleep(std::time::Duration::from_millis(5));
            false
        }
    };
    assert!((0..10_000).any(|i| ready(&i)));
    assert_eq!(bench.compiler.stats().durations.len(), 1);
}

#[test]
fn parts_that_share_parts_are_looked_at_once() {
    let bench = Bench::new();
    // Each of them an `allOf` of the next, 18 times.
    let part = |next: &str| json!({"allOf": vec![json!({"$ref": format!("#/$defs/{next}")}); 18]});
    let defs = json!({"a": part("b"), "b": part("c"), "c": part("d"), "d": {"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}}}});
    let one = json!({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]});
    for n in [1, 300] {
        let all = json!({"type": "array", "prefixItems": vec![one.clone(); n], "$defs": defs});
        // The branches are the same, so that no item can be there.
        assert!(bench.satisfies(&all, "[]") && !bench.satisfies(&all, "[{}]"), "{n}");
    }
}

#[test]
fn sequences_share_what_their_lexers_may_take() {
    let config = llgtrt::config::GrammarConfig { compile_seconds: 600.0, ..Default::default() };
    // Which of the last twelve letters were `a`: a state for each set of them.
    let spec = GrammarSpec::Regex("(a|b)*a(a|b){11}".into());
    let walk = |running| {
        let mut grammar = Bench::running(&config, running).compile(&spec)?;
        (0..400_usize).try_for_each(|i| {
            let allowed: Vec<_> = grammar.mask()?.mask().unwrap().iter().collect();
            grammar.commit(allowed[i * i % 7 % allowed.len()])
        })
    };
    assert_eq!(walk(16), Ok(()));
    let refused = walk(100_000).unwrap_err();
    assert!(refused.to_string().contains("states"), "{refused}");
}

#[test]
fn the_cache_is_bounded() {
    let config =
        llgtrt::config::GrammarConfig { cache_megabytes: 1, compile_seconds: 600.0, ..Default::default() };
    let bench = Bench::with(&config);
    let choice = |i: usize| GrammarSpec::Choice(vec![format!("choice {i}")]);
    for i in 0..20 {
        bench.compile(&choice(i)).unwrap();
    }
    let entries = bench.compiler.stats().entries;
    assert!((5..20).contains(&entries), "{entries}");
    // A grammar grows with the states of its texts, and is measured when it is asked for again.
    let text = GrammarSpec::JsonSchema(json!({"type": "string", "maxLength": 3000}).to_string());
    let mut grammar = bench.compile(&text).unwrap();
    let letter = (0..bench.vocab.len() as u32).find(|token| bench.vocab.bytes(*token) == b"a").unwrap();
    let quote = (0..bench.vocab.len() as u32).find(|token| bench.vocab.bytes(*token) == b"\"").unwrap();
    grammar.commit(quote).unwrap();
    (0..2500).for_each(|_| grammar.commit(letter).unwrap());
    bench.compile(&text).unwrap();
    // Entries are dropped after the answer is sent, so wait for another answer.
    bench.compile(&choice(20)).unwrap();
    let left = bench.compiler.stats().entries;
    assert!(left < entries, "{left} of {entries}");
}

#[test]
fn a_closed_compiler_says_so() {
    let bench = Bench::new();
    let mut answered = bench.compiler.compile(&GrammarSpec::JsonObject, 0);
    bench.wait(&mut answered).unwrap();
    assert!(matches!(answered.poll(), Some(Err(Error::Closed(_)))));
}
