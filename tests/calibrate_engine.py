"""A stand-in for an engine that is calibrated: answers completions, and logs steps of a known cost while it does.

--fake-refuse         answer every completion with HTTP 400
--fake-stuck          answer no completion
"""

from __future__ import annotations

import argparse
import json
import random
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from agentix.cost import EngineFacts, FittedCost, Step, causal_pairs
from agentix.engine.child import run_guarded
from agentix.engine.step_log import StepRecord, facts_line, step_line

COST = FittedCost(
    per_step_s=1e-3,
    per_prefill_token_s=1e-5,
    per_prefill_pair_s=1e-8,
    per_decode_s=2e-4,
    per_decode_context_token_s=1e-7,
)
FACTS = EngineFacts(
    device="a stand-in",
    vllm_version="0.32.0",
    dtype="float32",
    max_num_seqs=2,
    max_batch_tokens=2048,
    block_size=32,
    num_blocks=100,
    max_model_len=256,
    prefix_cache=True,
    async_scheduling=False,
)
OVERHEAD_S = 0.004


def steps_of(num_prompt: int, num_output: int, rng: random.Random) -> list[Step]:
    """A prefill alone, then decodes beside other calls that nobody sent: they tell the coefficients apart."""
    steps = [Step(prefill_tokens=num_prompt, prefill_pairs=causal_pairs(num_prompt, rng.randrange(200)))]
    for _ in range(num_output - 1):
        num_decodes = rng.randint(1, 8)
        steps.append(Step(num_decodes=num_decodes, decode_context_tokens=num_decodes * rng.randrange(1, 2000)))
    return steps


class Engine(BaseHTTPRequestHandler):
    log_path: Path
    args: argparse.Namespace
    rng = random.Random(1)

    def do_GET(self) -> None:
        self._answer(200, "")

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.args.fake_refuse:
            self._answer(400, "the prompt is too long")
            return
        time.sleep(3600 if self.args.fake_stuck else OVERHEAD_S)
        end_s = time.monotonic()
        with self.log_path.open("a") as log:
            for step in steps_of(len(body["prompt"]), body["max_tokens"], self.rng):
                began_s, end_s = end_s, end_s + COST.step_s(step)
                record = StepRecord(began_s=began_s, started_s=began_s, returned_s=end_s, num_calls=1, step=step)
                log.write(step_line(record) + "\n")
        time.sleep(max(0.0, end_s - time.monotonic()))
        self._answer(200, "data: [DONE]\n\n")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--additional-config", type=json.loads)
    parser.add_argument("--fake-refuse", action="store_true")
    parser.add_argument("--fake-stuck", action="store_true")
    Engine.args, _ = parser.parse_known_args()
    Engine.log_path = Path(Engine.args.additional_config["agentix"]["step_log"])
    Engine.log_path.write_text(facts_line(FACTS) + "\n")
    HTTPServer(("127.0.0.1", Engine.args.port), Engine).serve_forever()


if __name__ == "__main__":
    run_guarded(main, grace_s=0.5)
