"""A gateway's traffic as a trace file: `calls` is what the gateway tells, `programs` makes programs of it, `run` listens."""
