//! Lifts a [`Forward`] (an engine that hands out logits) to a [`Target`].
//!
//! All jobs of a step run in one pass, and are judged together. A panic in one job's grammar or sampler becomes that
//! sequence's error. Masks that no walk ahead has computed come with the judging after the pass, or beside it where the machine
//! has cores that the engine leaves free (`mask_threads`).

use super::cost::Work;
use super::helpers::Helpers;
use super::{Caps, Done, ExecError, Forward, Job, Kv, Outcome, Round, Run, Target, verify};
use crate::config::SpeculativeConfig;
use crate::error::{Error, Result, caught};
use crate::request::Fault;
use crate::sampler::Scratch;
use crate::types::Slot;
use std::sync::Arc;
use std::time::Instant;

/// A `Forward` with the acceptance rules on top.
pub struct Sampled {
    forward: Box<dyn Forward>,
    mask_threads: usize,
    helpers: Arc<Helpers>,
    scratches: Vec<Scratch>,
    /// See [`SpeculativeConfig::synthetic_acceptance`].
    synthetic: Option<Vec<f64>>,
}

impl Sampled {
    /// `mask_threads`: how many helpers compute masks while the pass runs; with 0, masks are computed after the pass.
    pub fn new(
        forward: Box<dyn Forward>,
        mask_threads: usize,
        helpers: Arc<Helpers>,
        speculative: &SpeculativeConfig,
    ) -> Self {
        let synthetic = speculative.synthetic_acceptance.clone();
        Sampled { forward, mask_threads, helpers, scratches: Vec::new(), synthetic }
    }

    /// Computes and judges all jobs, which are sorted by slot.
    fn pass(&mut self, jobs: Vec<Job>) -> Result<Vec<(Slot, Outcome)>, ExecError> {
        let inputs: Vec<_> = jobs.iter().map(|j| [&j.tokens[..], &j.draft.tokens[..]].concat()).collect();
        let runs = jobs.iter().zip(&inputs).map(|(job, tokens)| {
            let Job { slot, start, draft, .. } = job;
            Run { slot: *slot, start: *start, tokens, outputs: job.outputs() as u32, hidden: draft.hidden }
        });
        let runs: Vec<_> = runs.collect();
        let outcome = |job: Job| (job.slot, Ok(Box::new(Round::new(job))));
        let mut outcomes: Vec<(Slot, Outcome)> = jobs.into_iter().map(outcome).collect();
        let rounds = outcomes.iter_mut().filter_map(|(_, outcome)| outcome.as_mut().ok());
        let forward = &mut self.forward;
        let rows = self.helpers.beside(
            self.mask_threads,
            rounds,
            |round| first_mask(round),
            || forward.forward(&runs),
        )?;
        let numbers = rows.logits.iter().map(|row| row.len()).sum();
        let synthetic = self.synthetic.as_deref();
        let cases = cases(&mut outcomes, &rows.logits, &rows.hidden);
        self.helpers
            .each(numbers, cases, &mut self.scratches, |case, scratch| judge(case, synthetic, scratch));
        hand_out(rows.features, &runs, &mut outcomes);
        for (slot, outcome) in &mut outcomes {
            let Ok(round) = outcome else { continue };
            // A sequence that failed gives its slot up.
            if round.accepted() as usize == round.job.draft.tokens.len() || round.failure.is_some() {
                continue;
            }
            if self.forward.caps().rollback == 0 {
                let why = "a forced token was refused, and its state cannot be taken back";
                *outcome = Err(Error::Executor(why.into()));
            } else {
                self.forward.truncate(*slot, round.computed)?;
            }
        }
        Ok(outcomes)
    }
}

impl Target for Sampled {
    fn caps(&self) -> &Caps {
        self.forward.caps()
    }

    fn kv(&self) -> &dyn Kv {
        self.forward.as_ref()
    }

    fn kv_mut(&mut self) -> &mut dyn Kv {
        self.forward.as_mut()
    }

    fn run(&mut self, mut jobs: Vec<Job>) -> Result<Done, ExecError> {
        if jobs.is_empty() {
            return Ok(Done::default());
        }
        jobs.sort_unstable_by_key(|j| j.slot);
        plant_engine_faults(&jobs);
        let begin = Instant::now();
        let drafted = jobs.iter().map(|job| (job, job.draft.tokens.len() as u32));
        let runs = drafted.clone().map(|(job, drafted)| (job.slot, job.tokens.len() as u32 + drafted));
        let work = Work::of_jobs(drafted, &self.forward.passes(&runs.collect::<Vec<_>>()));
        let outcomes = self.pass(jobs)?;
        let took = self.forward.took().unwrap_or_else(|| begin.elapsed());
        Ok(Done { outcomes, passes: vec![(work, took)] })
    }
}

/// The mask for the first row of a round that needs one. What fails here, judging meets again.
fn first_mask(round: &mut Round) {
    let Job { sample, draft, grammar: Some(grammar), .. } = &mut round.job else { return };
    if !*sample || grammar.is_dormant() || !draft.masks.is_empty() {
        return;
    }
    let begin = Instant::now();
    if let Ok(mask) = caught("masks", || grammar.mask()) {
        draft.masks.push(mask);
    }
    round.mask_time += begin.elapsed();
}

/// What is to become of a round, its rows of logits, and the hidden states of these rows, if it asked for them.
type Case<'a> = (&'a mut Outcome, &'a [&'a [f32]], &'a [&'a [f32]]);

