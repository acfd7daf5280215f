"""Real models: SmolLM2, which the tests' set-up fetches, and those of the folder that LLGTRT_MODELS names."""
