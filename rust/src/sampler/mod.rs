//! Logits row + mask + penalties to token and logprobs.
//!
//! The token at a position is a pure function of (seed, choice, position, processed logits). Order of processing:
//! logit_bias, repetition penalty, presence and frequency penalties, mask, temperature, top-k, top-p, min-p, then
//! the draw: Gumbel-max, or at temperature 0 the largest logit, lowest id on ties.

mod candidates;
mod draw;
mod exp;
mod noise;
mod rules;
mod scores;

use crate::error::{Error, Result};
use crate::grammar::Next;
use crate::request::{Fault, Limits, Request, RequestSpec, Sampling};
use crate::types::{Token, TokenLogprob};
use crate::vocab::Vocab;
use candidates::{Candidate, Tempered};
use draw::Allowed;
use exp::exp;
use noise::Noise;
pub use noise::{Purpose, seed_of};
pub use rules::Rules;
use std::collections::HashMap;
use std::sync::Arc;

/// What stays the same for a whole choice.
struct Params {
    request: Arc<Request>,
    seed: u64,
    /// End tokens of the model and of the request, each once.
    ends: Vec<Token>,
    /// For each token whether it may be drawn, where not all may.
    only: Option<Vec<bool>>,
    vocab: Arc<Vocab>,
}

impl Params {
    fn spec(&self) -> &RequestSpec {
        self.request.spec()
    }

    fn sampling(&self) -> &Sampling {
        &self.spec().sampling
    }
}

/// Parameters and state of one choice's sampling. Moves with the job; [`Sampler::commit`] is its only mutation.
pub struct Sampler {
    params: Arc<Params>,
    choice: u32,
    position: u32,
    /// Occurrences among the generated tokens.
    generated: HashMap<Token, u32>,
    /// Tokens of the prompt; filled only where the repetition penalty needs them.
    prompt: Arc<[Token]>,
}

/// Buffers that one thread reuses from row to row.
#[derive(Debug, Default)]
pub struct Scratch {
    row: Vec<f32>,
    candidates: Vec<Candidate>,
    /// What is largest in each block of a row.
    tops: Vec<f32>,
    /// For what [`Sampler::spread`] gives.
    pub spread: Vec<(Token, f32)>,
}

/// A drawn token.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawn {
    /// A token, with its log-probabilities where they were asked for.
    Token(Token, Option<TokenLogprob>),
    /// The mask allows nothing but the end.
    End,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sampler {{ choice: {}, position: {} }}", self.choice, self.position)
    }
}

impl Sampler {
    /// The sampler of choice `choice`; `seed` stands in where the request has none.
    pub fn new(request: Arc<Request>, choice: u32, seed: u64, vocab: Arc<Vocab>) -> Self {
        let spec = request.spec();
        let mut prompt: Vec<Token> = Vec::new();
        if spec.sampling.repetition_penalty != 1.0 {
            prompt.clone_from(&spec.prompt);
            prompt.sort_unstable();
            prompt.dedup();
        }
        let only = spec.allowed_token_ids.as_ref().map(|ids| {
            let mut only = vec![false; vocab.len()];
            ids.iter().for_each(|t| only[*t as usize] = true);
            only
        });
        let mut ends = [vocab.eog(), &spec.stop_token_ids].concat();
        ends.sort_unstable();
        ends.dedup();
        let params = Params { seed: spec.sampling.seed.unwrap_or(seed), ends, only, request, vocab };
        Sampler {
            params: Arc::new(params),
            choice,
            position: 0,
            generated: HashMap::new(),
            prompt: prompt.into(),
        }
    }

    /// One that takes the likeliest token of each row, whatever was asked for.
    ///
    /// # Errors
    /// None with a vocabulary that has tokens.
    pub fn greedy(vocab: Arc<Vocab>) -> Result<Self> {
        let spec = serde_json::json!({"prompt": [0], "sampling": {"temperature": 0.0}});
        let spec = serde_json::from_value(spec).map_err(|why| Error::Executor(why.to_string()))?;
        let request = Request::new(spec, &Limits::small(vocab.len()))?;
        Ok(Sampler::new(Arc::new(request), 0, 0, vocab))
    }

    /// Draws the token that follows the `ahead` tokens (accepted in this round, not committed yet).
    ///
    /// `logits` is a raw row of the vocabulary's width; without a grammar `next` is None.
    ///
    /// # Errors
    /// `Error::Executor` where the row is not finite: NaN, or no allowed token above minus infinity.
    pub fn draw(
        &self,
        logits: &[f32],
        next: Option<&Next>,
        ahead: &[Token],
        scratch: &mut Scratch,
    ) -> Result<Drawn> {
        let position = self.position + ahead.len() as u32;
        if self.fault() == Some(Fault::SamplerPanic(position)) {
            panic!("planted sampler fault at position {position}");
        }
        let Some(token) = self.guess(logits, next, ahead, scratch)? else { return Ok(Drawn::End) };
        Ok(Drawn::Token(token, self.logprobs(logits, (next, ahead), token, scratch)))
    }

