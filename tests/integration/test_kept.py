"""KV between a program's calls, and programs that are held back, on vLLM's real scheduler without a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.core import ProgramRow, SchedulingPolicy
from benchmarks.without_model.runner import STOP_TOKEN, answer
from benchmarks.without_model.scheduler import STEP_S, Engine, KeptKV
from parking_load import ACTIONS, Load
from parking_rules import check_blocks

pytestmark = pytest.mark.engine


class KeepsAll(SchedulingPolicy):
    """First come, first served; KV is kept for ten steps, or for as long as the program's name has letters, in hours."""

    def retention_s(self, row: ProgramRow, now: float) -> float:
        return 10 * STEP_S if len(row.program_id) == 1 else 3600.0 * len(row.program_id)


class KeepsNothing(SchedulingPolicy):
    """The same without that, and with vLLM's own order of free blocks; a second level, where no call ever is, lets it park."""

    quanta_s = (math.inf, math.inf)
    ignores_programs = True


KEEPING = {"policy": f"{__name__}:KeepsAll"}


def engine_of(agentix: dict[str, Any], *, num_blocks: int, num_slots: int = 2, **options: Any) -> Engine:
    """One step at a time; blocks of four tokens, one of them vLLM's placeholder."""
    return Engine(agentix, overlap=False, num_slots=num_slots, num_blocks=num_blocks + 1, **options)


def prompt_of(num_tokens: int, first: int) -> list[int]:
    """A prompt of so many tokens after which the model does not stop at once."""
    for last in range(1, 40):
        prompt = [first] * (num_tokens - 1) + [last]
        if STOP_TOKEN not in answer(prompt, 2):
            return prompt
    raise AssertionError("no such prompt")


def call(
    engine: Engine, name: str, prompt: list[int], program: str | None = None, *, max_tokens: int = 1, xargs: Any = None
) -> int:
    """Let a call come and the engine run until it is idle; returns how many tokens of the prompt were found."""
    request = engine.make(name, prompt, max_tokens, program)
    request.sampling_params.extra_args = xargs
    engine.scheduler.add_request(request)
    engine.run()
    assert engine.answers[name] == answer(prompt, max_tokens)
    check_blocks(engine.scheduler)
    return len(prompt) + max_tokens - 1 - engine.num_tokens_of[name]


P, Q, X = prompt_of(8, first=1), prompt_of(8, first=2), prompt_of(20, first=3)


def longer(prompt: list[int]) -> list[int]:
    return [*prompt, *prompt_of(4, first=9)]


@pytest.mark.parametrize("preemption", ["none", "park"])
@pytest.mark.parametrize(("policy", "num_found"), [("program_fcfs", 8), ("fcfs", 0)])
def test_the_next_call_finds_what_others_would_have_overwritten(policy: str, num_found: int, preemption: str) -> None:
    """Of 8 blocks program p has used 2, x then 5. y needs 3: the one that is left, and those freed first, if p's are free."""
    engine = engine_of({"policy": policy, "preemption": preemption}, num_blocks=8)
    call(engine, "a", P, "p")
    call(engine, "x", X)
    call(engine, "y", prompt_of(12, first=4))
    assert call(engine, "b", longer(P), "p") == num_found


@pytest.mark.parametrize(("wait_s", "num_found"), [(1.9, 8), (2.0, 0)])
def test_nothing_is_kept_when_its_time_has_passed(wait_s: float, num_found: int) -> None:
    """As above. After 2 s p's blocks are let go of, and go before those that x has used since."""
    engine = engine_of({"policy": "program_fcfs"}, num_blocks=8)
    call(engine, "a", P, "p")
    engine.now += wait_s
    call(engine, "x", X)
    call(engine, "y", prompt_of(12, first=4))
    assert call(engine, "b", longer(P), "p") == num_found


@pytest.mark.parametrize(("num_tokens", "num_found"), [(24, 8), (28, 4), (32, 0)])
def test_who_needs_blocks_that_are_kept_gets_the_last_first(num_tokens: int, num_found: int) -> None:
    """2 of 8 blocks are kept. x, which needs 6 to 8, starts at once beside another that holds none of them."""
    engine = engine_of({"policy": "program_fcfs"}, num_blocks=8)
    call(engine, "a", P, "p")
    engine.add("x", prompt_of(num_tokens, first=3), 1)
    engine.step()
    assert engine.answers["x"]
    assert call(engine, "b", longer(P), "p") == num_found


