//! Messages survive the way through a socket.

use llgtrt::config::{Acceptance, DraftSource};
use llgtrt::engine::{Command, FromEngine, Report};
use llgtrt::error::Error;
use llgtrt::exec::{Info, Promise};
use llgtrt::grammar::GrammarSpec;
use llgtrt::metrics::Snapshot;
use llgtrt::process::frame::{FrameReader, FrameWriter, MAX_FRAME};
use llgtrt::request::{Decide, Fault, Limits, LogprobsOf, Path, Request, RequestSpec, Sampling, Speculative};
use llgtrt::types::{
    Drafted, End, Event, FinishReason, Narrowed, Origin, RequestId, Successors, TokenLogprob, Usage,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// What comes out of the other end, as text: not every message can be compared.
fn through<T: Serialize + DeserializeOwned + std::fmt::Debug>(messages: &[T]) -> Vec<String> {
    let mut bytes = Vec::new();
    let mut to = FrameWriter::new(&mut bytes);
    messages.iter().for_each(|message| to.send(message).unwrap());
    let mut from = FrameReader::new(&*bytes);
    let read = std::iter::from_fn(|| from.read::<T>().unwrap());
    read.map(|message| format!("{message:?}")).collect()
}

fn text<T: std::fmt::Debug>(messages: &[T]) -> Vec<String> {
    messages.iter().map(|message| format!("{message:?}")).collect()
}

fn grammar() -> impl Strategy<Value = GrammarSpec> {
    prop_oneof![
        Just(GrammarSpec::JsonObject),
        any::<String>().prop_map(GrammarSpec::JsonSchema),
        any::<String>().prop_map(GrammarSpec::Regex),
        any::<String>().prop_map(GrammarSpec::Gbnf),
        any::<String>().prop_map(GrammarSpec::Ebnf),
        any::<String>().prop_map(GrammarSpec::LarkGrammar),
        any::<String>().prop_map(GrammarSpec::Llguidance),
        vec(any::<String>(), 0..4).prop_map(GrammarSpec::Choice),
    ]
}

prop_compose! {
    fn sampling()(
        floats in prop::array::uniform6(0.01f32..1.0),
        top_k in any::<u32>(),
        logit_bias in btree_map(0..u32::MAX, -100f32..100.0, 0..5),
        seed in option::of(any::<u64>()),
    ) -> Sampling {
        let [temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty] = floats;
        Sampling {
            temperature, top_k, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty, logit_bias, seed,
        }
    }
}

prop_compose! {
    fn speculative()(
        enabled in any::<bool>(),
        max_draft_len in option::of(any::<u32>()),
        sources in option::of(vec(prop_oneof![Just(DraftSource::Forced), Just(DraftSource::PromptLookup)], 0..3)),
    ) -> Speculative {
        let acceptance = (!enabled).then_some(Acceptance::Rejection);
        Speculative { enabled, max_draft_len, sources, acceptance }
    }
}

prop_compose! {
    fn spec()(
        prompt in vec(0..u32::MAX, 1..50),
        (n, min_tokens) in (1u32..=128, 0u32..1000),
        (ignore_eos, client, priority, cache_salt) in any::<(bool, u64, i64, u64)>(),
        (max_tokens, logprobs) in (option::of(1000u32..9999), option::of(0u32..=20)),
        sampling in sampling(),
        stop in vec(any::<String>().prop_map(|s| s + "."), 0..4),
        grammar in option::of(grammar()),
        (speculative, prediction) in (speculative(), vec(any::<u32>(), 0..4)),
        (stop_token_ids, allowed_token_ids) in (vec(any::<u32>(), 0..4), option::of(vec(any::<u32>(), 1..4))),
        fault in option::of(any::<u32>().prop_map(Fault::EngineAbort)),
    ) -> RequestSpec {
        RequestSpec {
            prompt, n, max_tokens, min_tokens, sampling, stop, ignore_eos, logprobs, grammar, speculative, prediction, client,
            priority, cache_salt, fault, stop_token_ids, allowed_token_ids, prompt_logprobs: logprobs, decide: None,
            include_stop_str_in_output: ignore_eos, skip_special_tokens: ignore_eos, origins: ignore_eos,
            logprobs_of: if logprobs.is_some() { LogprobsOf::Allowed } else { LogprobsOf::Raw },
        }
    }
}

prop_compose! {
    fn event()(
        ids in any::<(u64, u32)>(),
        text in any::<String>(),
        tokens in vec(any::<u32>(), 0..9),
        top in vec((any::<u32>(), -50f32..0.0), 0..5),
        counts in any::<(u32, u32, u32)>(),
        end in option::of(prop_oneof![
            Just(End::Finished(FinishReason::Stop)),
            any::<(String, String, Option<String>)>()
                .prop_map(|(what, why, code)| End::Failed(Error::Invalid { what, why, code })),
            any::<String>().prop_map(|why| End::Failed(Error::Executor(why))),
        ]),
    ) -> Event {
        let logprobs: Vec<_> = tokens.iter().map(|token| TokenLogprob { token: *token, logprob: -0.1, top: top.clone(), allowed: Some(0.5) }).collect();
        let drafted = Drafted { drafted: counts.0, accepted: counts.1, refused: counts.2 };
        let drafts = [drafted, Drafted::default(), drafted, drafted, drafted, drafted];
        let queued = Duration::from_micros(u64::from(counts.2));
        let usage = Usage { shortened: false, prompt: counts.0, cached: counts.1, completion: counts.2, reasoning: counts.2 / 2, queued, compiling: queued / 2, drafts };
        let refused = top.iter().map(|(token, _)| (*token, DraftSource::Forced)).collect();
        let origins = vec![Origin { source: (counts.0 > 9).then_some(DraftSource::DraftModel), refused }];
        let successors = vec![Successors { settled: vec![0.25, 0.5], open: vec![(counts.0, 0.25)] }];
        let narrowed = vec![Narrowed { pointer: "/a".into(), keyword: "b".into(), reason: text.clone() }];
        Event { request: RequestId(ids.0), choice: ids.1, text, origins, logprobs: logprobs.clone(), prompt_logprobs: logprobs, successors, tokens, usage, narrowed, end }
    }
}

proptest! {
    #[test]
    fn requests_are_the_same_at_the_other_end(spec in spec()) {
        let limits = Limits { n_vocab: u32::MAX, context: u32::MAX, max_prompt: u32::MAX, default_output: u32::MAX, faults: true, lacks: Default::default() };
        let request = Request::new(spec, &limits).unwrap();
        let sent = [Command::Submit(RequestId(u64::MAX), Box::new(request)), Command::Cancel(RequestId(0)), Command::Close];
        prop_assert_eq!(through(&sent), text(&sent));
    }

    #[test]
    fn specs_are_the_same_at_the_other_end(spec in spec(), options in vec(any::<String>(), 0..3), tokens in vec(any::<u32>(), 0..3)) {
        let decide = Decide { options, base: 1, paths: vec![Path { tokens, from: 2 }], inside: true };
        let sent = &[RequestSpec { decide: Some(decide), ..spec }];
        prop_assert_eq!(through(sent), text(sent));
    }

    #[test]
    fn reports_are_the_same_at_the_other_end(events in vec(event(), 0..5), admitted in vec(any::<u64>(), 0..3)) {
        let mut snapshot = Snapshot::default();
        snapshot.totals.steps = u64::MAX;
        snapshot.totals.step.observe(0.1);
        let admitted = admitted.into_iter().map(RequestId).collect();
        let sent = [FromEngine::Report(Report { admitted, events, metrics: Some(Box::new(snapshot)) })];
        prop_assert_eq!(through(&sent), text(&sent));
    }

    #[test]
    fn garbage_is_an_error_or_the_end(bytes in vec(any::<u8>(), 0..64)) {
        let mut from = FrameReader::new(&*bytes);
        while let Ok(Some(_)) = from.read::<Command>() {}
    }
}

#[test]
fn what_is_said_once_is_the_same_at_the_other_end() {
    let info = Info {
        limits: Limits {
            n_vocab: 1,
            context: 2,
            max_prompt: 2,
            default_output: u32::MAX,
            faults: false,
            lacks: Default::default(),
        },
        max_running: 3,
        kv_tokens: 4,
        threads: 1,
        plan: None,
        promise: Promise::NearTies,
        summary: "s".into(),
        weights: u64::MAX,
        eog: Vec::new(),
        bos: None,
        begin: None,
        chat_template: Some("{{ messages }}".into()),
        tool_use_template: None,
        rag_template: None,
    };
    let sent = [
        FromEngine::Opening("reading".into()),
        FromEngine::Ready(Box::new(info)),
        FromEngine::Failed(Error::grammar("/a", "b", "c")),
    ];
    assert_eq!(through(&sent), text(&sent));
}

#[test]
fn a_cut_message_is_the_end_and_a_huge_one_an_error() {
    let mut bytes = Vec::new();
    FrameWriter::new(&mut bytes).send(&Command::Cancel(RequestId(1 << 40))).unwrap();
    for cut in 0..bytes.len() {
        assert!(FrameReader::new(&bytes[..cut]).read::<Command>().unwrap().is_none());
    }
    let huge = (MAX_FRAME + 1).to_le_bytes();
    assert!(FrameReader::new(&huge[..]).read::<Command>().is_err());
}
