"""How many calls may be in an engine: what engines tell, and sequences worked out by hand."""

from __future__ import annotations

import json
import math

import pytest

from agentix.gateway.concurrency import Concurrency, EngineLoad, read_load, serves_by_priority

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a}b"} 3.0
vllm:num_requests_running{engine="1",model_name="a}b"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a}b"} 2.0
vllm:num_requests_waiting{engine="1",model_name="a}b"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
"""


@pytest.mark.parametrize(
    ("text", "load"),
    [
        (VLLM, EngineLoad(7, 2)),
        (b'sglang:num_running_reqs{model_name="m"} 5\nsglang:num_queue_reqs{model_name="m"} 1e+01\n', EngineLoad(5, 10)),
        (b"llamacpp:requests_processing 4\nllamacpp:requests_deferred 1\n", EngineLoad(4, 1)),
        (b"tgi_queue_size 6\ntgi_batch_current_size 2\n", EngineLoad(2, 6)),
        (b"llamacpp:requests_processing 4\n", EngineLoad(4, 0)),
        (b"python_info 1\n", None),
        (b"vllm:num_requests_running 1.e.2\n", None),
        (b"vllm:num_requests_running 1e999\n", None),
        (b"vllm:num_requests_running NaN\n", None),
        (b"vllm:num_requests_running 3\nvllm:num_requests_waiting +Inf\n", None),
        (b"vllm:num_requests_running -1\n", None),
        (b'vllm:num_requests_running{a="b"} 3.0 1700000000000\n', EngineLoad(3, 0)),  # with a moment, as the format allows
        (b"", None),
    ],
)
def test_an_engines_load_is_read(text: bytes, load: EngineLoad | None) -> None:
    assert read_load(text) == load


def test_a_limit_grows_twofold_until_the_engine_has_a_queue_and_by_an_eighth_after_that() -> None:
    limit = Concurrency()
    assert limit.limit == math.inf
    limit.loaded(EngineLoad(0, 0), 0)
    assert limit.limit == 16
    limit.loaded(EngineLoad(10, 0), 10)
    assert limit.limit == 16, "it is not reached"
    limit.loaded(EngineLoad(16, 0), 16)
    assert limit.limit == 32
    limit.loaded(EngineLoad(32, 0), 32)
    assert limit.limit == 64
    limit.loaded(EngineLoad(40, 24), 64)  # 3 may wait beside 40: 21 too many
    assert limit.limit == 64, "once may be chance"
    limit.loaded(EngineLoad(40, 20), 64)  # 17 too many
    assert limit.limit == 64 - 17
    limit.loaded(EngineLoad(40, 7), 47)
    assert limit.limit == 47, "counted afresh after a cut"
    limit.loaded(EngineLoad(40, 3), 47)
    assert limit.limit == 47, "as it should be"
    limit.loaded(EngineLoad(47, 0), 47)
    assert limit.limit == 47 + 47 // 8


def test_a_limit_is_cut_below_what_is_there_and_never_below_one() -> None:
    limit = Concurrency()
    limit.loaded(EngineLoad(0, 0), 500)
    assert limit.limit == 1000, "what is there already fits, and more may"
    for _ in range(2):
        limit.loaded(EngineLoad(2, 30), 32)  # 29 too many, of 32 that were sent
    assert limit.limit == 3
    for _ in range(2):
        limit.loaded(EngineLoad(0, 400), 3)  # others' calls
    assert limit.limit == 1
    limit.loaded(EngineLoad(1, 0), 1)
    assert limit.limit == 2, "and up again, by at least one"


def test_an_engine_that_only_refuses_teaches_its_limit() -> None:
    limit = Concurrency()
    limit.finished()
    assert limit.limit == math.inf
    limit.refused(20, now=10.0)
    assert limit.limit == 14
    limit.refused(19, now=10.5)
    assert limit.limit == 14, "of a call that was sent before the cut"
    for _ in range(14):
        limit.finished()
    assert 14.9 < limit.limit < 15
    limit.refused(1, now=11.0)
    assert limit.limit == 1
    assert limit.has_room(0)
    assert not limit.has_room(1)


def test_a_limit_that_is_set_stays() -> None:
    limit = Concurrency(4)
    limit.loaded(EngineLoad(4, 100), 4)
    limit.loaded(EngineLoad(4, 100), 4)
    limit.refused(4, now=10.0)
    limit.finished()
    assert limit.limit == 4
    assert [limit.has_room(n) for n in (3, 4, 5)] == [True, False, False]


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"vllm_config": {"scheduler_config": {"policy": "priority"}}}, True),
        ({"vllm_config": {"scheduler_config": {"policy": "fcfs"}}}, False),
        ({"vllm_config": "VllmConfig(...)"}, False),
        ([], False),
    ],
)
def test_vllms_settings_tell_whether_it_serves_by_priority(info: object, expected: bool) -> None:
    assert serves_by_priority(json.dumps(info).encode()) is expected
    assert not serves_by_priority(b"<html>")
