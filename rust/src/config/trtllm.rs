//! The group `trtllm` of `runtime.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TensorRT-LLM; no effect on other engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrtllmConfig {
    /// GPU of each rank of the target; null = as TensorRT-LLM counts them.
    #[schemars(inner(range(min = 0, max = 1023)))]
    pub device_ids: Option<Vec<u32>>,
    /// GPU of each rank of the draft model; null = as TensorRT-LLM counts them.
    #[schemars(inner(range(min = 0, max = 1023)))]
    pub draft_device_ids: Option<Vec<u32>>,
    /// Orchestrator mode: MPI rank 0 serves and runs no model, the next ranks run the draft model, and the last ones the
    /// target. With speculative.use_logits the draft's logits go to the target from GPU to GPU. TensorRT-LLM does not call
    /// back for masks in this mode, so requests with a constraint are refused.
    pub orchestrator: bool,
}
