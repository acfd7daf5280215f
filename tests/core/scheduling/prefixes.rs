//! Prefix reuse and n > 1 compute each token once: asserted by counts of computed tokens.

use super::spec;
use super::world::{Answers, Live, World};
use llgtrt::config::{Config, DraftSource, ReuseScope};
use llgtrt::engine::FromEngine;
use llgtrt::exec::toy::ToyConfig;
use llgtrt::request::RequestSpec;

fn prompt(n: u32) -> String {
    format!("{:?}", (0..n).map(|i| 97 + i % 26).collect::<Vec<_>>())
}

#[test]
fn a_second_request_computes_only_what_is_new() {
    let world = World::default();
    let a = spec(&format!(r#"{{"prompt":{},"max_tokens":1,"ignore_eos":true}}"#, prompt(100)));
    let b = spec(&format!(r#"{{"prompt":{},"max_tokens":1,"ignore_eos":true}}"#, prompt(130)));
    let live = world.start();
    live.submit(0, &a);
    assert_eq!(live.finish(1).snapshot.totals.computed_tokens, 100);
    live.submit(1, &b);
    let answers = live.finish(1);
    assert_eq!(answers.snapshot.totals.computed_tokens, 130);
    assert_eq!(answers.choices[&(1, 0)].usage.cached, 100);
}

#[test]
fn without_reuse_everything_is_computed() {
    let config = Config { enable_kv_cache_reuse: false, ..Config::default() };
    let world = World { config, ..World::default() };
    let a = spec(&format!(r#"{{"prompt":{},"max_tokens":1,"ignore_eos":true}}"#, prompt(100)));
    let live = world.start();
    live.submit(0, &a);
    live.finish(1);
    live.submit(1, &a);
    let answers = live.finish(1);
    assert_eq!(answers.snapshot.totals.computed_tokens, 200);
    assert_eq!(answers.choices[&(1, 0)].usage.cached, 0);
}

fn of(client: u32, salt: u32, tokens: u32) -> RequestSpec {
    let prompt = prompt(100);
    spec(&format!(
        r#"{{"prompt":{prompt},"client":{client},"cache_salt":{salt},"max_tokens":{tokens},"ignore_eos":true}}"#
    ))
}

/// Several slots, and one, from which prefixes go to host memory.
fn scoped(scope: ReuseScope, slots: u32) -> Live {
    let memory = Some(16);
    let config =
        Config { kv_cache_reuse_scope: scope, kv_cache_host_memory_megabytes: memory, ..Config::default() };
    let toy = ToyConfig { slots, step_us: 100, ..ToyConfig::default() };
    World { config, toy, ..World::default() }.start()
}

#[test]
fn kept_prefixes_are_reused_within_their_scope_only() {
    for (scope, cached) in
        [(ReuseScope::Key, [0, 0, 99, 0, 99, 0]), (ReuseScope::All, [0, 99, 99, 0, 99, 99])]
    {
        for slots in [128, 1] {
            let live = scoped(scope, slots);
            let who = [(1, 0), (2, 0), (1, 0), (1, 7), (1, 7), (2, 7)];
            let found = (0..).zip(who).map(|(index, (client, salt))| {
                live.submit(index, &of(client, salt, 5));
                live.finish(1).choices[&(index, 0)].usage.cached
            });
            assert_eq!(found.collect::<Vec<_>>(), cached, "{scope:?}, {slots} slots");
        }
    }
}

#[test]
fn running_prefixes_are_lent_within_their_scope_only() {
    for (scope, cached) in [(ReuseScope::Key, [0, 99]), (ReuseScope::All, [99, 99])] {
        let live = scoped(scope, 128);
        live.submit(0, &of(1, 0, 2000));
        let mut answers = Answers::default();
        while answers.choices.is_empty() {
            answers.take(live.messages.recv().unwrap());
        }
        live.submit(1, &of(2, 0, 5));
        live.submit(2, &of(1, 0, 5));
        let answers = live.finish_after(answers, 3);
        assert_eq!([1, 2].map(|index| answers.choices[&(index, 0)].usage.cached), cached, "{scope:?}");
    }
}

#[test]
fn choices_share_the_prompt() {
    for reuse in [true, false] {
        let mut world = World::default();
        world.config.enable_kv_cache_reuse = reuse;
        let four = spec(&format!(r#"{{"prompt":{},"n":4,"max_tokens":3,"ignore_eos":true}}"#, prompt(100)));
        let answers = world.run(&[four], &[0], 0);
        // The prompt once, its last token again for each further choice, then two tokens of each choice.
        assert_eq!(answers.snapshot.totals.computed_tokens, 100 + 3 + 4 * 2);
        assert!(answers.choices.values().all(|e| e.usage.cached == 0));
        let texts: std::collections::BTreeSet<_> =
            answers.choices.values().map(|e| e.tokens.clone()).collect();
        assert!(texts.len() > 1, "choices draw independently");
    }
}

#[test]
fn guaranteed_no_evict_never_preempts() {
    let toy = ToyConfig { kv: 250, context: 100, ..ToyConfig::default() };
    let many: Vec<_> = (0..12)
        .map(|i| spec(&format!(r#"{{"prompt":[{}],"max_tokens":90,"ignore_eos":true}}"#, 97 + i)))
        .collect();
    let order: Vec<usize> = (0..many.len()).collect();
    for (guaranteed, preempts) in [(true, false), (false, true)] {
        let config = Config { guaranteed_no_evict: guaranteed, ..Config::default() };
        let world = World { toy: toy.clone(), config, ..World::default() };
        let totals = world.run(&many, &order, 0).snapshot.totals;
        assert_eq!(totals.preemptions > 0, preempts, "guaranteed_no_evict: {guaranteed}");
    }
}

#[test]
fn saved_kv_is_not_computed_again() {
    let toy = ToyConfig { kv: 250, context: 100, ..ToyConfig::default() };
    let many: Vec<_> = (0..4)
        .map(|i| spec(&format!(r#"{{"prompt":[{}],"max_tokens":90,"ignore_eos":true}}"#, 97 + i)))
        .collect();
    let computed = |megabytes| {
        let mut world = World { toy: toy.clone(), ..World::default() };
        world.config.kv_cache_host_memory_megabytes = Some(megabytes);
        let totals = world.run(&many, &[0, 1, 2, 3], 0).snapshot.totals;
        assert!(totals.preemptions > 0);
        totals.computed_tokens
    };
    assert_eq!(computed(1), 4 * 90);
    assert!(computed(0) > 4 * 90);
}

/// The second one's prompt is half computed when the first has grown so far that it must go.
#[test]
fn a_half_computed_prompt_is_not_computed_again() {
    let toy = ToyConfig { kv: 300, context: 250, step_tokens: 2, ..ToyConfig::default() };
    let first = spec(r#"{"prompt":[97],"max_tokens":150,"ignore_eos":true,"sampling":{"seed":1}}"#);
    let second = spec(&format!(
        r#"{{"prompt":{},"max_tokens":2,"ignore_eos":true,"sampling":{{"seed":2}}}}"#,
        prompt(200)
    ));
    let computed = |megabytes| {
        let mut world = World { toy: toy.clone(), ..World::default() };
        world.config.kv_cache_host_memory_megabytes = Some(megabytes);
        let answers = world.run(&[first.clone(), second.clone()], &[0, 1], 0);
        let totals = answers.snapshot.totals;
        assert_eq!(totals.preemptions, 1);
        (totals.computed_tokens, answers.choices[&(1, 0)].tokens.clone())
    };
    let ((with, text), (without, same)) = (computed(1), computed(0));
    assert_eq!((with, text), (150 + 201, same));
    assert!(without > with + 50, "{without}");
}

/// Prefixes that slots must give up come back from host memory, and only what is not there is computed.
#[test]
fn evicted_prefixes_come_back() {
    let toy = ToyConfig { slots: 2, kv: 300, context: 150, ..ToyConfig::default() };
    let request = |first: u32| {
        let prompt: Vec<u32> = (0..100).map(|i| 97 + (i * first + first) % 26).collect();
        spec(&format!(r#"{{"prompt":{prompt:?},"max_tokens":2,"ignore_eos":true,"sampling":{{"seed":1}}}}"#))
    };
    for (megabytes, cached) in [(1, 99), (0, 0)] {
        let config = Config { kv_cache_host_memory_megabytes: Some(megabytes), ..Config::default() };
        let live = World { toy: toy.clone(), config, ..World::default() }.start();
        let requests: Vec<_> = [1, 3, 5, 7, 9].into_iter().map(request).collect();
        let mut texts = Vec::new();
        for (number, request) in requests.iter().chain(&requests).enumerate() {
            live.submit(number, request);
            let answers = live.finish(1);
            let event = &answers.choices[&(number, 0)];
            assert_eq!(event.usage.cached, if number < 5 { 0 } else { cached }, "{megabytes} MiB, {number}");
            texts.push(event.tokens.clone());
        }
        assert_eq!(texts[..5], texts[5..]);
    }
}

/// A prompt of 100 tokens that begins like no other of these.
fn distinct(first: u32) -> RequestSpec {
    let prompt: Vec<u32> = (0..100).map(|i| 97 + (i * first + first) % 26).collect();
    spec(&format!(r#"{{"prompt":{prompt:?},"max_tokens":2,"ignore_eos":true,"sampling":{{"seed":1}}}}"#))
}

/// Cached tokens of these requests, one after the other, and the most tokens that were kept after one.
fn cached(toy: ToyConfig, order: &[u32]) -> (Vec<u32>, u64) {
    let config = Config { kv_cache_host_memory_megabytes: Some(1), ..World::default().config };
    let live = World { toy, config, ..World::default() }.start();
    let mut most = 0;
    let one = |(number, first): (usize, &u32)| {
        live.submit(number, &distinct(*first));
        let answers = live.finish(1);
        most = most.max(answers.snapshot.gauges.kv_kept);
        answers.choices[&(number, 0)].usage.cached
    };
    (order.iter().enumerate().map(one).collect(), most)
}

/// Where KV lies in host memory, stored prefixes and those in slots share one budget: the oldest of all goes first.
#[test]
fn kept_and_stored_prefixes_share_one_budget() {
    // The weightless engine stores 4 bytes of a token, and the store its id.
    let toy = ToyConfig { slots: 2, kv: 350, context: 150, token_bytes: 8, ..ToyConfig::default() };
    let (found, most) = cached(toy.clone(), &[1, 3, 5, 7, 1, 5]);
    assert_eq!(found, [0, 0, 0, 0, 0, 99]);
    assert!((202..=350).contains(&most), "{most}");
    let (found, most) = cached(ToyConfig { kv: 1000, ..toy }, &[1, 3, 5, 7, 3, 1]);
    assert_eq!(found, [0, 0, 0, 0, 99, 99]);
    assert!(most > 400, "{most}");
}

/// Other processes come before what is only kept.
#[test]
fn kept_prefixes_go_where_memory_is_short() {
    let toy = ToyConfig { slots: 8, token_bytes: 8, ..ToyConfig::default() };
    assert_eq!(cached(toy.clone(), &[1, 3, 1, 3]).0, [0, 0, 99, 99]);
    assert_eq!(cached(ToyConfig { enough: 150, ..toy }, &[1, 3, 1, 3]).0, [0, 0, 0, 0]);
}

/// The same while nothing is asked of the engine.
#[test]
fn an_idle_engine_gives_memory_back() {
    let toy = ToyConfig { slots: 8, token_bytes: 8, enough: 50, ..ToyConfig::default() };
    let live = World { toy, ..World::default() }.start();
    live.submit(0, &spec(&format!(r#"{{"prompt":{},"max_tokens":4,"ignore_eos":true}}"#, prompt(60))));
    assert!(live.finish(1).snapshot.gauges.kv_kept > 50);
    let kept = || match live.messages.recv().unwrap() {
        FromEngine::Report(report) => report.metrics.map(|snapshot| snapshot.gauges.kv_kept),
        _ => None,
    };
    while kept() != Some(0) {}
}

/// Drafts have the memory of what is only kept.
#[test]
fn kept_prefixes_refuse_no_drafts() {
    let prompt = prompt(60);
    let request = |prediction: &str| {
        spec(&format!(
            r#"{{"prompt":{prompt},"client":2,"max_tokens":30,"ignore_eos":true,"sampling":{{"seed":1}}{prediction}}}"#
        ))
    };
    let toy = ToyConfig { slots: 4, kv: 100, context: 100, ..ToyConfig::default() };
    let mut world = World { toy, ..World::default() };
    world.config.speculative.adaptive = false;
    world.config.speculative.sources = Some(vec![DraftSource::Prediction]);
    let live = world.start();
    live.submit(0, &request(""));
    let text = live.finish(1).choices[&(0, 0)].tokens.clone();
    live.submit(1, &spec(&format!(r#"{{"prompt":{prompt},"max_tokens":30,"ignore_eos":true}}"#)));
    assert!(live.finish(1).snapshot.gauges.kv_kept > 80);
    live.submit(2, &request(&format!(r#","prediction":{text:?}"#)));
    let answers = live.finish(1);
    assert_eq!(answers.choices[&(2, 0)].tokens, text);
    assert!(answers.snapshot.totals.accepted_tokens >= 25, "{:?}", answers.snapshot.totals);
}

/// Of what several prompts begin with, a slot that cannot be cut so far keeps nothing; the second prompt tells that it is
/// shared, and those that follow find it.
#[test]
fn a_shared_beginning_is_kept_apart_where_slots_cannot_be_cut_to_it() {
    let begins = |i: u32| {
        let rest = (0..60).map(|j| 97 + (i * 7 + j) % 26);
        let prompt: Vec<u32> = (0..80).map(|i| 97 + i % 26).chain([200 + i]).chain(rest).collect();
        spec(&format!(r#"{{"prompt":{prompt:?},"max_tokens":30,"ignore_eos":true}}"#))
    };
    for (toy, cached) in [
        (ToyConfig::default(), [0, 80, 80, 80, 80]),
        (ToyConfig { window: 12, ..ToyConfig::default() }, [0, 0, 80, 80, 80]),
        (ToyConfig { stateful: 1, ..ToyConfig::default() }, [0, 0, 80, 80, 80]),
        (ToyConfig { slots: 1, window: 12, ..ToyConfig::default() }, [0; 5]),
    ] {
        let live = World { toy: toy.clone(), ..World::default() }.start();
        let found: Vec<u32> = (0..5)
            .map(|i| {
                live.submit(i, &begins(i as u32));
                live.finish(1).choices[&(i, 0)].usage.cached
            })
            .collect();
        assert_eq!(found, cached, "{toy:?}");
    }
}

/// A conversation goes on from all that its slot holds; the same prompt again from its end.
#[test]
fn a_state_is_kept_at_the_end_of_a_prompt_and_of_an_answer() {
    let live = World { toy: ToyConfig { stateful: 1, ..ToyConfig::default() }, ..World::default() }.start();
    let ask = |index: u64, prompt: &[u32]| {
        live.submit(
            index as usize,
            &spec(&format!(
                r#"{{"prompt":{prompt:?},"max_tokens":20,"ignore_eos":true,"sampling":{{"seed":7}}}}"#
            )),
        );
        let answers = live.finish(1);
        let choice = &answers.choices[&(index as usize, 0)];
        (choice.usage.cached, choice.tokens.clone())
    };
    let first: Vec<u32> = (0..100).map(|i| 97 + i % 26).collect();
    let (cached, answer) = ask(0, &first);
    assert_eq!((cached, answer.len()), (0, 20));
    let again = ask(1, &first);
    assert_eq!(again, (99, answer.clone()));
    let second = [&first[..], &answer, &[97, 98, 99]].concat();
    assert_eq!(ask(2, &second).0, 119);
}

/// A prompt is kept every 256 tokens: the second one that begins alike goes on from there, the third from all that is shared.
/// Such parts take empty slots only, and make room first.
#[test]
fn parts_of_a_prompt_are_kept_where_slots_cannot_be_cut() {
    let toy = ToyConfig { stateful: 1, context: 1000, slots: 5, kv: 5000, ..ToyConfig::default() };
    let live = World { toy, ..World::default() }.start();
    let mut next = 0..;
    let mut ask = |begin: u32, shared: usize, rest: usize| {
        let begin = (0..).map(|i| 97 + (begin + i / 26) % 26).take(shared);
        let index: usize = next.next().unwrap();
        let prompt: Vec<u32> =
            begin.chain((0..rest).map(|i| 97 + ((index + 3) * (i + 1) % 26) as u32)).collect();
        live.submit(index, &spec(&format!(r#"{{"prompt":{prompt:?},"max_tokens":2,"ignore_eos":true}}"#)));
        live.finish(1).choices[&(index, 0)].usage.cached
    };
    assert_eq!(ask(0, 600, 100), 0);
    assert_eq!([ask(0, 600, 100), ask(0, 600, 100), ask(0, 600, 100)], [512, 600, 600]);
    // What is left of the first prompts' parts goes before what was used.
    assert_eq!([ask(5, 100, 40), ask(9, 100, 40)], [0, 0]);
    assert_eq!(ask(0, 600, 50), 600);
}
