"""The words of the results page that no figure's numbers decide."""

from __future__ import annotations

from agentix.cost import Roofline, Step, device_card, model_card
from benchmarks.paper.curves import MIXED, TREE
from benchmarks.paper.latency import MULTIPLE
from benchmarks.paper.setup import DEVICE, MODEL, NUM_SPARE_CALLS, NUM_STEPS, SCHEDULING_S, VLLM_ENGINE, VLLM_OPT_ENGINE


def _decode_ms(num_calls: int) -> float:
    """Milliseconds of a step in which so many calls with 1000 tokens of context each yield a token."""
    step = Step(num_decodes=num_calls, decode_context_tokens=1000 * num_calls)
    return 1e3 * Roofline(device_card(DEVICE), model_card(MODEL)).step_s(step)


_SLOTS = VLLM_ENGINE.max_num_seqs
_BUDGET = VLLM_OPT_ENGINE.max_batch_tokens
_BETA = VLLM_ENGINE.scheduler.starvation_ratio
_CHOICE_MS = SCHEDULING_S * 1e3
_QUANTA = ", ".join(f"{quantum_s:g}" for quantum_s in VLLM_ENGINE.scheduler.quanta_s)

INTRODUCTION = f"""
# The paper's evaluation, in the simulator

Every figure of the evaluation in *Agentix: An Efficient Serving Engine for LLM Agents as General Programs* (NSDI 2026),
redone with `agentix.sim` by `make paper` (`FIGURE="12 13"` for some of them; it needs no GPU and no data). That command
writes this page: every number comes from the JSON file beside its figure, and so does the verdict on each claim.
**A simulation shows what an order of calls is worth if its model of the engine is right**; it is no measurement of a GPU.
[simulator.md](../../simulator.md) says what is modelled.

**Machine.** LLaMA-3.1-8B on one A100-80GB by roofline, unless a panel says otherwise (70B on 4 of them, Falcon-180B on 8).

**Programs.** Synthetic, fitted to ShareGPT (chat), BFCL multi-turn (react) and LATS on HotpotQA (tree), and equal thirds of
these (mixed), see [workloads.md](../../workloads.md). A person's or a tool's answer follows at once: token latency counts all
of a program's response time, and minutes of thinking would be nearly all of it. Arrivals are
Poisson, for {MIXED.window_s:.0f} s in every run ({TREE.window_s:.0f} s for tree, 120 s for other models and recorded
programs; longer only where that is fewer than {MIXED.least_programs} programs), so that a system which carries more load is
not compared over a shorter time. Above saturation there is no steady state: latency grows with the window, for all.
Where `AGENTIX_TRACE_DIR` holds recorded programs, figure 12 has panels of them too.

**Systems.** All have {_SLOTS} slots, and each choice of a batch takes {_CHOICE_MS:g} ms of the device's time.

| | order | engine |
|---|---|---|
| vLLM | FCFS | whole prompts, no prefix cache, a choice at every step |
| vLLM-opt | FCFS | chunked prefill ({_BUDGET} tokens a step), prefix cache, a choice every {NUM_STEPS} steps |
| MLFQ | MLFQ | the same, and preempted calls are swapped to the host, in bulk |
| Agentix | PLAS for chat and react, else ATLAS | the same as MLFQ, so that these two differ by policy alone |

Up to {NUM_SPARE_CALLS} preempted calls stay on the device as spares. Quanta {_QUANTA} s and β = {_BETA}
are the same in every figure; `python -m benchmarks.paper.search` compares others, on other seeds.

**Slots decide where waiting begins.** A step of {_SLOTS} calls with 1000 tokens of context each takes
{_decode_ms(_SLOTS):.0f} ms, one of 256, vLLM's default at the time, {_decode_ms(256):.0f} ms: with 256 slots every call is
slowed down long before one has to wait, and order matters later; figure 12b shows by how much. How many slots the paper's
engines had we do not know; {_SLOTS} is the default of `agentix simulate`.

**Throughput at equal latency** is the rate at which a curve first exceeds a latency, with the logarithm of the latency linear
between runs. The latency is {MULTIPLE:g} times that of vLLM-opt at the lowest rate of its sweep, one for all systems of
a panel; figure 12 gives other multiples beside it. ≥ and ≤ mark a ratio of which one rate lies beyond its sweep; – one
of which both do. Other multiples are in the order vLLM, vLLM-opt, MLFQ.
"""

NOTES: dict[str, str] = {
    "12": """
Why it comes out like this:

- *Mixed*: calls of tree searches fill the slots, and under FCFS every chat and ReAct call stands behind them; ordering by
  attained service lets the short programs through. MLFQ cannot tell a short program's call from a search's, and swaps. Above
  saturation the ratios depend on for how long programs arrive, since only the wait under FCFS grows without bound; the
  paper's engine may also have been fuller at the same load (figure 5).
- *Chat*: above capacity, least attained service takes in every newcomer before it finishes anybody. There are soon more open
  conversations than fit the KV cache, each finds its context gone, and the work grows: prefix hits fall. FCFS comes to that
  too; MLFQ, for which a conversation's next call is as good as a newcomer, does not. This is the policy, not the model:
  order and which contexts stay must be decided together. Recorded BFCL programs, with prompts of 8,000 tokens in the mean,
  show it worst.
- *ReAct*: programs are alike, and there is little to order; the gain over vLLM is that of the prefix cache.
- *Tree*: the same, and what is served first by least service is all searches a little.
- *vLLM* computes whole prompts in one step, up to 32,768 tokens, in which every running call waits along; its latency rises
  with load long before its slots are full, so ratios to it are large where prompts are long.
""",
}