    /// Probabilities of the tokens that [`draw`](Sampler::draw) could give, likely ones or not, ascending by id in the
    /// `spread` of `scratch`; their sum is 1. False where the mask allows nothing but the end.
    ///
    /// # Errors
    /// As [`draw`](Sampler::draw).
    pub fn spread(
        &self,
        logits: &[f32],
        next: Option<&Next>,
        ahead: &[Token],
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let Scratch { row, tops, spread: out, .. } = scratch;
        out.clear();
        let position = self.position + ahead.len() as u32;
        let Some(allowed) = self.allowed(next, position) else { return Ok(false) };
        let s = self.params.sampling();
        let logits = self.processed(logits, ahead, row);
        if s.temperature == 0.0 {
            let best = draw::argmax(logits, allowed, tops).ok_or_else(|| self.nothing())?;
            out.push((best.0, 1.0));
            return Ok(true);
        }
        let tempered = Tempered::new(logits, allowed, s.temperature, tops);
        let tempered = tempered.filter(|t| t.best().is_finite()).ok_or_else(|| self.nothing())?;
        tempered.cut(s, out);
        out.sort_unstable_by_key(|c| c.0);
        let share = |c: &Candidate| f64::from(exp(c.1 - tempered.best()));
        let total: f64 = out.iter().map(share).sum();
        out.iter_mut().for_each(|c| c.1 = (share(c) / total) as f32);
        Ok(true)
    }

