//! What a step does with an engine that says what a test has prepared.

use super::*;
use crate::error::Result;
use crate::exec::Draft;
use crate::exec::external::request::GrammarFormat;
use crate::grammar::{Compiler, Grammar, GrammarSpec};
use crate::request::{Limits, Request};
use crate::sampler::Sampler;
use crate::vocab::Vocab;
use std::collections::VecDeque;
use std::sync::Arc;

/// Says what the test has prepared.
#[derive(Default)]
struct Fake {
    says: VecDeque<Report>,
    submitted: Vec<EngineRequest>,
    cancelled: Vec<u64>,
}

impl Engine for Fake {
    fn submit(&mut self, request: EngineRequest) -> Result<()> {
        if request.prompt.contains(&66) {
            return Err(Error::Executor("no B".into()));
        }
        self.submitted.push(request);
        Ok(())
    }

    fn cancel(&mut self, id: u64) {
        self.cancelled.push(id);
    }

    fn next(&mut self) -> Result<Report, ExecError> {
        self.says.pop_front().ok_or_else(|| ExecError("waits for ever".into()))
    }

    fn ready(&mut self) -> Option<Report> {
        None
    }
}

fn target() -> ExternalTarget<Fake> {
    let options =
        RequestOptions { format: GrammarFormat::Spec, seeded: false, shared: false, counted: false };
    ExternalTarget::new(Fake::default(), "fake", options, Caps::of_rows(Vocab::toy().unwrap().len(), 2, 64))
}

