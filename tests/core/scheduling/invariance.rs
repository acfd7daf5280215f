//! The property that everything else serves: a request's output depends on the request alone.

use super::oracle::Oracle;
use super::request;
use super::world::{World, essence, speculator};
use llgtrt::config::{Config, DraftSource, PromptLookupConfig, SpeculativeConfig};
use llgtrt::exec::toy::ToyConfig;
use llgtrt::request::RequestSpec;
use llgtrt::types::{End, Event, FinishReason};
use proptest::prelude::*;
use std::collections::BTreeMap;
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
    adaptive: bool,
    /// Cancels the requests whose bit is set.
    cancel: u8,
    /// The draft model's KV as a part of the target's.
    draft_kv: f64,
    drafts: Drafts,
    /// The engine keeps prompts by itself, and is given them whole.
    whole: bool,
    /// KV is copied token by token, and takes of the memory of what is stored.
    paged: bool,
    keeps: Keeps,
}

/// What a slot can be cut to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Keeps {
    All,
    /// The last tokens are enough for drafts.
    Window,
    /// Nothing; then nothing is guessed ahead.
    State,
}

#[derive(Debug, Clone, Copy)]
enum Drafts {
    None,
    Lookup {
        most: u32,
    },
    Forced {
        most: u32,
        lookup: bool,
    },
    Oracle {
        most: u32,
        right: u64,
    },
    /// The answers with every `edit`th token another one.
    Prediction {
        most: u32,
        edit: usize,
    },
    /// A model with `blur` percent of noise, and a state or none, after what is named.
    Model {
        most: u32,
        blur: u32,
        state: bool,
        forced: bool,
        lookup: bool,
    },
    /// A model with other tokens, which drafts text, after what is named.
    Text {
        most: u32,
        lookup: bool,
    },
    /// A speculator that guesses at random.
    Speculator {
        most: u32,
        forced: bool,
    },
    /// All sources, one after the other: a model before the speculator that guesses at random, or behind it.
    All {
        most: u32,
        blur: u32,
        state: bool,
        edit: usize,
        model_first: bool,
    },
}

/// Of a draft model; mostly little, so that much is accepted.
fn blur() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0u32..20, 1 => 20u32..50]
}

fn drafts() -> impl Strategy<Value = Drafts> {
    prop_oneof![
        1 => Just(Drafts::None),
        1 => (1u32..9).prop_map(|most| Drafts::Lookup { most }),
        2 => (1u32..9, any::<bool>()).prop_map(|(most, lookup)| Drafts::Forced { most, lookup }),
        4 => (1u32..9, prop_oneof![1 => Just(0u64), 1 => Just(50), 3 => Just(80), 1 => Just(100)])
            .prop_map(|(most, right)| Drafts::Oracle { most, right }),
        2 => (1u32..9, 2usize..20).prop_map(|(most, edit)| Drafts::Prediction { most, edit }),
        3 => (1u32..9, blur(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.25))
            .prop_map(|(most, blur, state, forced, lookup)| Drafts::Model { most, blur, state, forced, lookup }),
        2 => (1u32..9, any::<bool>()).prop_map(|(most, lookup)| Drafts::Text { most, lookup }),
        2 => (1u32..9, any::<bool>()).prop_map(|(most, forced)| Drafts::Speculator { most, forced }),
        3 => (1u32..9, blur(), any::<bool>(), 2usize..20, any::<bool>())
            .prop_map(|(most, blur, state, edit, model_first)| Drafts::All { most, blur, state, edit, model_first }),
    ]
}

fn cramped() -> impl Strategy<Value = Cramped> {
    // 100 KV tokens hold one of the longest sequences, 250 two and a half.
    let sizes = (1u32..8, 100u64..260, 2u32..80, 1u32..8);
    let cancel = prop_oneof![3 => Just(0u8), 1 => any::<u8>()];
    let times = (0usize..4, 0u32..3, cancel, prop_oneof![Just(1.0), Just(0.5), Just(0.2)]);
    let keeps = prop_oneof![3 => Just(Keeps::All), 1 => Just(Keeps::Window), 1 => Just(Keeps::State)];
    let alone = (prop::bool::weighted(0.2), any::<bool>(), keeps);
    (sizes, any::<bool>(), any::<bool>(), 0u64..2, (times, alone), any::<bool>(), drafts()).prop_map(
        |((slots, kv, step_tokens, batch), chunked, reuse, host_megabytes, times, adaptive, drafts)| {
            let ((pause, ms, cancel, draft_kv), (whole, paged, keeps)) = times;
            let guessed = !matches!(drafts, Drafts::None | Drafts::Forced { lookup: false, .. });
            let keeps = if keeps == Keeps::State && guessed { Keeps::Window } else { keeps };
            Cramped {
                slots,
                kv,
                step_tokens: if chunked && !whole { step_tokens } else { 128 },
                batch,
                chunked,
                reuse,
                host_megabytes,
                pause,
                max_step_ms: [1, 5, 250][ms as usize],
                adaptive,
                cancel,
                draft_kv,
                drafts,
                whole,
                paged,
                keeps,
            }
        },
    )
}

