//! News of one choice, as Python reads it.

use super::errors;
use crate::config::DraftSource;
use crate::types::{self, End, FinishReason, Token};
use pyo3::prelude::*;
use std::collections::HashMap;

/// A token, its log-probability, and the alternatives to it.
type Logprob = (Token, f32, Vec<(Token, f32)>);

/// Who drafted a token, and what was refused in its stead.
type Origin = (Option<&'static str>, Vec<(Token, &'static str)>);

/// For each option, the probability of the tokens after which only it remains; and the tokens after which several remain.
type Successors = (Vec<f64>, Vec<(Token, f64)>);

/// News of one choice.
#[pyclass(frozen, module = "llgtrt._core")]
pub(super) struct Event(pub(super) types::Event);

#[pymethods]
impl Event {
    /// The request's id, as `Engine.submit` returned it.
    #[getter]
    fn request(&self) -> u64 {
        self.0.request.0
    }

    /// Index of the choice within its request.
    #[getter]
    fn choice(&self) -> u32 {
        self.0.choice
    }

    /// New text.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// New tokens; they may run ahead of the text.
    #[getter]
    fn tokens(&self) -> Vec<Token> {
        self.0.tokens.clone()
    }

    /// (token, logprob, [(alternative, logprob), ...]) per new token; empty unless asked for.
    #[getter]
    fn logprobs(&self) -> Vec<Logprob> {
        self.0.logprobs.iter().map(|l| (l.token, l.logprob, l.top.clone())).collect()
    }

    /// The probability of all tokens together that the constraint allows, or None, per entry of `logprobs`.
    #[getter]
    fn allowed(&self) -> Vec<Option<f32>> {
        self.0.logprobs.iter().map(|l| l.allowed).collect()
    }

    /// (who drafted it, [(token refused in its stead, who drafted that), ...]) per new token; empty unless asked for.
    #[getter]
    fn origins(&self) -> Vec<Origin> {
        let told = |o: &types::Origin| {
            let refused = o.refused.iter().map(|(token, source)| (*token, source.name()));
            (o.source.map(DraftSource::name), refused.collect())
        };
        self.0.origins.iter().map(told).collect()
    }

    /// Log-probabilities of further prompt tokens, from the second on; empty unless asked for.
    #[getter]
    fn prompt_logprobs(&self) -> Vec<Logprob> {
        self.0.prompt_logprobs.iter().map(|l| (l.token, l.logprob, l.top.clone())).collect()
    }

    /// For a decision, one entry for each place of the choice's path; otherwise empty.
    #[getter]
    fn successors(&self) -> Vec<Successors> {
        self.0.successors.iter().map(|s| (s.settled.clone(), s.open.clone())).collect()
    }

    /// (pointer, keyword, what is left out) of each place at which less is allowed than a schema does; on the last event.
    #[getter]
    fn narrowed(&self) -> Vec<(String, String, String)> {
        let told = |n: &types::Narrowed| (n.pointer.clone(), n.keyword.clone(), n.reason.clone());
        self.0.narrowed.iter().map(told).collect()
    }

    /// Tokens of the prompt.
    #[getter]
    fn prompt_tokens(&self) -> u32 {
        self.0.usage.prompt
    }

    /// Tokens of the prompt that were not computed again.
    #[getter]
    fn cached_tokens(&self) -> u32 {
        self.0.usage.cached
    }

    /// Seconds from the request's arrival to its admission.
    #[getter]
    fn queue_seconds(&self) -> f64 {
        self.0.usage.queued.as_secs_f64()
    }

    /// Of these, the seconds until the constraint was compiled or found in the cache; 0 without one.
    #[getter]
    fn compile_seconds(&self) -> f64 {
        self.0.usage.compiling.as_secs_f64()
    }

    /// Tokens generated so far.
    #[getter]
    fn completion_tokens(&self) -> u32 {
        self.0.usage.completion
    }

    #[getter]
    fn shortened(&self) -> bool {
        self.0.usage.shortened
    }

    #[getter]
    fn reasoning_tokens(&self) -> u32 {
        self.0.usage.reasoning
    }

    /// Drafted tokens so far by source: (given to the target, emitted, refused).
    #[getter]
    fn drafts(&self) -> HashMap<&'static str, (u32, u32, u32)> {
        let drafts = DraftSource::ALL.iter().zip(&self.0.usage.drafts).filter(|(_, d)| d.drafted > 0);
        drafts.map(|(source, d)| (source.name(), (d.drafted, d.accepted, d.refused))).collect()
    }

    /// "stop", "length" or "cancelled" on the last event of a choice; None before it, and where it failed.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        match self.0.end {
            Some(End::Finished(FinishReason::Stop)) => Some("stop"),
            Some(End::Finished(FinishReason::Length)) => Some("length"),
            Some(End::Finished(FinishReason::Cancelled)) => Some("cancelled"),
            Some(End::Failed(_)) | None => None,
        }
    }

    /// Why the choice failed, on its last event.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.0.end {
            Some(End::Failed(error)) => errors::exception(py, error).map(Some),
            _ => Ok(None),
        }
    }

    fn __repr__(&self) -> String {
        format!("<{:?}>", self.0)
    }
}
