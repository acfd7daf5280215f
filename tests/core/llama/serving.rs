//! The whole core on the demo target: in slots, bytes and log-probabilities depend on the request alone; in one pool,
//! up to near-ties.

use super::{config, demo, one_engine, pooled};
use crate::scheduling::request;
use crate::scheduling::world::{Answers, essence, start};
use llgtrt::config::Config;
use llgtrt::exec::open::{Opened, open};
use llgtrt::exec::{Caps, Done, ExecError, Job, Kv, Target};
use llgtrt::request::RequestSpec;
use llgtrt::types::Event;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

pub(super) const SLOTS: u32 = 8;
pub(super) const CONTEXT: u32 = 128;

/// An engine that says to hold fewer KV tokens than it does, so that sequences are preempted: slots hold whole contexts,
/// and would never run out.
struct Tight {
    engine: Box<dyn Target>,
    caps: Caps,
}

impl Target for Tight {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn run(&mut self, jobs: Vec<Job>) -> Result<Done, ExecError> {
        self.engine.run(jobs)
    }
    fn kv(&self) -> &dyn Kv {
        self.engine.kv()
    }
    fn kv_mut(&mut self) -> &mut dyn Kv {
        self.engine.kv_mut()
    }
    fn reset(&mut self) -> Result<(), ExecError> {
        self.engine.reset()
    }
}

fn tight(opened: Opened, kv_total: u64) -> Opened {
    let caps = Caps { kv_total, ..opened.target.caps().clone() };
    Opened { target: Box::new(Tight { engine: opened.target, caps }), ..opened }
}

/// Always the same ones. The paths of decisions are the demo's tokens of the same texts.
pub(super) fn requests(n: usize) -> Vec<RequestSpec> {
    let mut runner = TestRunner::deterministic();
    let mut requests = proptest::collection::vec(request(), n).new_tree(&mut runner).unwrap().current();
    let Some(folder) = folder() else { return requests };
    let vocab = open(&folder, &config(SLOTS, CONTEXT), &|_| ()).unwrap().vocab;
    let paths = requests.iter_mut().filter_map(|request| request.decide.as_mut()).flat_map(|d| &mut d.paths);
    for path in paths {
        let text: String = path.tokens.iter().map(|letter| *letter as u8 as char).collect();
        path.tokens = vocab.encode(&[(&text, false)]).unwrap();
        path.from = path.from.min(path.tokens.len() as u32);
    }
    requests
}

/// The demo target's folder, if this checkout has it.
pub(super) fn folder() -> Option<String> {
    Some(demo()?.parent()?.to_string_lossy().into_owned())
}

/// Each request with nothing beside it, before it or kept from it.
fn alone(requests: &[RequestSpec], config: Config) -> Option<BTreeMap<(usize, u32), Event>> {
    Some(alone_on(&folder()?, requests, config))
}

/// The same on another target.
pub(super) fn alone_on(
    target: &str,
    requests: &[RequestSpec],
    config: Config,
) -> BTreeMap<(usize, u32), Event> {
    let config = Config { enable_kv_cache_reuse: false, ..config };
    let live = start(open(target, &config, &|_| ()).unwrap(), &config);
    let mut choices = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        live.submit(index, request);
        choices.extend(live.finish(request.n as usize).choices);
    }
    choices
}

/// All of them at once, in an order of its own.
fn together(requests: &[RequestSpec], config: &Config, kv_total: Option<u64>) -> Option<Answers> {
    let mut opened = open(&folder()?, config, &|_| ()).unwrap();
    println!("{}", opened.info.summary);
    if let Some(total) = kv_total {
        opened = tight(opened, total);
    }
    // 97 is prime to any count that it does not divide.
    let order: Vec<usize> = (0..requests.len()).map(|i| i * 97 % requests.len()).collect();
    Some(start(opened, config).run(requests, &order, 1))
}

#[test]
fn in_slots_output_depends_on_the_request_alone() {
    let _turn = one_engine();
    let requests = requests(300);
    let Some(want) = alone(&requests, config(SLOTS, CONTEXT)) else { return };
    let chunked = Config { max_num_tokens: 24, ..config(SLOTS, CONTEXT) };
    let mut saving =
        Config { max_num_tokens: 40, kv_cache_host_memory_megabytes: Some(8), ..chunked.clone() };
    saving.engine.mmap = Some(true);
    // KV for two and a half sequences of the longest kind, recomputed or saved; then for all.
    for (config, total) in [(&chunked, Some(250)), (&saving, Some(250)), (&chunked, None)] {
        let Some(answers) = together(&requests, config, total) else { return };
        let totals = &answers.snapshot.totals;
        println!("{} preemptions, {} tokens from prefixes", totals.preemptions, totals.cached_tokens);
        assert_eq!(totals.preemptions > 0, total.is_some());
        assert!(totals.cached_tokens > 0, "no prefix was reused");
        assert_eq!(answers.choices.len(), want.len());
        let decided = answers.choices.values().filter(|event| !event.successors.is_empty()).count();
        assert!(decided > 20, "{decided}");
        for (key, event) in &answers.choices {
            assert_eq!(
                essence(event),
                essence(&want[key]),
                "request and choice {key:?}: {:?}",
                requests[key.0]
            );
        }
    }
}

/// Where two runs part, the two tokens' scores differ by no more than the noise.
#[test]
fn in_one_pool_output_parts_at_near_ties_only() {
    let _turn = one_engine();
    let greedy = |mut request: RequestSpec| {
        request.sampling = llgtrt::request::Sampling { temperature: 0.0, ..Default::default() };
        (request.n, request.grammar, request.logprobs, request.decide) = (1, None, Some(2), None);
        // What is drawn must be among the likeliest, which are all that is told of a row.
        (request.allowed_token_ids, request.min_tokens) = (None, 0);
        request
    };
    let requests: Vec<RequestSpec> = requests(100).into_iter().map(greedy).collect();
    let Some(want) = alone(&requests, pooled(config(SLOTS, CONTEXT))) else { return };
    let config = Config { max_num_tokens: 24, ..pooled(config(SLOTS, CONTEXT)) };
    let Some(answers) = together(&requests, &config, None) else { return };
    let gaps: Vec<f32> =
        answers.choices.iter().filter_map(|(key, event)| parted(&want[key], event)).collect();
    println!("{} of {} requests part, at gaps of {gaps:?} nats", gaps.len(), requests.len());
    assert!(gaps.iter().all(|gap| *gap <= 0.05), "{gaps:?}");
    assert!(gaps.len() * 100 <= requests.len() * 3, "{} of {} part", gaps.len(), requests.len());
}

/// How far apart the scores of the two tokens are where the texts part, if they do.
fn parted(one: &Event, other: &Event) -> Option<f32> {
    let at = one.tokens.iter().zip(&other.tokens).position(|(a, b)| a != b)?;
    let [best, second] = &*one.logprobs[at].top else { panic!("two alternatives were asked for") };
    assert!([best.0, second.0].contains(&other.tokens[at]), "parted at a token that was never close");
    Some(best.1 - second.1)
}