    /// Draws from weights with the noise for `purpose`, `ahead` tokens after the committed ones. None where no weight is
    /// above 0.
    pub fn draw_from(
        &self,
        weights: impl IntoIterator<Item = (Token, f32)>,
        purpose: Purpose,
        ahead: usize,
    ) -> Option<Token> {
        let noise = self.noise(purpose, ahead);
        let scored = weights.into_iter().filter(|w| w.1 > 0.0).map(|w| (w.0, w.1.ln() + noise.gumbel(w.0)));
        scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|c| c.0)
    }

    /// A uniform number in (0, 1) for accepting the token `ahead` tokens after the committed ones.
    pub fn chance(&self, ahead: usize) -> f64 {
        self.noise(Purpose::Accept, ahead).uniform()
    }

    fn noise(&self, purpose: Purpose, ahead: usize) -> Noise {
        Noise::new(self.params.seed, purpose, self.choice, self.position + ahead as u32)
    }

    /// As [`draw`](Sampler::draw), of another model's row: what the target would draw if its row were the same. Tokens that
    /// a shorter row lacks are not drawn. None where the mask allows nothing but the end.
    ///
    /// # Errors
    /// As [`draw`](Sampler::draw).
    pub fn guess(
        &self,
        logits: &[f32],
        next: Option<&Next>,
        ahead: &[Token],
        scratch: &mut Scratch,
    ) -> Result<Option<Token>> {
        let position = self.position + ahead.len() as u32;
        let Some(allowed) = self.allowed(next, position) else { return Ok(None) };
        let Scratch { row, candidates, tops, .. } = scratch;
        let s = self.params.sampling();
        let noise = self.noise(Purpose::Draw, ahead.len());
        let row = self.processed(logits, ahead, row);
        let cut = s.temperature > 0.0 && (s.top_k > 0 || s.top_p < 1.0 || s.min_p > 0.0);
        let token = if cut {
            Tempered::new(row, allowed, s.temperature, tops).and_then(|tempered| {
                tempered.cut(s, candidates);
                draw::draw_of(candidates, noise)
            })
        } else {
            draw::draw(row, allowed, s.temperature, noise, tops)
        };
        token.ok_or_else(|| self.nothing()).map(Some)
    }

    /// What may be drawn at any position, for an engine that samples by itself.
    pub fn rules(&self) -> Rules {
        Rules::new(Arc::clone(&self.params))
    }

    /// Takes an emitted token.
    pub fn commit(&mut self, token: Token) {
        self.position += 1;
        *self.generated.entry(token).or_insert(0) += 1;
    }

    /// Index of the next generated token.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Whether the token ends a generation.
    pub fn is_end(&self, token: Token) -> bool {
        self.params.ends.contains(&token)
    }

    /// What was asked for, as an engine reads it that draws by itself.
    pub fn request(&self) -> &Request {
        &self.params.request
    }

    /// Index of the choice within its request.
    pub fn choice(&self) -> u32 {
        self.choice
    }

    /// The model's vocabulary.
    pub fn vocab(&self) -> &Vocab {
        &self.params.vocab
    }

    /// Tokens that end the generation, rising: those of the model and of the request.
    pub fn ends(&self) -> &[Token] {
        &self.params.ends
    }

    /// The model's end tokens, rising.
    pub fn eog(&self) -> &[Token] {
        self.params.vocab.eog()
    }

    /// A seed for what is drawn next by other noise than ours: a pure function of the request's seed, the choice and the
    /// position.
    pub fn seed(&self) -> u64 {
        self.noise(Purpose::Engine, 0).key()
    }

    /// The fault planted in this choice, if any.
    pub fn fault(&self) -> Option<Fault> {
        self.params.spec().fault
    }

    /// Whether each token comes with log-probabilities.
    pub fn wants_logprobs(&self) -> bool {
        self.params.spec().logprobs.is_some()
    }

    /// What may be drawn: no end tokens where they must wait, unless nothing else is allowed. None where nothing but the
    /// end is.
    fn allowed<'a>(&'a self, next: Option<&'a Next>, position: u32) -> Option<Allowed<'a>> {
        let eog = self.params.vocab.eog();
        let mask = next.and_then(Next::mask);
        let only = |tokens: &[Token]| {
            mask.is_some_and(|m| m.count() == tokens.iter().filter(|t| m.allows(**t)).count())
        };
        if only(eog) {
            return None;
        }
        let spec = self.params.spec();
        let without = match position < spec.min_tokens {
            true if !only(&self.params.ends) => &self.params.ends[..],
            false if spec.ignore_eos || next.is_some_and(Next::goes_on) => eog,
            _ => &[],
        };
        Some(Allowed { mask, without })
    }

    /// The row with bias and penalties; the raw row where there are none.
    fn processed<'a>(&self, logits: &'a [f32], ahead: &[Token], row: &'a mut Vec<f32>) -> &'a [f32] {
        let s = self.params.sampling();
        let counted = s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
        let repeated = s.repetition_penalty != 1.0;
        if s.logit_bias.is_empty() && !counted && !repeated && self.params.only.is_none() {
            return logits;
        }
        row.clear();
        row.extend_from_slice(logits);
        // Penalties may be of tokens that a draft model's row lacks.
        row.resize(logits.len().max(self.params.vocab.len()), f32::NEG_INFINITY);
        for (token, bias) in &s.logit_bias {
            row[*token as usize] += bias;
        }
        // What is ahead counts as if it were committed.
        let generated = &self.generated;
        let committed = generated.iter().map(|(t, n)| (*t, *n)).filter(|(t, _)| !ahead.contains(t));
        let count = |t: &Token| ahead.iter().filter(|other| *other == t).count() as u32;
        let new = ahead.iter().enumerate().filter(|(i, t)| !ahead[..*i].contains(t));
        let counts =
            new.map(|(_, t)| (*t, count(t) + generated.get(t).copied().unwrap_or(0))).chain(committed);
        if repeated {
            let fresh = self.prompt.iter().filter(|t| !generated.contains_key(t) && !ahead.contains(t));
            for token in counts.clone().map(|(token, _)| token).chain(fresh.copied()) {
                let l = &mut row[token as usize];
                *l = if *l > 0.0 { *l / s.repetition_penalty } else { *l * s.repetition_penalty };
            }
        }
        if counted {
            for (token, n) in counts {
                row[token as usize] -= s.presence_penalty + s.frequency_penalty * n as f32;
            }
        }
        self.keep_only(row);
        row
    }

    /// Sets the logits of tokens that the request does not allow to minus infinity.
    fn keep_only(&self, row: &mut [f32]) {
        let only = self.params.only.iter().flatten();
        for (logit, _) in row.iter_mut().zip(only).filter(|(_, may)| !**may) {
            *logit = f32::NEG_INFINITY;
        }
    }

    /// Why no token could be drawn.
    fn nothing(&self) -> Error {
        if self.params.only.is_some() {
            return Error::invalid(
                "allowed_token_ids",
                "has no token that may follow here; name more, or leave out what else constrains the output",
            );
        }
        not_finite()
    }
}

/// The error for a row of logits that is not finite.
pub(crate) fn not_finite() -> Error {
    Error::Executor("the model's logits are not finite; its weights may be damaged".into())
}

#[cfg(test)]
mod tests;