/// Those sources that are wanted.
fn chain<const N: usize>(sources: [(DraftSource, bool); N]) -> Option<Vec<DraftSource>> {
    Some(sources.into_iter().filter_map(|(source, wanted)| wanted.then_some(source)).collect())
}

impl Cramped {
    /// `answers`: what the oracle knows.
    fn world(&self, answers: &[(&RequestSpec, Event)]) -> World {
        let toy = ToyConfig {
            slots: self.slots,
            context: 100,
            kv: self.kv,
            step_tokens: self.step_tokens,
            whole: self.whole.into(),
            token_bytes: self.paged.into(),
            window: if self.keeps == Keeps::Window { 12 } else { 0 },
            stateful: (self.keeps == Keeps::State).into(),
            ..ToyConfig::default()
        };
        let mut config = Config {
            max_batch_size: self.batch,
            enable_chunked_context: self.chunked,
            enable_kv_cache_reuse: self.reuse,
            kv_cache_host_memory_megabytes: Some(self.host_megabytes),
            ..Config::default()
        };
        config.engine.max_step_ms = self.max_step_ms;
        // Guesses at random would be left out.
        let at_random = matches!(self.drafts, Drafts::Speculator { .. } | Drafts::Text { .. });
        config.speculative.adaptive = self.adaptive && !at_random;
        config.speculative.sources = Some(Vec::new());
        self.draft(&mut config.speculative);
        let oracle = match self.drafts {
            Drafts::Oracle { right, .. } => {
                Some(Oracle::new(answers.iter().map(|(spec, event)| (*spec, event)), right))
            }
            _ => None,
        };
        World { toy, config, fault: None, oracle }
    }

    fn draft(&self, speculative: &mut SpeculativeConfig) {
        match self.drafts {
            Drafts::None => {}
            Drafts::Lookup { most } => {
                speculative.max_draft_len = Some(most);
                speculative.sources = Some(vec![DraftSource::PromptLookup]);
                speculative.prompt_lookup =
                    PromptLookupConfig { min_ngram: 1, max_ngram: 3, ..Default::default() };
            }
            Drafts::Forced { most, lookup } => {
                speculative.max_draft_len = Some(most);
                let guesses =
                    [DraftSource::Grammar, DraftSource::PromptLookup].map(|source| (source, lookup));
                speculative.sources = chain([(DraftSource::Forced, true), guesses[0], guesses[1]]);
            }
            Drafts::Oracle { most, .. } => speculative.max_draft_len = Some(most),
            Drafts::Prediction { most, .. } => {
                speculative.max_draft_len = Some(most);
                speculative.sources = Some(vec![DraftSource::Prediction]);
            }
            Drafts::Model { .. } | Drafts::Text { .. } | Drafts::All { .. } => {
                self.draft_with_a_model(speculative)
            }
            Drafts::Speculator { most, forced } => {
                speculative.max_draft_len = Some(most);
                speculative.mlp_speculator = Some(speculator());
                speculative.sources =
                    chain([(DraftSource::MlpSpeculator, true), (DraftSource::Forced, forced)]);
            }
        }
    }
}

impl Cramped {
    fn draft_with_a_model(&self, speculative: &mut SpeculativeConfig) {
        match self.drafts {
            Drafts::Model { most, blur, state, forced, lookup } => {
                let model = (DraftSource::DraftModel, true);
                speculative.sources =
                    chain([(DraftSource::Forced, forced), (DraftSource::PromptLookup, lookup), model]);
                self.name_a_model(speculative, most, &format!("blur={blur},stateful={}", u8::from(state)));
            }
            Drafts::Text { most, lookup } => {
                speculative.sources = chain([
                    (DraftSource::Forced, true),
                    (DraftSource::Grammar, lookup),
                    (DraftSource::PromptLookup, lookup),
                    (DraftSource::DraftModel, true),
                ]);
                self.name_a_model(speculative, most, "other_tokens=1");
            }
            Drafts::All { most, blur, state, model_first, .. } => {
                speculative.mlp_speculator = Some(speculator());
                speculative.sources = chain([
                    (DraftSource::Forced, true),
                    (DraftSource::Grammar, true),
                    (DraftSource::Prediction, true),
                    (DraftSource::PromptLookup, true),
                    (DraftSource::DraftModel, model_first),
                    (DraftSource::MlpSpeculator, true),
                    (DraftSource::DraftModel, !model_first),
                ]);
                self.name_a_model(speculative, most, &format!("blur={blur},stateful={}", u8::from(state)));
            }
            _ => {}
        }
    }