def test_a_call_that_grows_takes_kept_blocks_and_preempts_nobody() -> None:
    """2 of 6 blocks are kept; x and y hold 2 each, and need a third for their fifth tokens."""
    engine = engine_of({"policy": "program_fcfs"}, num_blocks=6)
    call(engine, "a", P, "p")
    for first, name in enumerate("xy", start=3):
        engine.add(name, prompt_of(8, first=first), 2)
    requests = [engine.scheduler.requests[name] for name in "xy"]
    engine.run()
    assert [request.num_preemptions for request in requests] == [0, 0]
    assert call(engine, "b", longer(P), "p") == 0


def test_what_is_kept_shorter_goes_first_though_it_was_freed_later() -> None:
    """pp keeps 2 blocks of 8 for two hours, qqq 2 for three and r, the last, 0: y takes 4 + 2."""
    engine = engine_of(KEEPING, num_blocks=8)
    call(engine, "c", Q, "qqq")
    call(engine, "a", P, "pp")
    call(engine, "y", prompt_of(24, first=4))
    assert call(engine, "d", longer(Q), "qqq") == 8
    assert call(engine, "b", longer(P), "pp") == 0


def test_what_was_kept_for_a_call_is_let_go_when_it_has_come() -> None:
    """b finds nothing of a's; x then takes what was freed first, and that is a's."""
    engine = engine_of(KEEPING, num_blocks=8)
    call(engine, "a", P, "pp")
    assert engine.scheduler._kept.order.num_kept_blocks == 2
    call(engine, "b", Q, "pp", max_tokens=2)
    assert engine.scheduler._kept.order.num_kept_blocks == 2
    call(engine, "x", prompt_of(24, first=4))
    assert call(engine, "d", longer(Q), "qqq") == 8
    assert call(engine, "c", longer(P), "r") == 0


LAST = {"agentix_last_call": True}


@pytest.mark.parametrize(("xargs", "found"), [(LAST, (8, 0)), ({"is_last_step": True}, (8, 0)), (None, (0, 8))])
@pytest.mark.parametrize("policy", ["program_fcfs", "plas"])
def test_the_kv_of_a_program_that_is_over_goes_first(policy: str, xargs: Any, found: tuple[int, int]) -> None:
    """q's 2 of 8 blocks are freed before p's 2; y takes 4 + 2. Nothing has been kept for long."""
    for prompt, num_found in zip((Q, P), found, strict=True):
        engine = engine_of({"policy": policy}, num_blocks=8)
        call(engine, "c", Q, "q")
        call(engine, "a", P, "p", xargs=xargs)
        engine.now += 3.0
        call(engine, "y", prompt_of(24, first=4))
        assert call(engine, "next", longer(prompt)) == num_found


def test_a_program_that_is_idle_too_long_is_over() -> None:
    """p's 2 of 10 blocks are freed after q's 2, but q has a call that runs on 2 or 3 more. y takes 3 + 2."""
    engine = engine_of({"policy": "plas", "program_idle_s": 10.0}, num_blocks=10)
    engine.add("long", prompt_of(8, first=6), 4, "q")
    engine.step()
    for name, prompt, program in (("c", Q, "q"), ("a", P, "p")):
        engine.add(name, prompt, 1, program)
        engine.step()
    engine.now += 11.0
    engine.add("y", prompt_of(20, first=4), 1)
    engine.run()
    assert "p" not in engine.scheduler.programs.rows
    assert "q" in engine.scheduler.programs.rows
    assert call(engine, "d", longer(Q)) == 8


def test_calls_without_a_program_leave_their_blocks_as_in_vllm() -> None:
    """Nobody knows whether such a conversation goes on: a's blocks are freed after x's, and found."""
    engine = engine_of({"policy": "plas"}, num_blocks=8)
    call(engine, "x", X)
    call(engine, "a", P)
    call(engine, "y", prompt_of(12, first=4))
    assert call(engine, "b", longer(P)) == 8


def test_the_prefix_cache_can_be_emptied_while_blocks_are_kept() -> None:
    engine = engine_of(KEEPING, num_blocks=8)
    call(engine, "a", P, "pp")
    assert engine.scheduler.reset_prefix_cache()
    assert engine.scheduler._kept.order.num_kept_blocks == 0
    assert call(engine, "b", longer(P), "pp") == 0


