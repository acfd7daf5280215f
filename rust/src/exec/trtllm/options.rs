//! `runtime.json` to the arguments of TensorRT-LLM's `ExecutorConfig`, `KvCacheConfig`, `SchedulerConfig`,
//! `DynamicBatchConfig` and `ParallelConfig`.
//!
//! Names are those of the classes' arguments. Everything is said, defaults too: they differ between releases and between
//! C++ and Python.

use super::folder::{Folder, wants_logits};
use crate::config::Config;
use serde::Serialize;

/// Tokens that the moving average of the tuned batch sizes looks back on: C++'s default, which Python lacks.
const MOVING_AVERAGE: u32 = 128;
/// A request that waits for longer is given up by the executor.
const MAX_SEQ_IDLE_MICROSECONDS: u64 = 180_000_000;
const MIB: u64 = 1 << 20;

/// What one executor is made of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Options {
    pub(crate) executor: ExecutorOptions,
    pub(crate) kv_cache: KvCacheOptions,
    pub(crate) scheduler: SchedulerOptions,
    pub(crate) dynamic_batch: DynamicBatchOptions,
    pub(crate) parallel: ParallelOptions,
    /// Target and draft exchange logits by themselves.
    pub(crate) fast_logits: bool,
}

/// Plain arguments of `ExecutorConfig`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ExecutorOptions {
    pub(crate) max_beam_width: u32,
    pub(crate) enable_chunked_context: bool,
    pub(crate) normalize_log_probs: bool,
    pub(crate) iter_stats_max_iterations: u32,
    pub(crate) request_stats_max_iterations: u32,
    pub(crate) max_batch_size: u32,
    pub(crate) max_num_tokens: u32,
    pub(crate) use_gpu_direct_storage: bool,
    pub(crate) gpu_weights_percent: f64,
    /// None: no bound.
    pub(crate) max_queue_size: Option<u32>,
    pub(crate) recv_poll_period_ms: u32,
    pub(crate) max_seq_idle_microseconds: u64,
    pub(crate) gather_generation_logits: bool,
    pub(crate) mm_embedding_offloading: bool,
    pub(crate) enable_trt_overlap: bool,
    pub(crate) fail_fast_on_attention_window_too_large: bool,
}

/// Arguments of `KvCacheConfig`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct KvCacheOptions {
    pub(crate) enable_block_reuse: bool,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_attention_window: Option<Vec<u32>>,
    pub(crate) sink_token_length: Option<u32>,
    /// Of the memory that is free when the executor is made.
    pub(crate) free_gpu_memory_fraction: f64,
    /// Bytes.
    pub(crate) host_cache_size: Option<u64>,
    pub(crate) onboard_blocks: bool,
    pub(crate) cross_kv_cache_fraction: Option<f64>,
    pub(crate) secondary_offload_min_priority: Option<u32>,
    pub(crate) event_buffer_max_size: u64,
    pub(crate) enable_partial_reuse: bool,
    pub(crate) copy_on_partial_reuse: bool,
    pub(crate) use_uvm: bool,
    pub(crate) attention_dp_events_gather_period_ms: u32,
    pub(crate) max_gpu_total_bytes: u64,
}

/// Names of enumeration members that `SchedulerConfig` takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SchedulerOptions {
    pub(crate) capacity_scheduler_policy: &'static str,
    pub(crate) context_chunking_policy: &'static str,
}

/// Arguments of `DynamicBatchConfig`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DynamicBatchOptions {
    pub(crate) enable_batch_size_tuning: bool,
    pub(crate) enable_max_num_tokens_tuning: bool,
    pub(crate) dynamic_batch_moving_average_window: u32,
}

/// Arguments of `ParallelConfig`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ParallelOptions {
    /// GPUs by rank; None: as TensorRT-LLM counts them.
    pub(crate) device_ids: Option<Vec<u32>>,
    /// MPI ranks of the world, the leader first; None: all of them.
    pub(crate) participant_ids: Option<Vec<u32>>,
    /// Rank 0 hands requests to ranks that run no model themselves.
    pub(crate) orchestrator: bool,
}

/// An executor's place: its share of the free memory, and its ranks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub(crate) share: f64,
    pub(crate) parallel: ParallelOptions,
}

