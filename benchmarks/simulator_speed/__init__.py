"""How fast is the simulator itself? `python -m benchmarks.simulator_speed [CASE ...]`."""
