"""Questions of new users: the page and heading that answer each, and words that the answer has."""

from __future__ import annotations

QUESTIONS: list[tuple[str, str, str]] = [
    ("Why this server, and not another?", "README.md#why-this-one", "llama-server vLLM Ollama"),
    ("How do I install it without a compiler?", "README.md#without-a-compiler", "pip install docker build"),
    (
        "Which GGUF models work?",
        "docs/models.md#which-gguf-files-work",
        "Architectures Weight Split template",
    ),
    (
        "Which weight type should I take?",
        "docs/models.md#which-weight-type-to-choose",
        "Q4_K_M Q8_0 smaller weights are faster",
    ),
    ("How much memory does a model take?", "docs/scaling.md#memory", "weights KV per token bits per weight"),
    (
        "How do I limit the memory?",
        "docs/troubleshooting.md#it-takes-too-much-memory",
        "kv_cache_memory --max-model-len --max-num-seqs",
    ),
    (
        "How do I see whether drafts help?",
        "docs/speculation.md#see-whether-drafts-help",
        "report acceptance rate llgtrt_accepted_tokens_total",
    ),
    (
        "What happens when max_tokens ends inside JSON?",
        "docs/grammars.md#complete-within-max_tokens",
        "closes strings usage.shortened",
    ),
    (
        "How do I enforce a choice or a regular expression?",
        "docs/guides/classify.md#choose-a-label",
        "choices regular expression",
    ),
    ("How do I call functions?", "docs/guides/functions.md#offer-functions", "tools tool_calls"),
    (
        "When must the model call a function?",
        "docs/guides/functions.md#decide-when-the-model-must-call",
        "required auto none",
    ),
    ("How do I require a key?", "docs/configuration.md#the-most-used-settings", "LLGTRT_API_KEY --host"),
    ("How do clients send a key?", "docs/api.md#keys", "Authorization: Bearer x-api-key"),
    (
        "How do I switch off thinking for Qwen3?",
        "docs/troubleshooting.md#the-answer-is-not-what-i-expected",
        "extra_body chat_template_kwargs enable_thinking Qwen3",
    ),
    ("Can I limit each client?", "docs/operation.md#limits", "no limits per client max_queue_size"),
    (
        "What does each state of /ready mean?",
        "docs/troubleshooting.md#what-the-states-of-ready-mean",
        "loading ready stalled restarting failed closed",
    ),
    ("Is there a GPU image for GGUF models?", "docs/containers.md#a-gpu-image-for-gguf", "build-gpu.sh cuda"),
    (
        "How do I run it on two machines?",
        "docs/replicas.md#two-machines-behind-a-load-balancer",
        "/ready proxy_buffering",
    ),
    ("Why is it slow beside other processes?", "docs/troubleshooting.md#it-is-slow", "--threads cores"),
    ("What settings are there, with which defaults?", "docs/settings.md#engine", "engine.threads default"),
    ("How do I contribute?", "docs/contributing.md#set-up", "launch/check.sh"),
    ("How do I move from OpenAI?", "docs/migrating.md#openai", "base_url"),
]