def test_with_a_connector_or_without_prefix_caching_vllm_s_own_queue_stays() -> None:
    scheduler = engine_of(KEEPING, num_blocks=8).scheduler
    manager = scheduler.kv_cache_manager
    assert manager.block_pool.free_block_queue is scheduler._kept.order
    for connector, enable_caching in ((object(), True), (None, False)):
        scheduler.connector, manager.enable_caching = connector, enable_caching
        kept = KeptKV(scheduler, scheduler.core)
        assert kept.order is None
        kept.call_over("p", kept.findable_blocks("r"), has_finished=True, now=0.0)
    assert manager.block_pool.free_block_queue is scheduler._kept.order


@pytest.mark.parametrize("preemption", ["none", "park"])
@pytest.mark.parametrize(("policy", "is_held"), [("pause_resume", True), ("fcfs", False)])
def test_a_program_that_does_not_fit_beside_others_is_held_back(policy: str, is_held: bool, preemption: str) -> None:
    """240 tokens, 4 slots. p and q need 8 + 100 each, also while their tools are busy; r waits until p is over."""
    engine = engine_of({"policy": policy, "preemption": preemption}, num_blocks=60, num_slots=4)
    requests = {}
    for name, program, max_tokens in (("a", "p", 4), ("c", "q", 12), ("e", "r", 4)):
        requests[name] = engine.make(name, prompt_of(8, first=ord(program) % 7), max_tokens, program)
        engine.scheduler.add_request(requests[name])
        engine.step()
    assert [r.request_id for r in engine.scheduler.running] == ["a", "c"] + ["e"] * (not is_held)
    assert engine.scheduler.get_request_counts() == ((2, 1) if is_held else (3, 0))
    for _ in range(4):
        engine.step()
    assert "a" not in engine.scheduler.requests
    assert ("e" in engine.scheduler.requests) == is_held  # p may go on any moment
    last = engine.make("b", prompt_of(8, first=1), 1, "p")
    last.sampling_params.extra_args = LAST
    engine.scheduler.add_request(last)
    for _ in range(2):
        engine.step()
    assert requests["e"].status.name == "RUNNING" or not is_held
    engine.run()
    assert engine.answers["e"] == answer(requests["e"].prompt_token_ids, 4)


@pytest.mark.parametrize("preemption", ["none", "park"])
def test_a_session_that_waits_for_its_client_keeps_nobody_waiting(preemption: str) -> None:
    """200 tokens; the session needs 8 + 100, and so do q and r, which do not fit beside it. But nothing else runs."""
    engine = engine_of({"policy": "pause_resume", "preemption": preemption}, num_blocks=50, num_slots=4)
    engine.add("session", P, 1, "s", resumable=True)
    engine.run()
    assert engine.scheduler.requests["session"].status.name == "WAITING_FOR_STREAMING_REQ"
    engine.add("a", Q, 4, "q")
    engine.add("b", prompt_of(8, first=4), 4, "r")
    engine.step()
    assert [r.request_id for r in engine.scheduler.running] == ["a"]
    engine.run()  # when a is over, s would be held back too and stands before r, but has nothing to do
    assert engine.answers["a"] == answer(Q, 4)
    assert engine.answers["b"] == answer(prompt_of(8, first=4), 4)
    engine.add("session", [1], 1)  # its client has no more to say
    engine.run()
    assert not engine.scheduler.requests
    check_blocks(engine.scheduler)


