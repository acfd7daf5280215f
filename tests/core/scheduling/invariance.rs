//! The property that everything else serves: a request's output depends on the request alone.

use super::request;
use super::world::{World, essence};
use llgtrt::config::Config;
use llgtrt::exec::toy::ToyConfig;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn roomy() -> World {
    World::default()
}

#[derive(Debug, Clone)]
struct Cramped {
    slots: u32,
    kv: u64,
    step_tokens: u32,
    batch: u32,
    chunked: bool,
    reuse: bool,
    host_megabytes: u64,
    pause: usize,
    max_step_ms: u32,
}

fn cramped() -> impl Strategy<Value = Cramped> {
    // 100 KV tokens hold one of the longest sequences, 250 two and a half.
    let sizes = (1u32..8, 100u64..260, 2u32..80, 1u32..8);
    (sizes, any::<bool>(), any::<bool>(), 0u64..2, 0usize..4, 0u32..3).prop_map(
        |((slots, kv, step_tokens, batch), chunked, reuse, host_megabytes, pause, ms)| Cramped {
            slots,
            kv,
            step_tokens: if chunked { step_tokens } else { 128 },
            batch,
            chunked,
            reuse,
            host_megabytes,
            pause,
            max_step_ms: [1, 5, 250][ms as usize],
        },
    )
}

impl Cramped {
    fn world(&self) -> World {
        let toy = ToyConfig {
            slots: self.slots,
            context: 100,
            kv: self.kv,
            step_tokens: self.step_tokens,
            ..ToyConfig::default()
        };
        let mut config = Config {
            max_batch_size: self.batch,
            enable_chunked_context: self.chunked,
            enable_kv_cache_reuse: self.reuse,
            kv_cache_host_memory_megabytes: self.host_megabytes,
            ..Config::default()
        };
        config.engine.max_step_ms = self.max_step_ms;
        World { toy, config, fault: None }
    }
}

static PREEMPTIONS: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicU64 = AtomicU64::new(0);

fn check(
    specs: &[llgtrt::request::RequestSpec],
    order: &[usize],
    cramped: &Cramped,
) -> Result<(), TestCaseError> {
    let answers = cramped.world().run(specs, order, cramped.pause);
    PREEMPTIONS.fetch_add(answers.snapshot.totals.preemptions, Relaxed);
    CACHED.fetch_add(answers.snapshot.totals.cached_tokens, Relaxed);
    for (index, spec) in specs.iter().enumerate() {
        for (choice, want) in roomy().alone(spec) {
            let got = &answers.choices[&(index, choice)];
            prop_assert_eq!(essence(got), essence(&want), "request {} choice {}", index, choice);
        }
    }
    Ok(())
}

#[test]
fn output_depends_on_the_request_alone() {
    let cases = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let input = proptest::collection::vec(request(), 2..7).prop_flat_map(|specs| {
        let order = Just((0..specs.len()).collect::<Vec<_>>()).prop_shuffle();
        (Just(specs), order, cramped())
    });
    let mut runner = proptest::test_runner::TestRunner::new(cases);
    runner.run(&input, |(specs, order, cramped)| check(&specs, &order, &cramped)).unwrap();
    assert!(PREEMPTIONS.load(Relaxed) > 0, "no sequence was ever preempted");
    assert!(CACHED.load(Relaxed) > 0, "no prefix was ever reused");
}
