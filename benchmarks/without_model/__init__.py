"""The engine core's loop around vLLM's own scheduler, with a runner that makes answers up: thousands of cases in seconds."""
