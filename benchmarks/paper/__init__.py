"""The figures of the evaluation of *Agentix* (NSDI '26), from the simulator: `python -m benchmarks.paper [FIGURE ...]`."""