fn job(slot: u32, start: u32, tokens: &[Token], grammar: Option<Grammar>) -> Job {
    let vocab = Vocab::toy().unwrap();
    let spec = serde_json::from_str(r#"{"prompt":[1,2,3],"logprobs":1,"stop_token_ids":[65]}"#);
    let request = Request::new(spec.unwrap(), &Limits::small(vocab.len())).unwrap();
    Job {
        slot: Slot(slot),
        start,
        tokens: tokens.to_vec(),
        sample: true,
        score: None,
        decides: 0,
        draft: Draft::default(),
        budget: 9,
        sampler: Sampler::new(Arc::new(request), 0, 7, vocab),
        grammar,
    }
}

fn grammar(regex: &str) -> Grammar {
    let compiler = Compiler::new(Vocab::toy().unwrap(), &Default::default(), 1, Arc::new(|| {})).unwrap();
    compiler.compile(&GrammarSpec::Regex(regex.into()), 0).wait().unwrap().begin()
}

fn says(id: u64, tokens: &[Token], finish: Option<&str>) -> Report {
    let logprobs = tokens.iter().map(|token| vec![(*token, -1.0), (9, -0.5)]).collect();
    Report::Answer(Answer {
        id,
        tokens: tokens.to_vec(),
        logprobs,
        prompt_logprobs: Vec::new(),
        finish: finish.map(str::to_owned),
        error: None,
        cached: None,
        drafted: (0, 0),
    })
}

/// The only round of a step.
fn step(target: &mut ExternalTarget<Fake>, job: Job) -> Result<Round> {
    let mut done = target.run(vec![job]).unwrap();
    done.outcomes.pop().unwrap().1.map(|round| *round)
}

#[test]
fn a_sequence_is_one_request() {
    let mut target = target();
    target.engine.says.extend([says(1, &[10], None), says(1, &[11, 12], None), says(1, &[65], Some("stop"))]);
    let first = step(&mut target, job(0, 0, &[1, 2, 3], None)).unwrap();
    assert_eq!((first.tokens, first.computed), (vec![10], 3));
    assert_eq!((first.logprobs[0].logprob, &first.logprobs[0].top[..]), (-1.0, &[(9, -0.5)][..]));
    let second = step(&mut target, job(0, 3, &[10], None)).unwrap();
    assert_eq!((second.tokens, second.computed), (vec![11, 12], 5));
    let last = step(&mut target, job(0, 5, &[12], None)).unwrap();
    assert_eq!((last.tokens, last.computed), (vec![65], 6));
    assert_eq!((target.engine.submitted.len(), &target.engine.submitted[0].prompt[..]), (1, &[1, 2, 3][..]));
    target.truncate(Slot(0), 0).unwrap();
    assert!(target.engine.cancelled.is_empty(), "it had ended");
}

#[test]
fn nobody_waits_for_another_sequence() {
    let mut target = target();
    target.engine.says.extend([says(2, &[10], None), says(1, &[20], None)]);
    let done = target.run(vec![job(0, 0, &[1, 2, 3], None), job(1, 0, &[1, 2, 3], None)]).unwrap();
    let tokens: Vec<_> = done
        .outcomes
        .into_iter()
        .map(|(_, outcome)| outcome.map(|round| (round.tokens, round.computed)).unwrap())
        .collect();
    assert_eq!(tokens, [(vec![], 0), (vec![10], 3)]);
    let round = step(&mut target, job(0, 0, &[1, 2, 3], None)).unwrap();
    assert_eq!((round.tokens, target.engine.submitted.len()), (vec![20], 2));
    target.truncate(Slot(1), 0).unwrap();
    assert_eq!(target.engine.cancelled, [2]);
}

#[test]
fn a_request_fails_alone() {
    let mut target = target();
    let Err(Error::Executor(why)) = step(&mut target, job(0, 0, &[66], None)) else { panic!() };
    assert_eq!(why, "no B");
    let Report::Answer(mut answer) = says(2, &[10], None) else { panic!() };
    answer.error = Some("went wrong".into());
    target.engine.says.push_back(Report::Answer(answer));
    assert_eq!(step(&mut target, job(1, 0, &[1], None)).unwrap().tokens, [10]);
    let Err(Error::Executor(why)) = step(&mut target, job(1, 1, &[10], None)) else { panic!() };
    assert_eq!(why, "fake: went wrong");
}

#[test]
fn an_output_that_ends_too_early_is_an_error() {
    for (tokens, finish) in [(&[97][..], "stop"), (&[97, 65], "stop"), (&[], "length")] {
        let mut target = target();
        target.engine.says.push_back(says(1, tokens, Some(finish)));
        let Err(Error::Executor(why)) = step(&mut target, job(0, 0, &[1], Some(grammar("ab")))) else {
            panic!("{tokens:?}")
        };
        assert!(why.contains("ended the output"), "{why}");
    }
    let mut target = target();
    target.engine.says.push_back(says(1, &[97, 98], Some("stop")));
    let round = step(&mut target, job(0, 0, &[1], Some(grammar("ab")))).unwrap();
    assert!(round.ended && round.tokens == [97, 98]);
}

#[test]
fn drafts_are_counted_although_the_constraint_has_ended() {
    let mut target = target();
    target.options.counted = true;
    target.engine.says.push_back(says(1, &[97, 98], None));
    let round = step(&mut target, job(0, 0, &[1], Some(grammar("ab")))).unwrap();
    assert_eq!((round.tokens, round.computed), (vec![], 0));
    let Report::Answer(mut last) = says(1, &[65], Some("stop")) else { panic!() };
    last.drafted = (6, 2);
    target.engine.says.push_back(Report::Answer(last));
    let round = step(&mut target, job(0, 0, &[1], Some(grammar("ab")))).unwrap();
    assert_eq!((round.tokens, round.ended, round.speculated), (vec![97, 98], true, (6, 2)));
}

#[test]
fn a_broken_engine_is_given_up() {
    let mut target = target();
    target.engine.says.push_back(Report::Broken("died".into()));
    let error = target.run(vec![job(0, 0, &[1], None)]).unwrap_err();
    assert_eq!(error.0, "fake: died");
    assert!(target.reset().is_err());
}

#[test]
fn what_is_asked_is_the_requests() {
    let asked = |fields: &str, options: RequestOptions| {
        let mut job = job(0, 0, &[1], None);
        let vocab = Vocab::toy().unwrap();
        let spec = serde_json::from_str(&format!(r#"{{"prompt":[1]{fields}}}"#)).unwrap();
        let request = Request::new(spec, &Limits::small(vocab.len())).unwrap();
        job.sampler = Sampler::new(Arc::new(request), 0, 7, vocab);
        EngineRequest::new(1, &job, vec![1], options).unwrap()
    };
    let options =
        RequestOptions { format: GrammarFormat::Spec, seeded: false, shared: false, counted: false };
    let plain = asked("", options);
    assert_eq!((plain.temperature, plain.seed, plain.cache_salt, plain.grammar), (1.0, None, None, None));
    assert!(asked(r#","sampling":{"seed":3}"#, options).seed.is_some());
    assert!(asked("", RequestOptions { seeded: true, ..options }).seed.is_some());
    let greedy = asked(r#","sampling":{"seed":3,"top_k":1}"#, options);
    assert_eq!((greedy.temperature, greedy.seed, greedy.top_k), (0.0, None, 0));
    let own = asked(r#","ignore_eos":true,"stop_token_ids":[65]"#, options);
    assert_eq!((own.stop_token_ids.last(), own.avoided_token_ids.contains(&65)), (Some(&65), false));
    assert_eq!(own.stop_token_ids[..own.avoided_token_ids.len()], own.avoided_token_ids);
    let salted = |options| asked(r#","client":3,"cache_salt":5"#, options).cache_salt;
    assert_ne!(salted(options), salted(RequestOptions { shared: true, ..options }));
    let constrained = asked(r#","grammar":{"regex":"a+"}"#, options).grammar.unwrap();
    assert_eq!(constrained, r#"{"regex":"a+"}"#);
}
