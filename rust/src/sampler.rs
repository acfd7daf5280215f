//! Logits row + mask + penalties to token and logprobs.

/// Parameters and state of one choice's sampling.
#[derive(Debug)]
pub struct Sampler {}
