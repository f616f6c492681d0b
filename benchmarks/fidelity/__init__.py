"""Does the simulator predict a real engine? See docs/results/fidelity.md, and `python -m benchmarks.fidelity --help`."""
