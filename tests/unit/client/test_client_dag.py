"""The calls of a program as a graph, for each way of running things beside one another."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio.to_thread
import pytest

import agentix


class Calls:
    """Calls by name, made by headers; `parents` and `threads` tell them in the same names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.parents: dict[str, set[str]] = {}
        self.threads: dict[str, str] = {}

    def call(self, name: str) -> None:
        headers = agentix.headers()
        self._names[headers["x-agentix-call"]] = name
        self.parents[name] = {self._names[p] for p in headers["x-agentix-parent"].split(",") if p}
        self.threads[name] = headers["x-agentix-thread"]

    async def acall(self, *names: str) -> None:
        """Calls one after the other, with time for others between them."""
        for name in names:
            await asyncio.sleep(0)
            self.call(name)
            await asyncio.sleep(0)


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_calls_one_after_the_other_are_a_chain_in_the_main_thread(calls: Calls) -> None:
    with agentix.program("p"):
        for name in "abc":
            calls.call(name)
    assert calls.parents == {"a": set(), "b": {"a"}, "c": {"b"}}
    assert calls.threads == {"a": "main", "b": "main", "c": "main"}


async def test_gather_forks_and_joins(calls: Calls) -> None:
    async with agentix.program("p"):
        calls.call("first")
        await asyncio.gather(calls.acall("a1", "a2"), calls.acall("b1"), asyncio.sleep(0))
        calls.call("last")
        calls.call("after")
    assert calls.parents == {
        "first": set(),
        "a1": {"first"},
        "b1": {"first"},
        "a2": {"a1"},
        "last": {"a2", "b1"},
        "after": {"last"},
    }
    assert calls.threads["a1"] == calls.threads["a2"]
    assert len({calls.threads[n] for n in ("first", "a1", "b1")}) == 3


async def test_two_gathers_in_a_row_depend_all_on_all(calls: Calls) -> None:
    with agentix.program("map-reduce-map"):
        await asyncio.gather(calls.acall("a"), calls.acall("b"))
        await asyncio.gather(calls.acall("c"), calls.acall("d"))
    assert calls.parents == {"a": set(), "b": set(), "c": {"a", "b"}, "d": {"a", "b"}}


async def test_a_nested_gather_joins_where_it_was_awaited_and_not_in_its_siblings(calls: Calls) -> None:
    async def agent(name: str) -> None:
        await asyncio.gather(calls.acall(f"{name}1"), calls.acall(f"{name}2"))  # no call of its own before it forks
        await calls.acall(f"{name}3")

    async with agentix.program("p"):
        await asyncio.gather(agent("a"), agent("b"))
        calls.call("last")
    assert calls.parents == {
        "a1": set(),
        "a2": set(),
        "b1": set(),
        "b2": set(),
        "a3": {"a1", "a2"},
        "b3": {"b1", "b2"},
        "last": {"a3", "b3"},
    }


async def test_a_task_group_and_a_call_beside_it(calls: Calls) -> None:
    async with agentix.program("p"):
        calls.call("first")
        async with asyncio.TaskGroup() as group:
            group.create_task(calls.acall("a1", "a2", "a3"))
            group.create_task(calls.acall("b"))
            calls.call("beside")
        calls.call("last")
    assert calls.parents["beside"] == calls.parents["a1"] == calls.parents["b"] == {"first"}
    assert calls.parents["last"] == {"beside", "a3", "b"}


async def test_wait_for_is_a_step_like_any_other(calls: Calls) -> None:
    async with agentix.program("p"):
        for name in "abc":
            await asyncio.wait_for(calls.acall(name), 5)
    assert calls.parents == {"a": set(), "b": {"a"}, "c": {"b"}}


async def test_what_is_not_awaited_joins_when_it_is_over(calls: Calls) -> None:
    async with agentix.program("p"):
        calls.call("first")
        go = asyncio.Event()

        async def slow() -> None:
            calls.call("slow1")
            await go.wait()
            calls.call("slow2")

        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        calls.call("meanwhile")
        go.set()
        await asyncio.wait([task])
        calls.call("last")
    assert calls.parents == {
        "first": set(), "slow1": {"first"}, "meanwhile": {"first"}, "slow2": {"slow1"}, "last": {"meanwhile", "slow2"}
    }  # fmt: skip


async def test_what_a_task_leaves_running_joins_those_who_started_the_task(calls: Calls) -> None:
    left: list[asyncio.Task[None]] = []

    async def leave() -> None:
        left.append(asyncio.create_task(calls.acall("left1", "left2")))
        calls.call("parent")

    async with agentix.program("p"):
        await asyncio.gather(leave())
        calls.call("before")
        await left[0]
        calls.call("last")
    assert calls.parents == {
        "parent": set(),
        "before": {"parent"},
        "left1": set(),
        "left2": {"left1"},
        "last": {"before", "left2"},
    }


