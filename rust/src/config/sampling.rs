//! The group `sampling` of `runtime.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What requests sample with where they say nothing. null = the model's `generation_config.json`
/// (`engine.generation_config`), or else what OpenAI's API says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingDefaults {
    /// Divides the logits; 0 = the likeliest token.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Probability mass of the tokens that are kept.
    #[schemars(range(min = 0, max = 1))]
    pub top_p: Option<f64>,
    /// Most likely tokens kept; 0 = all.
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub top_k: Option<u32>,
    /// Tokens less likely than this times the likeliest are dropped.
    #[schemars(range(min = 0, max = 1))]
    pub min_p: Option<f64>,
    /// Divides positive and multiplies negative logits of tokens in prompt or output; 1 = none.
    #[schemars(range(max = 10), extend("exclusiveMinimum" = 0))]
    pub repetition_penalty: Option<f64>,
}