/// Each round with its own of all rows.
fn cases<'a>(
    outcomes: &'a mut [(Slot, Outcome)],
    mut rows: &'a [&'a [f32]],
    mut states: &'a [&'a [f32]],
) -> impl ExactSizeIterator<Item = Case<'a>> + Send {
    outcomes.iter_mut().map(move |(_, outcome)| {
        let job = outcome.as_ref().map(|round| &round.job).expect("nothing has failed yet. This is a bug.");
        let (outputs, hidden) = (job.outputs(), if job.draft.hidden { job.outputs() } else { 0 });
        let own = rows.split_off(..outputs).expect("each output has a row. This is a bug.");
        (outcome, own, states.split_off(..hidden).unwrap_or_default())
    })
}

/// Gives each round what a head reads of the tokens that it keeps; `features`: of all tokens of the runs.
fn hand_out(mut features: &[f32], runs: &[Run<'_>], outcomes: &mut [(Slot, Outcome)]) {
    if features.is_empty() {
        return;
    }
    let width = features.len() / runs.iter().map(|run| run.tokens.len()).sum::<usize>();
    for (run, (_, outcome)) in runs.iter().zip(outcomes) {
        let own = features.split_off(..run.tokens.len() * width).unwrap_or_default();
        if let Ok(round) = outcome {
            round.features = own[..(round.computed - round.job.start) as usize * width].to_vec();
        }
    }
}

/// Judges one round. A panic in its grammar or sampler becomes an error of this sequence alone.
fn judge((outcome, rows, states): Case<'_>, synthetic: Option<&[f64]>, scratch: &mut Scratch) {
    let Ok(round) = outcome else { return };
    let mut grammar = round.job.grammar.take();
    let judged = caught("sampling", || verify::judge(round, grammar.as_mut(), synthetic, rows, scratch));
    round.job.grammar = grammar;
    round.hidden = states.get(round.accepted() as usize).map(|state| state.to_vec());
    match judged {
        Ok(()) => {}
        // Without drafts the tokens before it would have come in rounds of their own.
        Err(error) if !round.tokens.is_empty() => round.failure = Some(error),
        Err(error) => *outcome = Err(error),
    }
}

/// Faults that tests plant to see the whole engine fail; only the weightless engine admits such requests.
fn plant_engine_faults(jobs: &[Job]) {
    for job in jobs.iter().filter(|j| j.sample) {
        let position = job.sampler.position();
        let computed = position..=position + job.draft.tokens.len() as u32;
        match job.sampler.fault() {
            Some(Fault::EnginePanic(p)) if computed.contains(&p) => panic!("planted engine fault"),
            Some(Fault::EngineAbort(p)) if computed.contains(&p) => std::process::abort(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Acceptance;
    use crate::exec::Draft;
    use crate::request::{Limits, Request, RequestSpec};
    use crate::sampler::Sampler;
    use crate::vocab::Vocab;

    const JOBS: u32 = 40;

    /// Jobs of all kinds; every tenth one's sampler panics.
    fn jobs(vocab: &Arc<Vocab>) -> Vec<Job> {
        let limits = Limits { faults: true, ..Limits::small(vocab.len()) };
        let job = |i: u32| {
            let more = match i % 10 {
                0 => r#","logprobs":3"#,
                1 => r#","fault":{"sampler_panic":0}"#,
                _ => "",
            };
            let kind = ["", r#","top_p":0.9"#, r#","presence_penalty":0.5"#][i as usize % 3];
            let json = format!(r#"{{"prompt":[1],"sampling":{{"temperature":0.8,"seed":{i}{kind}}}{more}}}"#);
            let request = Request::new(serde_json::from_str::<RequestSpec>(&json).unwrap(), &limits).unwrap();
            let mut draft = Draft { tokens: vec![i; i as usize % 4], ..Draft::default() };
            if i.is_multiple_of(2) {
                draft.acceptance = Acceptance::Rejection;
            }
            let sampler = Sampler::new(Arc::new(request), 0, 0, vocab.clone());
            let sample = i % 7 != 3;
            draft.cut(if sample { 3 } else { 0 });
            Job {
                slot: Slot(i),
                start: 0,
                tokens: vec![1],
                sample,
                score: None,
                decides: 0,
                draft,
                budget: 100,
                sampler,
                grammar: None,
            }
        };
        (0..JOBS).map(job).collect()
    }

    #[test]
    fn rounds_are_the_same_and_in_order_on_any_number_of_threads() {
        let vocab = Vocab::toy().unwrap();
        let width = vocab.len();
        let wanted: usize = jobs(&vocab).iter().map(Job::outputs).sum();
        let logit = |i: usize| ((i * 2_654_435_761 + i * i * 40_503) % 1000) as f32 / 100.0;
        let logits: Vec<f32> = (0..wanted * width).map(logit).collect();
        let rows: Vec<&[f32]> = logits.chunks(width).collect();
        let text = |outcome: &Outcome| match outcome {
            Ok(r) => format!("{:?} {:?} {} {:?}", r.tokens, r.logprobs, r.computed, r.refusal),
            Err(error) => error.to_string(),
        };
        let on = |threads: usize| -> Vec<String> {
            let round = |job: Job| (job.slot, Ok(Box::new(Round::new(job))));
            let mut outcomes: Vec<(Slot, Outcome)> = jobs(&vocab).into_iter().map(round).collect();
            let cases = cases(&mut outcomes, &rows, &[]);
            Helpers::new(threads)
                .each(usize::MAX, cases, &mut Vec::new(), |case, scratch| judge(case, None, scratch));
            outcomes.iter().map(|(_, outcome)| text(outcome)).collect()
        };
        let alone = on(1);
        let failed = |i: usize| i % 10 == 1 && i % 7 != 3;
        assert!(
            alone.iter().enumerate().all(|(i, text)| text.contains("planted sampler fault") == failed(i))
        );
        for threads in [2, 3, 8] {
            assert_eq!(on(threads), alone);
        }
    }
}
