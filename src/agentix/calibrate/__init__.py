"""Calibration: a real engine is driven for a few minutes, and its step log becomes a cost card for the simulator.

`plan` says what to send, `drive` sends it, `learn` makes the card of what came back, `run` does all of it.
"""

from __future__ import annotations

from agentix.calibrate.run import CalibrateConfig, calibrate

__all__ = ["CalibrateConfig", "calibrate"]
