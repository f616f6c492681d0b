"""`agentix.program("name")`: around a block, or on a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from contextvars import Token
from typing import Any, TypeVar, cast

from agentix.client.context import Place, current, never_raising, place_var
from agentix.client.instrumentation import instrument_unless_told
from agentix.client.running import Program
from agentix.core.errors import ConfigError

MAX_NAME_LENGTH = 256
F = TypeVar("F", bound=Callable[..., Any])


class program:  # noqa: N801  # it is used like a function, as contextlib's are
    """One program: what is called in the block, or while the function runs, belongs together.

        with agentix.program("research"): ...          async with agentix.program("research") as p: ...
        @agentix.program("research")                   # on a function or a coroutine function

    Within a running program it joins that one: the outermost block counts. A name is 1 to 256 printable characters.
    Raises ConfigError for another name, for a generator, and for a block that is entered while it is entered.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
            raise ConfigError(f"a program's name must be 1 to {MAX_NAME_LENGTH} printable characters, not {name!r}")
        self._name = name
        self._entered = False
        self._begun: tuple[Program, Token[Place | None]] | None = None

    def __enter__(self) -> Program:
        if self._entered:
            raise ConfigError(f"this block of program {self._name!r} is entered already; make one for each `with`")
        self._entered = True
        _switch_on()
        outer = current()
        if outer is not None:
            return outer.program
        running = Program(self._name)
        self._begun = running, place_var.set(Place(running, running.dag.first))
        return running

    def __exit__(self, *error: object) -> None:
        self._entered = False
        if self._begun is None:
            return
        running, token = self._begun
        self._begun = None
        with contextlib.suppress(ValueError):  # left in another context than entered, as async fixtures are
            place_var.reset(token)
        _end(running)

    async def __aenter__(self) -> Program:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)

    def __call__(self, function: F) -> F:
        """The function, each of whose runs is a program."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"{function.__qualname__} is a generator: put `with agentix.program(…)` around the loop that reads it"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with program(self._name):
                    return await function(*args, **kwargs)

            return cast("F", run_async)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with program(self._name):
                return function(*args, **kwargs)

        return cast("F", run)


@never_raising
def _switch_on() -> None:
    instrument_unless_told()


@never_raising
def _end(running: Program) -> None:
    running.end()
