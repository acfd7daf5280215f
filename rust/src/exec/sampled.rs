//! Lifts a [`Forward`] (an engine that hands out logits) to a [`Target`].
//!
//! All jobs of a step run in one pass. A panic in one job's grammar or sampler becomes that
//! sequence's error. Masks that no walk ahead has computed come with the verdicts after the pass, or beside it where the machine
//! has cores that the engine leaves free (`mask_threads`).

use super::cost::Work;
use super::helpers::Helpers;
use super::judges::{Judges, outputs};
use super::verify::Verdict;
use super::{Caps, Done, ExecError, Forward, Job, Kv, Outcome, Pass, Round, Run, SeqError, Target};
use crate::config::SpeculativeConfig;
use crate::error::{Error, Result};
use crate::request::Fault;
use crate::types::Slot;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A `Forward` with the acceptance rules on top.
pub struct Sampled {
    forward: Box<dyn Forward>,
    judges: Judges,
    helpers: Arc<Helpers>,
    mask_threads: usize,
}

impl Sampled {
    /// `mask_threads`: how many helpers compute masks while the pass runs; with 0, masks are computed after the pass.
    pub fn new(
        forward: Box<dyn Forward>,
        mask_threads: usize,
        helpers: Arc<Helpers>,
        speculative: &SpeculativeConfig,
    ) -> Self {
        let judges = Judges::new(Arc::clone(&helpers), speculative.synthetic_acceptance.clone());
        Sampled { forward, judges, helpers, mask_threads }
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
        let runs: Vec<_> =
            jobs.iter().map(|j| (j.slot, (j.tokens.len() + j.draft.tokens.len()) as u32)).collect();
        let drafted = jobs.iter().map(|job| (job, job.draft.tokens.len() as u32));
        let work = Work::of_jobs(drafted, &self.forward.passes(&runs));
        let outcomes = self.pass(jobs)?;
        Ok(Done { outcomes, passes: vec![Pass { work, took: begin.elapsed() }] })
    }
}

impl Sampled {
    /// Computes and judges all jobs, which are sorted by slot.
    fn pass(&mut self, mut jobs: Vec<Job>) -> Result<Vec<(Slot, Outcome)>, ExecError> {
        let inputs: Vec<_> = jobs.iter().map(|j| [&j.tokens[..], &j.draft.tokens[..]].concat()).collect();
        let runs: Vec<Run<'_>> = jobs.iter().zip(&inputs).map(|(j, tokens)| run_of(j, tokens)).collect();
        let (masks, forward) = (AtomicU64::new(0), &mut self.forward);
        let wanted = jobs.iter_mut().filter(|job| wants_mask(job));
        let mask = |job: &mut Job| _ = masks.fetch_add(first_mask(job), Ordering::Relaxed);
        let rows = self.helpers.beside(self.mask_threads, wanted, mask, move || forward.forward(&runs))?;
        let mut states = rows.hidden.iter();
        let mut verdicts = self.judges.judge(&mut jobs, &rows.logits);
        for (job, verdict) in jobs.iter().zip(&mut verdicts).filter(|(job, _)| job.draft.hidden) {
            let states: Vec<_> = states.by_ref().take(outputs(job) as usize).collect();
            verdict.iter_mut().for_each(|v| v.hidden = states.get(v.accepted).map(|s| s.to_vec()));
        }
        if let Some(Ok(v)) = verdicts.first_mut() {
            v.mask_time += Duration::from_nanos(masks.into_inner());
        }
        self.close(jobs, verdicts)
    }

    /// Takes refused drafts out of the KV and makes the rounds.
    fn close(
        &mut self,
        jobs: Vec<Job>,
        verdicts: Vec<Result<Verdict>>,
    ) -> Result<Vec<(Slot, Outcome)>, ExecError> {
        let mut out = Vec::with_capacity(jobs.len());
        for (job, verdict) in jobs.into_iter().zip(verdicts) {
            let slot = job.slot;
            let outcome = match verdict {
                Err(e) => Err(SeqError(e)),
                Ok(v) => {
                    let computed = job.start + (job.tokens.len() + v.accepted) as u32;
                    // A sequence that failed gives its slot up.
                    if v.accepted == job.draft.tokens.len() || v.failure.is_some() {
                        Ok(Box::new(round_of(job, v, computed)))
                    } else if self.caps().rollback == 0 {
                        let why = "a forced token was refused, and its state cannot be taken back";
                        Err(SeqError(Error::Executor(why.into())))
                    } else {
                        self.forward.truncate(slot, computed)?;
                        Ok(Box::new(round_of(job, v, computed)))
                    }
                }
            };
            out.push((slot, outcome));
        }
        Ok(out)
    }
}

fn round_of(job: Job, v: Verdict, computed: u32) -> Round {
    Round {
        job,
        computed,
        tokens: v.tokens,
        logprobs: v.logprobs,
        scores: v.scores,
        hidden: v.hidden,
        ended: v.ended,
        refusal: v.refusal,
        shortened: v.shortened,
        failure: v.failure,
        reused: None,
        mask_time: v.mask_time,
    }
}

fn run_of<'a>(job: &Job, tokens: &'a [u32]) -> Run<'a> {
    Run { slot: job.slot, start: job.start, tokens, outputs: outputs(job), hidden: job.draft.hidden }
}

fn wants_mask(job: &Job) -> bool {
    let masked = job.grammar.as_ref().is_some_and(|grammar| !grammar.is_dormant());
    job.sample && masked && job.draft.masks.is_empty()
}

/// The mask for a job's first row; what fails here is left for `judge` to meet again. Nanoseconds that it took.
fn first_mask(job: &mut Job) -> u64 {
    let Some(grammar) = &mut job.grammar else { return 0 };
    let begin = Instant::now();
    let mask = catch_unwind(AssertUnwindSafe(|| grammar.mask()));
    if let Ok(Ok(mask)) = mask {
        job.draft.masks.push(mask);
    }
    begin.elapsed().as_nanos() as u64
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
