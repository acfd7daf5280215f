//! The jobs of a step are judged, together.

use super::Job;
use super::helpers::Helpers;
use super::verify::{self, Verdict};
use crate::config::Acceptance;
use crate::error::{Error, Result, panic_text};
use crate::sampler::Scratch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Threads that judge, and what each needs.
pub(super) struct Judges {
    helpers: Arc<Helpers>,
    scratches: Vec<Scratch>,
    /// See [`SpeculativeConfig::synthetic_acceptance`](crate::config::SpeculativeConfig::synthetic_acceptance).
    synthetic: Option<Vec<f64>>,
}

impl Judges {
    pub(super) fn new(helpers: Arc<Helpers>, synthetic: Option<Vec<f64>>) -> Self {
        Judges { helpers, scratches: Vec::new(), synthetic }
    }

    /// Judges each job by its rows; `rows` are those of all jobs, in their order, and so are the verdicts.
    pub(super) fn judge(&mut self, jobs: &mut [Job], rows: &[&[f32]]) -> Vec<Result<Verdict>> {
        let logits = rows.iter().map(|row| row.len()).sum();
        let mut verdicts: Vec<_> = jobs.iter().map(|_| Ok(Verdict::default())).collect();
        let Judges { helpers, scratches, synthetic } = self;
        helpers.each(logits, cases(jobs, rows, &mut verdicts), scratches, |(job, rows, verdict), scratch| {
            *verdict = judge(job, synthetic.as_deref(), rows, scratch);
        });
        verdicts
    }
}

/// A job, its rows, and what is found of it.
type Case<'a> = (&'a mut Job, &'a [&'a [f32]], &'a mut Result<Verdict>);

/// Each job with its own of all rows.
fn cases<'a>(
    jobs: &'a mut [Job],
    rows: &'a [&'a [f32]],
    verdicts: &'a mut [Result<Verdict>],
) -> impl ExactSizeIterator<Item = Case<'a>> + Send {
    let mut rest = rows;
    jobs.iter_mut().zip(verdicts).map(move |(job, verdict)| {
        let (own, others) = rest.split_at(outputs(job) as usize);
        rest = others;
        (job, own, verdict)
    })
}

/// Rows that a job wants.
pub(super) fn outputs(job: &Job) -> u32 {
    let known = if job.score.is_some() { job.tokens.len() as u32 } else { u32::from(job.sample) };
    known + job.draft.tokens.len() as u32
}

/// Verifies one job; a panic in its grammar or sampler is this sequence's error.
fn judge(
    job: &mut Job,
    synthetic: Option<&[f64]>,
    rows: &[&[f32]],
    scratch: &mut Scratch,
) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let judge = || {
        let mut rows = rows;
        if let Some(score) = &job.score {
            verdict.scores = job.sampler.scores(rows, score.targets.iter().copied(), score.top, scratch)?;
            rows = &rows[job.tokens.len() - 1..];
        }
        if !job.sample {
            return Ok(());
        }
        if job.draft.acceptance == Acceptance::Rejection && !job.draft.tokens.is_empty() {
            return verify::rejection(job, rows, scratch, &mut verdict);
        }
        let decreed = synthetic.map(|rates| verify::decreed(job, rates));
        verify::exact(job, decreed, rows, scratch, &mut verdict)
    };
    let judged = catch_unwind(AssertUnwindSafe(judge));
    let judged = judged.unwrap_or_else(|panic| {
        *scratch = Scratch::default();
        Err(Error::Executor(format!("sampling failed: {}", panic_text(panic.as_ref()))))
    });
    match judged {
        // Without drafts the tokens before it would have come in rounds of their own.
        Err(error) if !verdict.tokens.is_empty() => Ok(Verdict { failure: Some(error), ..verdict }),
        judged => judged.map(|()| verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Draft;
    use crate::request::{Limits, Request, RequestSpec};
    use crate::sampler::Sampler;
    use crate::types::Slot;
    use crate::vocab::Vocab;
    use std::sync::Arc;

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
                draft,
                budget: 100,
                sampler,
                grammar: None,
            }
        };
        (0..JOBS).map(job).collect()
    }

    #[test]
    fn verdicts_are_the_same_and_in_order_on_any_number_of_threads() {
        let vocab = Vocab::toy().unwrap();
        let width = vocab.len();
        let wanted: u32 = jobs(&vocab).iter().map(outputs).sum();
        let logit = |i: usize| ((i * 2_654_435_761 + i * i * 40_503) % 1000) as f32 / 100.0;
        let logits: Vec<f32> = (0..wanted as usize * width).map(logit).collect();
        let rows: Vec<&[f32]> = logits.chunks(width).collect();
        let text = |verdict: &Result<Verdict>| match verdict {
            Ok(v) => format!("{:?} {:?} {} {:?}", v.tokens, v.logprobs, v.accepted, v.refusal),
            Err(error) => error.to_string(),
        };
        let on = |threads: usize| -> Vec<String> {
            let (mut jobs, mut scratches) = (jobs(&vocab), Vec::new());
            let mut verdicts: Vec<_> = jobs.iter().map(|_| Ok(Verdict::default())).collect();
            let cases = cases(&mut jobs, &rows, &mut verdicts);
            Helpers::new(threads).each_on(threads, cases, &mut scratches, |(job, rows, verdict), scratch| {
                *verdict = judge(job, None, rows, scratch);
            });
            verdicts.iter().map(text).collect()
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
