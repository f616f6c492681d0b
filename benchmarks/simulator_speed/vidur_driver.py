"""Run by the Python of an environment that has vidur 0.0.26: its own simulation of the calls in a CSV file.

    python vidur_driver.py CALLS.csv PER_STEP_S PER_TOKEN_S PER_CONTEXT_TOKEN_S OUTPUT_FOLDER

Prints one line of JSON. Step times come from one formula instead of vidur's predictors, whose profiles of devices it loads from
the network; that is less work than its predictors do. Metrics, traces and plots are off.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from vidur.config import ClusterConfig, MetricsConfig, ReplicaConfig, SimulationConfig  # type: ignore[import-not-found]
from vidur.config.config import (  # type: ignore[import-not-found]
    CacheConfig,
    LinearRegressionExecutionTimePredictorConfig,
    SarathiSchedulerConfig,
    TraceRequestGeneratorConfig,
)
from vidur.entities import ExecutionTime  # type: ignore[import-not-found]
from vidur.execution_time_predictor import ExecutionTimePredictorRegistry  # type: ignore[import-not-found]
from vidur.simulator import Simulator  # type: ignore[import-not-found]
from vidur.types import ExecutionTimePredictorType  # type: ignore[import-not-found]

_NUM_OTHER_TERMS = 10  # of an ExecutionTime, after the one that is used here


class Formula:
    """A predictor: the larger of a floor and a time per token, and a time per token of context."""

    num_steps = 0

    def __init__(self, **_: Any) -> None:
        self.per_step_s, self.per_token_s, self.per_context_token_s = map(float, sys.argv[2:5])

    def get_execution_time(self, batch: Any, _stage: int) -> Any:
        """The step's time as vidur wants it: in ms, as if all were attention in a model of one layer."""
        Formula.num_steps += 1
        linear_s = max(self.per_step_s, self.per_token_s * sum(batch.num_q_tokens))
        step_s = linear_s + self.per_context_token_s * sum(batch.num_kv_tokens)
        return ExecutionTime(1, 0, 0, 0, 1000 * step_s, *[0] * _NUM_OTHER_TERMS)


def main() -> None:
    """Simulate and time it."""
    formula = ExecutionTimePredictorType.LINEAR_REGRESSION
    ExecutionTimePredictorRegistry.unregister(formula)
    ExecutionTimePredictorRegistry.register(formula, Formula)
    simulator = Simulator(
        SimulationConfig(
            cluster_config=ClusterConfig(
                replica_config=ReplicaConfig(num_pipeline_stages=1, tensor_parallel_size=1),
                cache_config=CacheConfig(block_size=16, num_blocks=25_000),
                replica_scheduler_config=SarathiSchedulerConfig(batch_size_cap=64, chunk_size=2048),
            ),
            request_generator_config=TraceRequestGeneratorConfig(
                trace_file=sys.argv[1],
                date="2026-01-01",
                prefill_scale_factor=1,
                decode_scale_factor=1,
                time_scale_factor=1,
                max_tokens=131_072,
            ),
            execution_time_predictor_config=LinearRegressionExecutionTimePredictorConfig(),
            metrics_config=MetricsConfig(
                write_metrics=False, enable_chrome_trace=False, store_plots=False, output_dir=sys.argv[5]
            ),
        )
    )
    simulator._write_output = lambda: None
    began_wall_s, began_cpu_s = time.perf_counter(), time.process_time()
    simulator.run()
    outcome = {
        "cpu_s": time.process_time() - began_cpu_s,
        "wall_s": time.perf_counter() - began_wall_s,
        "num_steps": Formula.num_steps,
        "makespan_s": simulator._time,
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