POLICIES = ("program_fcfs", "pause_resume", "las", "plas", "gittins", f"{__name__}:KeepsAll")
ENGINES = {"overlap": st.booleans(), "num_slots": st.integers(1, 4), "max_batch_tokens": st.sampled_from((7, 64))}
NUM_BLOCKS = st.one_of(st.integers(9, 30), st.sampled_from((60, 90)))  # the larger ones for those who hold programs back
TINY = st.fixed_dictionaries(
    ENGINES | {"num_blocks": NUM_BLOCKS, "spare_states": st.sampled_from((None, 2)), "watermark": st.just(0.0)}
)
WHAT = st.lists(st.tuples(st.sampled_from((*ACTIONS, "wait", "wait")), st.integers(0, 999)), max_size=80)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(options=TINY, what=WHAT)
def test_whatever_happens_every_call_ends_and_every_block_is_free(
    policy: str, options: dict[str, Any], what: Sequence[tuple[str, int]]
) -> None:
    """With parking; its rules are checked after each thing that happens."""
    agentix = {"policy": policy, "preemption": "park", "quanta_s": [STEP_S], "starvation_ratio": 2.0}
    load = Load.on(agentix, options)
    for action, pick in what:
        if action == "wait":
            load.engine.now += (STEP_S, 1.0, 2.0, 1800.0)[pick % 4]
        else:
            load.act(action, pick)
        assert load.engine.scheduler._kept.order.num_kept_blocks <= options["num_blocks"] / 2
    load.finish()
    assert load.engine.scheduler.reset_prefix_cache()


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(options=st.fixed_dictionaries(ENGINES | {"num_blocks": NUM_BLOCKS}), picks=st.lists(st.integers(0, 999), max_size=60))
def test_engines_that_do_not_park_end_every_call_too(policy: str, options: dict[str, Any], picks: Sequence[int]) -> None:
    engine, wanted = Engine({"policy": policy, "preemption": "none"}, max_model_len=32, **options), {}
    for number, pick in enumerate(picks):
        name, prompt, max_tokens = f"r{number}", [pick % 3] * (pick % 11) + [1 + pick % 7], 1 + pick % 20
        engine.add(name, prompt, max_tokens, (None, "p", "q", "s", "t")[pick % 5])
        wanted[name] = answer(prompt, max_tokens)
        for _ in range(pick % 4):
            engine.step()
            check_blocks(engine.scheduler)
        engine.now += (0.0, STEP_S, 2.0)[pick % 3]
    engine.run()
    assert engine.answers == wanted
    check_blocks(engine.scheduler)
    assert engine.scheduler.reset_prefix_cache()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    options=st.fixed_dictionaries(ENGINES | {"num_blocks": st.integers(9, 30)}),
    picks=st.lists(st.integers(0, 999), max_size=40),
)
@pytest.mark.parametrize("preemption", ["none", "park"])
def test_nobody_waits_or_is_preempted_because_of_what_is_kept(
    preemption: str, options: dict[str, Any], picks: Sequence[int]
) -> None:
    """Where no prompt is like another, an engine that keeps KV does the same, step by step, as one that does not."""
    histories = []
    for policy in ("KeepsNothing", "KeepsAll"):
        engine = Engine({"policy": f"{__name__}:{policy}", "preemption": preemption}, max_model_len=32, **options)
        history = []
        for number, pick in enumerate(picks):
            prompt = [1 + number % 39, 1 + number // 39, *[5] * (pick % 11)]
            engine.add(f"r{number}", prompt, 1 + pick % 18, ("p", "qq", "rrr")[pick % 3])
            for _ in range(pick % 4):
                engine.step()
                history.append(engine.num_tokens_of.copy())
        engine.run()
        histories.append([*history, engine.num_tokens_of])
    assert histories[0] == histories[1]


@pytest.mark.parametrize(("policy", "is_stock"), [("fcfs", True), ("mlfq", True), ("plas", False)])
def test_a_policy_that_ignores_programs_leaves_vllm_s_order_of_free_blocks_alone(policy: str, is_stock: bool) -> None:
    engine = engine_of({"policy": policy}, num_blocks=8)
    assert (engine.scheduler._kept.order is None) == is_stock


def test_first_come_first_served_leaves_vllm_as_it_is() -> None:
    assert engine_of({"policy": "fcfs", "preemption": "park"}, num_blocks=8).scheduler._parking is None
    assert engine_of({"policy": "plas"}, num_blocks=8).scheduler._parking is not None


def test_a_context_that_smaller_ones_leave_no_room_for_is_not_held_back_for_ever() -> None:
    """240 tokens, 4 slots. The giant needs 50 x 17/16 + 64 = 117 of them, the others 72 each, so two of them and 96 left.

    Each time one is over another comes, in a program of its own. When 4 x 4 of them have been let in before it, it is its turn.
    """
    engine = engine_of({"policy": "gittins", "quanta_s": [1.0]}, num_blocks=60, num_slots=4)
    for number in range(400):
        while len(engine.scheduler.requests) < 8:
            engine.add(f"r{number}-{len(engine.scheduler.requests)}", prompt_of(8, first=1 + number % 9), 6)
        if number == 20:
            engine.add("giant", prompt_of(50, first=10), 4, "giant")
        engine.step()
        engine.now += 0.1
        if engine.endings["giant"]:
            break
    assert engine.answers["giant"] == answer(prompt_of(50, first=10), 4)
    assert engine.scheduler.core.holding.num_held_back > 16
    engine.run()
    check_blocks(engine.scheduler)
