"""The figures of the evaluation of *Agentix* (NSDI '26), drawn from the simulator: `python -m benchmarks.paper [FIGURE ...]`."""
