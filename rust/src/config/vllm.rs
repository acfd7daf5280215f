//! The group `vllm` of `runtime.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// vLLM; no effect on other engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VllmConfig {
    /// Stages that the layers are split over (pipeline parallelism), each of `parallel.tp_size` devices.
    #[schemars(range(min = 1, max = 1024))]
    pub pipeline_parallel_size: u32,
    /// How vLLM starts the processes of several devices: mp = processes on this machine; ray = over the machines of a Ray
    /// cluster. auto = as vLLM decides.
    pub distributed_executor_backend: Distribution,
    /// vLLM's `speculative_config`, given to it as it is, such as `{"method": "ngram", "num_speculative_tokens": 4}`. null = the
    /// draft model, if one is given.
    pub speculative_config: Option<Map<String, Value>>,
    /// More of vLLM's engine arguments, by their names in `AsyncEngineArgs`, such as `{"quantization": "awq"}`. They win over what
    /// the other settings say.
    pub engine_args: Map<String, Value>,
}

impl Default for VllmConfig {
    fn default() -> Self {
        VllmConfig {
            pipeline_parallel_size: 1,
            distributed_executor_backend: Distribution::Auto,
            speculative_config: None,
            engine_args: Map::new(),
        }
    }
}

/// Where vLLM's workers run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Where vLLM starts them.
    #[default]
    Auto,
    /// Processes on this machine.
    Mp,
    /// The machines of a Ray cluster.
    Ray,
}
