//! Jobs to requests: what TensorRT-LLM's `Request`, `SamplingConfig` and `OutputConfig` are to hold.

use super::walk::Walk;
use crate::sampler::Sampler;
use crate::types::Token;
use pyo3::prelude::*;

/// Arguments that only newer releases have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Abilities {
    pub(super) cache_salt: bool,
    pub(super) prompt_ignore_length: bool,
    pub(super) min_p: bool,
}

/// A request, by the names of `python/llgtrt/trtllm.py`.
#[derive(Debug, IntoPyObject)]
pub(super) struct Order {
    pub(super) client_id: u64,
    pub(super) input_token_ids: Vec<Token>,
    pub(super) max_tokens: u32,
    pub(super) streaming: bool,
    pub(super) top_k: Option<u32>,
    pub(super) top_p: Option<f32>,
    pub(super) temperature: Option<f32>,
    pub(super) min_p: Option<f32>,
    pub(super) seed: u64,
    pub(super) repetition_penalty: Option<f32>,
    pub(super) presence_penalty: Option<f32>,
    pub(super) frequency_penalty: Option<f32>,
    pub(super) prompt_ignore_length: Option<u32>,
    pub(super) end_id: Token,
    pub(super) stop_words: Vec<Vec<Token>>,
    pub(super) draft_tokens: Vec<Token>,
    pub(super) return_log_probs: bool,
    pub(super) return_generation_logits: bool,
    pub(super) return_perf_metrics: bool,
    pub(super) masked: bool,
    pub(super) priority: f64,
    pub(super) cache_salt_id: Option<u64>,
}

impl Order {
    /// The likeliest tokens, whatever the choice draws: what a target's draw is most likely to equal.
    pub(super) fn greedy(mut self) -> Order {
        (self.top_k, self.top_p, self.temperature, self.min_p) = (Some(1), Some(1.0), Some(1.0), None);
        self
    }

    /// A request for up to `max_tokens` tokens after `text`, as the choice asks for them.
    pub(super) fn new(
        sampler: &Sampler,
        walk: &Walk,
        (text, max_tokens): (Vec<Token>, u32),
        abilities: Abilities,
    ) -> Order {
        let spec = sampler.request().spec();
        let s = &spec.sampling;
        // The likeliest token is the one of one.
        let greedy = s.temperature == 0.0 || s.top_p == 0.0;
        let counted = s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
        let (end_id, stops) = ends(sampler, walk);
        let other = |neutral: f32, value: f32| Some(value).filter(|value| *value != neutral);
        Order {
            client_id: 0,
            input_token_ids: text,
            max_tokens,
            streaming: false,
            top_k: Some(if greedy { 1 } else { s.top_k }),
            top_p: Some(if greedy { 1.0 } else { s.top_p }),
            temperature: Some(if greedy { 1.0 } else { s.temperature }),
            min_p: Some(s.min_p).filter(|min_p| *min_p > 0.0 && !greedy),
            seed: sampler.seed(),
            repetition_penalty: other(1.0, s.repetition_penalty),
            presence_penalty: other(0.0, s.presence_penalty),
            frequency_penalty: other(0.0, s.frequency_penalty),
            // These two count output only, that of earlier rounds included; the repetition penalty counts the prompt, too.
            prompt_ignore_length: Some(spec.prompt.len() as u32)
                .filter(|_| abilities.prompt_ignore_length && counted && s.repetition_penalty == 1.0),
            end_id,
            stop_words: stops.iter().map(|end| vec![*end]).collect(),
            draft_tokens: walk.draft.clone(),
            return_log_probs: spec.logprobs.is_some(),
            return_generation_logits: false,
            return_perf_metrics: false,
            masked: walk.masked(),
            priority: priority(spec.priority),
            cache_salt_id: Some(salt(spec.client, spec.cache_salt))
                .filter(|_| abilities.cache_salt && (spec.client, spec.cache_salt) != (0, 0)),
        }
    }
}

/// The token that a request ends with, and all others that end the choice.
fn ends(sampler: &Sampler, walk: &Walk) -> (Token, Vec<Token>) {
    let all = sampler.ends();
    let end = walk.rules.end().unwrap_or(all[0]);
    (end, all.iter().copied().filter(|other| *other != end).collect())
}

/// Ours is lower for the more urgent and 0 by default, TensorRT-LLM's from 0 to 1, higher for the more urgent, and 0.5 by
/// default. The order stays.
fn priority(ours: i64) -> f64 {
    let ours = ours as f64;
    0.5 - ours / (2.0 * (1.0 + ours.abs()))
}

