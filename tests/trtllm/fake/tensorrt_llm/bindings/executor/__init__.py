"""`tensorrt_llm.bindings.executor`: the names of the bindings, over the fake runtime."""

from tensorrt_llm import __version__
from tensorrt_llm._fake.configs import (
    AdditionalModelOutput,
    CacheTransceiverConfig,
    DebugConfig,
    DecodingConfig,
    DynamicBatchConfig,
    EagleConfig,
    ExecutorConfig,
    ExtendedRuntimePerfKnobConfig,
    KvCacheConfig,
    LogitsPostProcessorConfig,
    LookaheadDecodingConfig,
    OrchestratorConfig,
    ParallelConfig,
    PeftCacheConfig,
    RuntimeDefaults,
    SchedulerConfig,
    SpeculativeDecodingConfig,
)
from tensorrt_llm._fake.enums import (
    BatchingType,
    CacheTransceiverBackendType,
    CapacitySchedulerPolicy,
    CommunicationMode,
    CommunicationType,
    ContextChunkingPolicy,
    DecodingMode,
    FinishReason,
    KvCacheTransferMode,
    ModelType,
    RequestStage,
    RequestType,
)
from tensorrt_llm._fake.executor import Executor
from tensorrt_llm._fake.guided import GuidedDecodingConfig, GuidedDecodingParams
from tensorrt_llm._fake.requests import (
    ContextPhaseParams,
    ExternalDraftTokensConfig,
    KvCacheRetentionConfig,
    LoraConfig,
    MropeConfig,
    MultimodalInput,
    OutputConfig,
    PromptTuningConfig,
    Request,
    SamplingConfig,
)
from tensorrt_llm._fake.results import (
    AdditionalOutput,
    DebugTensorsPerIteration,
    DisServingRequestStats,
    InflightBatchingStats,
    IterationStats,
    KvCacheMetrics,
    KvCacheStats,
    RequestPerfMetrics,
    RequestStats,
    RequestStatsPerIteration,
    Response,
    Result,
    SpecDecodingStats,
    SpeculativeDecodingFastLogitsInfo,
    SpeculativeDecodingMetrics,
    StaticBatchingStats,
    TimingMetrics,
)

__all__ = [name for name in dir() if not name.startswith("_")]
__all__ += ["__version__"]