    fn name_a_model(&self, speculative: &mut SpeculativeConfig, most: u32, model: &str) {
        speculative.max_draft_len = Some(most);
        speculative.draft_kv_fraction = self.draft_kv;
        // No more room than the target has: it fails where more is held.
        let (kv, step) = (self.kv, self.step_tokens);
        let toy = format!("toy:context=90,kv={kv},step_tokens={step},{model}");
        speculative.draft_model = Some(toy);
        speculative.prompt_lookup = PromptLookupConfig { min_ngram: 1, max_ngram: 3, ..Default::default() };
    }

    /// The requests, with predictions where these are wanted; `answers` by request and choice.
    fn predicting(&self, specs: &[RequestSpec], answers: &[BTreeMap<u32, Event>]) -> Vec<RequestSpec> {
        let mut specs = specs.to_vec();
        if let Drafts::Prediction { edit, .. } | Drafts::All { edit, .. } = self.drafts {
            for (spec, answers) in specs.iter_mut().zip(answers) {
                let edited = |(i, token): (usize, &u32)| if i % edit == edit - 1 { 32 } else { *token };
                spec.prediction = answers[&0].tokens.iter().enumerate().map(edited).collect();
            }
        }
        specs
    }
}

static PREEMPTIONS: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicU64 = AtomicU64::new(0);
static CANCELLED: AtomicU64 = AtomicU64::new(0);
/// Of oracles that are right four times of five, of models, of predictions, of all sources together, of speculators, and
/// of all others.
static DRAFTED: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];
static ACCEPTED: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

fn check(specs: &[RequestSpec], order: &[usize], cramped: &Cramped) -> Result<(), TestCaseError> {
    let wanted: Vec<_> = specs.iter().map(|spec| roomy().alone(spec)).collect();
    let specs = &cramped.predicting(specs, &wanted)[..];
    let known =
        specs.iter().zip(&wanted).flat_map(|(s, events)| events.values().map(move |e| (s, e.clone())));
    let cancelled: Vec<_> = (0..specs.len()).filter(|index| cramped.cancel >> index & 1 == 1).collect();
    let live = cramped.world(&known.collect::<Vec<_>>()).start();
    let answers = live.run_cancelling(specs, order, cramped.pause, &cancelled);
    let kind = match cramped.drafts {
        Drafts::Oracle { right: 80, .. } => 0,
        Drafts::Model { .. } => 1,
        Drafts::Prediction { .. } => 2,
        Drafts::All { .. } => 3,
        Drafts::Speculator { .. } => 4,
        _ => 5,
    };
    prop_assert_eq!(answers.snapshot.gauges.drafters_failed, 0);
    DRAFTED[kind].fetch_add(answers.snapshot.totals.drafted_tokens, Relaxed);
    ACCEPTED[kind].fetch_add(answers.snapshot.totals.accepted_tokens, Relaxed);
    PREEMPTIONS.fetch_add(answers.snapshot.totals.preemptions, Relaxed);
    CACHED.fetch_add(answers.snapshot.totals.cached_tokens, Relaxed);
    CANCELLED.fetch_add(answers.snapshot.totals.requests_cancelled, Relaxed);
    for (index, events) in wanted.iter().enumerate() {
        for (choice, want) in events {
            let got = &answers.choices[&(index, *choice)];
            if cancelled.contains(&index) && got.end == Some(End::Finished(FinishReason::Cancelled)) {
                prop_assert!(want.tokens.starts_with(&got.tokens), "request {} choice {}", index, choice);
                continue;
            }
            prop_assert_eq!(essence(got), essence(want), "request {} choice {}", index, choice);
        }
    }
    Ok(())
}

#[test]
fn output_depends_on_the_request_alone() {
    let cases = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let input = proptest::collection::vec(request(), 2..7).prop_flat_map(|specs| {
        let order = Just((0..specs.len()).collect::<Vec<_>>()).prop_shuffle();
        (Just(specs), order, cramped())
    });
    let mut runner = proptest::test_runner::TestRunner::new(cases);
    runner.run(&input, |(specs, order, cramped)| check(&specs, &order, &cramped)).unwrap();
    assert!(PREEMPTIONS.load(Relaxed) > 0, "no sequence was ever preempted");
    assert!(CACHED.load(Relaxed) > 0, "no prefix was ever reused");
    assert!(CANCELLED.load(Relaxed) > 0, "no request was ever cancelled");
    assert!(
        DRAFTED[4].load(Relaxed) > 1000 && ACCEPTED[4].load(Relaxed) > 0,
        "no speculator ever guessed right"
    );
    assert!(ACCEPTED[5].load(Relaxed) > 0, "no draft was ever accepted");
    for kind in 0..4 {
        let [drafted, accepted] = [&DRAFTED[kind], &ACCEPTED[kind]].map(|n| n.load(Relaxed) as f64);
        assert!((0.2..0.9).contains(&(accepted / drafted)), "{kind}: {accepted} of {drafted} drafted tokens");
    }
}
