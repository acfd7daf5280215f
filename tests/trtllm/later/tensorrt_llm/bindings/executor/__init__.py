"""No Executor."""
