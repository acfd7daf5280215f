"""The enumerations of `tensorrt_llm.bindings.executor`."""

from __future__ import annotations

import enum


class ModelType(enum.Enum):
    DECODER_ONLY = 0
    ENCODER_ONLY = 1
    ENCODER_DECODER = 2


class BatchingType(enum.Enum):
    STATIC = 0
    INFLIGHT = 1


class CapacitySchedulerPolicy(enum.Enum):
    MAX_UTILIZATION = 0
    GUARANTEED_NO_EVICT = 1
    STATIC_BATCH = 2


class ContextChunkingPolicy(enum.Enum):
    FIRST_COME_FIRST_SERVED = 0
    EQUAL_PROGRESS = 1


class CommunicationType(enum.Enum):
    MPI = 0


class CommunicationMode(enum.Enum):
    LEADER = 0
    ORCHESTRATOR = 1


class RequestType(enum.Enum):
    REQUEST_TYPE_CONTEXT_AND_GENERATION = 0
    REQUEST_TYPE_CONTEXT_ONLY = 1
    REQUEST_TYPE_GENERATION_ONLY = 2


class FinishReason(enum.Enum):
    NOT_FINISHED = 0
    END_ID = 1
    STOP_WORDS = 2
    LENGTH = 3
    TIMED_OUT = 4
    CANCELLED = 5


class RequestStage(enum.Enum):
    QUEUED = 0
    ENCODER_IN_PROGRESS = 1
    CONTEXT_IN_PROGRESS = 2
    GENERATION_IN_PROGRESS = 3
    GENERATION_COMPLETE = 4


class KvCacheTransferMode(enum.Enum):
    DRAM = 0
    GDS = 1
    POSIX_DEBUG_FALLBACK = 2


class CacheTransceiverBackendType(enum.Enum):
    DEFAULT = 0
    MPI = 1
    UCX = 2
    NIXL = 3


class DecodingMode:
    """How the engine decodes; made by its static methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def Auto() -> DecodingMode:  # noqa: N802 (the binding's name, as below)
        return DecodingMode("Auto")

    @staticmethod
    def TopK() -> DecodingMode:  # noqa: N802
        return DecodingMode("TopK")

    @staticmethod
    def TopP() -> DecodingMode:  # noqa: N802
        return DecodingMode("TopP")

    @staticmethod
    def TopKTopP() -> DecodingMode:  # noqa: N802
        return DecodingMode("TopKTopP")

    @staticmethod
    def BeamSearch() -> DecodingMode:  # noqa: N802
        return DecodingMode("BeamSearch")

    @staticmethod
    def Medusa() -> DecodingMode:  # noqa: N802
        return DecodingMode("Medusa")

    @staticmethod
    def Lookahead() -> DecodingMode:  # noqa: N802
        return DecodingMode("Lookahead")

    @staticmethod
    def ExplicitDraftTokens() -> DecodingMode:  # noqa: N802
        return DecodingMode("ExplicitDraftTokens")

    @staticmethod
    def Eagle() -> DecodingMode:  # noqa: N802
        return DecodingMode("Eagle")
