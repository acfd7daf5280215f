//! The core's own loop, in this thread: scheduler, masks, sampler, text, events.

use super::{Case, Timing, prompt};
use crossbeam_channel::unbounded;
use llgtrt::config::{Config, DraftSource};
use llgtrt::engine::{Command, Engine, FromEngine, Report};
use llgtrt::exec::open;
use llgtrt::grammar::GrammarSpec;
use llgtrt::request::{Request, RequestSpec, Sampling};
use llgtrt::types::{End, FinishReason, RequestId};
use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

/// Longer than any round: records of the kind that clients extract.
pub(super) const SCHEMA: &str = r#"{"type":"array","minItems":100,"items":{"type":"object","properties":{
    "id":{"type":"integer","minimum":0,"maximum":99999},"name":{"type":"string","maxLength":24},
    "kind":{"enum":["person","place","thing"]},"known":{"type":"boolean"}},
    "required":["id","name","kind","known"],"additionalProperties":false}}"#;

pub(super) struct Core {
    engine: Engine,
    info: llgtrt::exec::Info,
    /// Seconds of masks in all rounds so far.
    masks: f64,
}

impl Core {
    /// `mask_threads`: threads that compute masks during the pass; 0: between passes.
    pub(super) fn open(
        path: &Path,
        case: &Case,
        sources: &[DraftSource],
        mask_threads: u32,
    ) -> Result<Core, String> {
        let mut config =
            Config { max_batch_size: case.sequences, enable_kv_cache_reuse: false, ..Config::default() };
        config.speculative.sources = Some(sources.to_vec());
        config.engine.context = case.context;
        config.engine.threads = case.threads;
        config.engine.mask_threads = Some(mask_threads);
        let opened = open::open(&path.to_string_lossy(), &config, &|_| ()).map_err(|e| e.to_string())?;
        let info = opened.info.clone();
        eprintln!("{}", info.summary);
        Ok(Core { engine: Engine::new(opened, &config).map_err(|e| e.to_string())?, info, masks: 0.0 })
    }

    /// All sequences at once, free or with a schema.
    pub(super) fn round(&mut self, case: &Case, schema: Option<&str>) -> Result<Timing, String> {
        let (commands, inbox) = unbounded();
        for sequence in 0..case.sequences {
            let request = self.request(case, sequence, schema)?;
            commands.send(Command::Submit(RequestId(sequence.into()), request)).map_err(|e| e.to_string())?;
        }
        let mut clock = Clock { sequences: case.sequences as usize, ..Clock::default() };
        self.engine.run(&inbox, &mut |message| match message {
            FromEngine::Report(report) => clock.take(report),
            _ => true,
        });
        let mut timing =
            clock.timing.ok_or_else(|| clock.failed.unwrap_or_else(|| "the engine gave up".into()))?;
        let masks = std::mem::replace(&mut self.masks, timing.mask);
        timing.mask -= masks;
        Ok(timing)
    }

    fn request(&self, case: &Case, sequence: u32, schema: Option<&str>) -> Result<Box<Request>, String> {
        let mut spec: RequestSpec = serde_json::from_str(r#"{"prompt":[]}"#).map_err(|e| e.to_string())?;
        spec.prompt = prompt(sequence, case.prompt, self.info.limits.n_vocab as usize);
        spec.max_tokens = Some(case.steps + 1);
        spec.ignore_eos = true;
        spec.sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        spec.grammar = schema.map(|s| GrammarSpec::JsonSchema(s.to_owned()));
        Request::new(spec, &self.info.limits).map(Box::new).map_err(|e| e.to_string())
    }
}

/// Runs from the step in which the last sequence has its first token to the last token of all.
#[derive(Default)]
struct Clock {
    sequences: usize,
    started: HashSet<RequestId>,
    ended: usize,
    tokens: u64,
    /// When the last sequence had its first token, and how many there were then.
    begin: Option<(Instant, u64)>,
    /// The end of each step after that, up to the last token of all.
    ends: Vec<Instant>,
    timing: Option<Timing>,
    failed: Option<String>,
}

impl Clock {
    /// False ends the engine's loop: everything has been said.
    fn take(&mut self, report: Report) -> bool {
        let before = self.tokens;
        for event in &report.events {
            self.tokens += event.tokens.len() as u64;
            if !event.tokens.is_empty() {
                self.started.insert(event.request);
            }
            match &event.end {
                None => {}
                Some(End::Finished(FinishReason::Length)) => self.ended += 1,
                Some(other) => {
                    self.failed = Some(format!("a sequence ended too early: {other:?}"));
                    return false;
                }
            }
        }
        if self.begin.is_some() {
            if self.tokens > before {
                self.ends.push(Instant::now());
            }
        } else if self.started.len() == self.sequences {
            self.begin = Some((Instant::now(), self.tokens));
        }
        let Some((begin, early)) = self.begin.filter(|_| self.ended == self.sequences) else { return true };
        // The engine says its totals when it falls idle.
        let Some(metrics) = report.metrics.filter(|m| m.gauges.running == 0) else { return true };
        let begins = std::iter::once(&begin).chain(&self.ends);
        let steps = self.ends.iter().zip(begins).map(|(end, begin)| (*end - *begin).as_secs_f64()).collect();
        self.timing = Some(Timing { steps, tokens: self.tokens - early, mask: metrics.totals.mask.sum });
        false
    }
}
