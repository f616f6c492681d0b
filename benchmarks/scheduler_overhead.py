"""What program scheduling costs per step: our plug-in's time in vLLM's scheduler over stock's, without a model.

`python -m benchmarks.scheduler_overhead` runs both schedulers in turns, in one process, in steady decode: a fixed number of
calls runs, others wait, and a share of those that run end with each step and are replaced by new ones. A step is timed
from the arrival of its new calls through `schedule` to the end of `update_from_output`. Needs vLLM.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from typing import Any

from tests.vllm_scheduler import Engine
