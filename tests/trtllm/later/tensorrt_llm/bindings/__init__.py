"""Nothing of the Executor: this release has none."""