@pytest.mark.parametrize("copies_context", [False, True])
def test_a_pool_of_threads_forks_and_joins_even_where_frameworks_copy_the_context(calls: Calls, copies_context: bool) -> None:
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        barrier.wait(5)
        calls.call(f"{name}1")
        barrier.wait(5)
        calls.call(f"{name}2")

    futures = []
    with ThreadPoolExecutor(2) as pool, agentix.program("p"):
        calls.call("first")
        for name in "ab":
            run: Any = contextvars.copy_context().run
            futures.append(pool.submit(run, work, name) if copies_context else pool.submit(work, name))
        for future in futures:
            future.result(5)
        calls.call("last")
    assert calls.parents == {
        "first": set(), "a1": {"first"}, "b1": {"first"}, "a2": {"a1"}, "b2": {"b1"}, "last": {"a2", "b2"}
    }  # fmt: skip


async def test_run_in_executor_to_thread_and_threads(calls: Calls) -> None:
    barrier = threading.Barrier(2)

    def beside(name: str) -> None:
        barrier.wait(5)
        calls.call(name)

    async with agentix.program("p"):
        await asyncio.gather(
            asyncio.get_running_loop().run_in_executor(None, beside, "executor"), asyncio.to_thread(beside, "to_thread")
        )
        thread = threading.Thread(target=calls.call, args=["thread"])
        thread.start()
        thread.join()
        calls.call("last")
    assert calls.parents == {
        "executor": set(), "to_thread": set(), "thread": {"executor", "to_thread"}, "last": {"thread"}
    }  # fmt: skip


def test_threads_of_a_pool_do_not_stay_in_the_program_that_started_them() -> None:
    with ThreadPoolExecutor(1) as pool, agentix.program("p"):
        assert pool.submit(agentix.headers).result(5)
        outside = contextvars.Context()
        assert outside.run(pool.submit, agentix.headers).result(5) == {}


def test_an_event_loop_within_a_program_goes_on_from_it(calls: Calls) -> None:
    async def main() -> None:
        await asyncio.gather(calls.acall("a"), calls.acall("b"))

    with agentix.program("p"):
        calls.call("first")
        asyncio.run(main())
        calls.call("last")
    assert calls.parents == {"first": set(), "a": {"first"}, "b": {"first"}, "last": {"a", "b"}}


def test_uvloop_forks_too(calls: Calls) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        await asyncio.gather(calls.acall("a"), calls.acall("b"))
        calls.call("last")

    with agentix.program("p"), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert calls.parents == {"a": set(), "b": set(), "last": {"a", "b"}}


async def test_a_task_in_a_context_of_its_own_forks_and_the_context_comes_back_as_it_was(calls: Calls) -> None:
    """LangChain runs its steps so, LangGraph its nodes."""
    loop = asyncio.get_running_loop()
    async with agentix.program("p"):
        calls.call("first")
        contexts = [contextvars.copy_context() for _ in "ab"]
        before = [dict(c) for c in contexts]
        both = [loop.create_task(calls.acall(f"{n}1", f"{n}2"), context=c) for n, c in zip("ab", contexts, strict=True)]
        await asyncio.gather(*both)
        assert [dict(c) for c in contexts] == before
        await loop.create_task(calls.acall("again"), context=contexts[0])
        calls.call("last")
    assert calls.parents == {
        "first": set(), "a1": {"first"}, "b1": {"first"}, "a2": {"a1"}, "b2": {"b1"}, "again": {"a2", "b2"}, "last": {"again"}
    }  # fmt: skip


@pytest.mark.parametrize("in_its_own_context", [False, True])
async def test_a_task_and_what_it_returned_go_with_their_last_owner(calls: Calls, in_its_own_context: bool) -> None:
    """The graph would else keep each call's answer until the garbage collector comes."""

    class Answer:
        pass

    async def ask() -> Answer:
        calls.call("a")
        return Answer()

    gc.disable()
    try:
        async with agentix.program("p"):
            own: dict[str, Any] = {"context": contextvars.copy_context()} if in_its_own_context else {}
            task = asyncio.get_running_loop().create_task(ask(), **own)
            answer = weakref.ref(await task)
            assert answer() is not None
            del task
            own.clear()
            await asyncio.sleep(0)  # what the event loop has held of it is gone
            assert answer() is None
            calls.call("last")
    finally:
        gc.enable()
    assert calls.parents == {"a": set(), "last": {"a"}}


async def test_a_context_in_which_somebody_runs_is_left_to_them(calls: Calls) -> None:
    with agentix.program("p"):
        context = contextvars.copy_context()

        def start() -> asyncio.Task[None]:
            return asyncio.get_running_loop().create_task(calls.acall("a"), context=context)

        await context.run(start)
        calls.call("last")
    assert calls.parents == {"a": set(), "last": {"a"}}


async def test_a_pool_whose_threads_run_in_copies_of_contexts_is_no_fork(calls: Calls) -> None:
    """anyio's threads outlive the work for which they were started."""
    async with agentix.program("p"):
        for name in "abc":
            await anyio.to_thread.run_sync(calls.call, name)
        calls.call("last")
    assert calls.parents == {"a": set(), "b": {"a"}, "c": {"b"}, "last": {"c"}}
    assert set(calls.threads.values()) == {"main"}