impl Options {
    /// The arguments for one of the executors.
    pub(crate) fn new(config: &Config, place: Place, speculates: bool) -> Options {
        let host = config.kv_cache_host_memory_megabytes.filter(|megabytes| *megabytes > 0);
        Options {
            fast_logits: place.parallel.orchestrator && wants_logits(config),
            executor: ExecutorOptions::new(config, speculates && wants_logits(config)),
            kv_cache: KvCacheOptions {
                // A round is a request of its own, whose prompt is all text so far.
                enable_block_reuse: config.enable_kv_cache_reuse || speculates,
                max_tokens: config.kv_cache_max_tokens,
                max_attention_window: None,
                sink_token_length: None,
                free_gpu_memory_fraction: place.share,
                host_cache_size: host.map(|megabytes| megabytes * MIB),
                onboard_blocks: config.kv_cache_onboard_blocks,
                cross_kv_cache_fraction: config.cross_kv_cache_fraction,
                secondary_offload_min_priority: config.secondary_offload_min_priority,
                event_buffer_max_size: config.event_buffer_max_size.unwrap_or(0),
                enable_partial_reuse: true,
                copy_on_partial_reuse: true,
                use_uvm: false,
                attention_dp_events_gather_period_ms: 5,
                max_gpu_total_bytes: 0,
            },
            scheduler: SchedulerOptions {
                capacity_scheduler_policy: match config.guaranteed_no_evict {
                    true => "GUARANTEED_NO_EVICT",
                    false => "MAX_UTILIZATION",
                },
                context_chunking_policy: "FIRST_COME_FIRST_SERVED",
            },
            dynamic_batch: DynamicBatchOptions {
                enable_batch_size_tuning: config.enable_batch_size_tuning,
                enable_max_num_tokens_tuning: config.enable_max_num_tokens_tuning,
                dynamic_batch_moving_average_window: MOVING_AVERAGE,
            },
            parallel: place.parallel,
        }
    }
}

impl ExecutorOptions {
    fn new(config: &Config, gather_generation_logits: bool) -> Self {
        ExecutorOptions {
            max_beam_width: 1,
            enable_chunked_context: config.enable_chunked_context,
            normalize_log_probs: false,
            iter_stats_max_iterations: 1000,
            request_stats_max_iterations: 0,
            max_batch_size: config.max_batch_size,
            max_num_tokens: config.max_num_tokens,
            use_gpu_direct_storage: false,
            gpu_weights_percent: 1.0,
            max_queue_size: Some(config.max_queue_size).filter(|size| *size > 0),
            recv_poll_period_ms: 0,
            max_seq_idle_microseconds: MAX_SEQ_IDLE_MICROSECONDS,
            gather_generation_logits,
            mm_embedding_offloading: false,
            enable_trt_overlap: false,
            fail_fast_on_attention_window_too_large: false,
        }
    }
}

/// Places of the target and of the draft, where there is one, in one process or behind an orchestrator.
///
/// On the same devices both KV caches together take the configured share of the free memory, each for as many tokens as
/// the other (`draft_kv_fraction` for less of the draft's). The second executor's share is of what the first has left.
/// `own`: the share that the draft's own `runtime.json` says.
pub(crate) fn places(
    (target, draft): (&Folder, Option<&Folder>),
    config: &Config,
    own: Option<f64>,
) -> (Place, Option<Place>) {
    let share = config.kv_share(true);
    let orchestrator = config.trtllm.orchestrator;
    let first = u32::from(orchestrator);
    let drafts = draft.map_or(0, |draft| draft.ranks);
    // One that has fewer ranks than there are processes takes part on the first of them.
    let named = orchestrator || draft.is_some_and(|draft| draft.ranks != target.ranks);
    let behind = |first: u32, ranks: u32| named.then(|| (first..first + ranks).collect());
    let parallel = |devices: &Option<Vec<u32>>, first, ranks| ParallelOptions {
        device_ids: devices.clone(),
        participant_ids: behind(first, ranks),
        orchestrator,
    };
    let begin = if orchestrator { first + drafts } else { 0 };
    let ours = parallel(&config.trtllm.device_ids, begin, target.ranks);
    let Some(draft) = draft else { return (Place { share, parallel: ours }, None) };
    let theirs = parallel(&config.trtllm.draft_device_ids, first, draft.ranks);
    let apart = match (&ours.device_ids, &theirs.device_ids) {
        (Some(ours), Some(theirs)) => ours.iter().all(|device| !theirs.contains(device)),
        _ => orchestrator,
    };
    let (target_share, draft_share) = if apart {
        (share, own.unwrap_or(share))
    } else {
        let per_rank = |folder: &Folder| folder.kv_bytes as f64 / f64::from(folder.ranks);
        let (target, draft) = (per_rank(target), per_rank(draft) * config.speculative.draft_kv_fraction);
        let first = share * target / (target + draft);
        (first, own.unwrap_or((share - first) / (1.0 - first)))
    };
    (Place { share: target_share, parallel: ours }, Some(Place { share: draft_share, parallel: theirs }))
}

#[cfg(test)]
mod tests;
