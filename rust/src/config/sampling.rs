//! The group `sampling` of `runtime.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What requests sample with where they say nothing. null = the model's `generation_config.json`
/// (`engine.generation_config`), or else what OpenAI's API says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingDefaults {
    /// Sampling temperature; 0 = always the likeliest token.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Sample among the likeliest tokens with this total probability.
    #[schemars(range(min = 0, max = 1))]
    pub top_p: Option<f64>,
    /// Sample among this many of the likeliest tokens; 0 = all.
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub top_k: Option<u32>,
    /// Drop tokens whose probability is below this share of the likeliest token's.
    #[schemars(range(min = 0, max = 1))]
    pub min_p: Option<f64>,
    /// Divides positive and multiplies negative logits of tokens in the prompt or output; 1 = no penalty.
    #[schemars(range(max = 10), extend("exclusiveMinimum" = 0))]
    pub repetition_penalty: Option<f64>,
}
