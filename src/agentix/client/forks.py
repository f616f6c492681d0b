"""Tasks and threads that start within a program are forks of it: what wraps the three places where they start.

Only our own context variable travels to threads; others stay behind, as they always do. Outside programs nothing changes.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any, cast

from agentix.client.context import Place, fork, never_raising, place_var, run_forked


def forking_create_task(original: Callable[..., Any]) -> Callable[..., Any]:
    """For an event loop's `create_task`, by which gather, TaskGroup, wait_for and the frameworks start tasks too."""

    @functools.wraps(original)
    def create_task(*args: Any, **kwargs: Any) -> Any:
        context = kwargs.get("context")
        places = fork(context)
        if places is None:
            return original(*args, **kwargs)
        if context is not None:
            return _create_in(context, places[1], original, args, kwargs)
        token = place_var.set(places[1])  # the task copies the context as it is made
        try:
            task = original(*args, **kwargs)
        finally:
            place_var.reset(token)
        places[1].strand.is_over = _end_of(task)
        return task

    return create_task


def _end_of(task: Any) -> Callable[[], bool]:
    """Whether the task is done, or is no more.

    Its context leads to its strand. If the strand held the task, that would be a cycle: with its call's request and answer it
    would stay until the garbage collector comes, and bring it sooner.
    """
    try:
        held = weakref.ref(task)
    except TypeError:  # somebody's own kind of task
        return cast("Callable[[], bool]", task.done)

    def is_over() -> bool:
        task = held()
        return task is None or task.done()

    return is_over


def _create_in(context: Context, place: Place, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A task that runs in this very context, as LangChain's do: the context is lent to it, and given back when it is done."""
    try:
        token = context.run(place_var.set, place)
    except RuntimeError:  # somebody runs in it at this moment: the task will be where that one is
        return original(*args, **kwargs)

    def give_back(_: object) -> None:
        with contextlib.suppress(RuntimeError):
            context.run(place_var.reset, token)

    try:
        task = original(*args, **kwargs)
    except BaseException:
        give_back(None)
        raise
    place.strand.is_over = _end_of(task)
    task.add_done_callback(give_back)
    return task


def forking_start(original: Callable[..., Any]) -> Callable[..., Any]:
    """For `Thread.start`."""

    @functools.wraps(original)
    def start(self: threading.Thread) -> None:
        places = fork()
        if places is not None:
            _carry(self, places)
        original(self)

    return start


@never_raising
def _carry(thread: threading.Thread, places: tuple[Place, Place]) -> None:
    if "run" in vars(thread):  # somebody else's wrapper, or a thread that was started before
        return
    if type(thread).__module__.startswith("anyio."):  # a pool's: it runs everybody's work, each in a copy of their context
        return
    run = thread.run

    def run_in_program() -> None:
        vars(thread).pop("run", None)
        run_forked(places, run)

    vars(thread)["run"] = run_in_program


def forking_submit(original: Callable[..., Any]) -> Callable[..., Any]:
    """For `ThreadPoolExecutor.submit`, which `run_in_executor` and `to_thread` use."""

    @functools.wraps(original)
    def submit(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        places = fork()
        if places is None:
            return original(self, function, *args, **kwargs)
        token = place_var.set(None)  # the pool's threads outlive the program that happened to start them
        try:
            return original(self, functools.partial(run_forked, places, function), *args, **kwargs)
        finally:
            place_var.reset(token)

    return submit
