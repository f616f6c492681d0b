"""The simulator: the same core over modelled engines, a clock that jumps, and nothing random."""