/// One number for both, never 0.
fn salt(client: u64, salt: u64) -> u64 {
    let mixed = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.rotate_left(32);
    mixed | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Limits, Request};
    use crate::vocab::Vocab;
    use std::sync::Arc;

    const ALL: Abilities = Abilities { cache_salt: true, prompt_ignore_length: true, min_p: true };

    fn order(more: &str, abilities: Abilities) -> Order {
        let vocab = Vocab::toy().unwrap();
        let limits = Limits::small(vocab.len());
        let spec = serde_json::from_str(&format!(r#"{{"prompt":[1,2,3]{more}}}"#)).unwrap();
        let request = Arc::new(Request::new(spec, &limits).unwrap());
        let sampler = Sampler::new(request, 0, 9, vocab);
        let walk = Walk::new(&sampler, 3);
        Order::new(&sampler, &walk, (vec![1, 2, 3], 5), abilities)
    }

    #[test]
    fn sampling_is_said_in_full() {
        let plain = order("", ALL);
        assert_eq!((plain.top_k, plain.top_p, plain.temperature), (Some(0), Some(1.0), Some(1.0)));
        assert_eq!((plain.min_p, plain.repetition_penalty, plain.prompt_ignore_length), (None, None, None));
        assert!(!plain.masked && plain.priority == 0.5 && plain.cache_salt_id.is_none());
        for greedy in [r#""temperature":0"#, r#""top_p":0"#] {
            let order = order(&format!(r#","sampling":{{{greedy},"top_k":7,"min_p":0.2}}"#), ALL);
            assert_eq!((order.top_k, order.top_p, order.min_p), (Some(1), Some(1.0), None));
        }
        let asked = r#","sampling":{"temperature":0.5,"top_k":7,"top_p":0.9,"min_p":0.2,"presence_penalty":1,
            "frequency_penalty":-1}"#;
        let order = order(asked, ALL);
        assert_eq!((order.top_k, order.top_p, order.temperature), (Some(7), Some(0.9), Some(0.5)));
        assert_eq!(
            (order.min_p, order.presence_penalty, order.frequency_penalty),
            (Some(0.2), Some(1.0), Some(-1.0))
        );
        assert_eq!(order.prompt_ignore_length, Some(3));
    }

    #[test]
    fn what_older_releases_lack_is_left_out() {
        let asked = r#","sampling":{"presence_penalty":1},"cache_salt":5"#;
        assert!(order(asked, ALL).cache_salt_id.is_some_and(|salt| salt != 0));
        let old = order(asked, Abilities::default());
        assert_eq!((old.cache_salt_id, old.prompt_ignore_length), (None, None));
        // The repetition penalty counts the prompt.
        let both = r#","sampling":{"presence_penalty":1,"repetition_penalty":1.5}"#;
        assert_eq!(order(both, ALL).prompt_ignore_length, None);
    }

    #[test]
    fn priorities_keep_their_order_between_0_and_1() {
        let ours = [i64::MIN, -1000, -1, 0, 1, 1000, i64::MAX];
        let theirs: Vec<f64> =
            ours.iter().map(|ours| order(&format!(r#","priority":{ours}"#), ALL).priority).collect();
        assert!(theirs.iter().all(|priority| (0.0..=1.0).contains(priority)));
        assert!(theirs.windows(2).all(|pair| pair[0] > pair[1]), "{theirs:?}");
        assert_eq!(theirs[3], 0.5);
    }

    #[test]
    fn salts_of_different_clients_differ() {
        let pairs = [(0, 1), (1, 0), (1, 1), (2, 1), (1, 2), (3, 3)];
        let salts: std::collections::HashSet<u64> =
            pairs.iter().map(|(client, own)| salt(*client, *own)).collect();
        assert_eq!(salts.len(), pairs.len());
    }

    #[test]
    fn all_other_ends_are_stop_words() {
        let order = order(r#","stop_token_ids":[65]"#, ALL);
        assert_eq!(order.stop_words.len(), 2);
        assert!(order.stop_words.contains(&vec![65]) && !order.stop_words.contains(&vec![order.end_id]));
        assert!(order_masked(r#","ignore_eos":true"#) && order_masked(r#","min_tokens":1"#));
        assert!(order_masked(r#","allowed_token_ids":[65]"#));
    }

    fn order_masked(more: &str) -> bool {
        order(more, ALL).masked
    }
}
