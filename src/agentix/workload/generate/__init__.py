"""Synthetic programs by kind. A new kind is a small file here, or a user's class by dotted path."""

from __future__ import annotations

import random
from typing import Any

from agentix.core.errors import ConfigError
from agentix.core.registry import Registry
from agentix.workload.check import check_program
from agentix.workload.generate.base import ProgramGenerator
from agentix.workload.generate.chat import Chat
from agentix.workload.generate.map_reduce import MapReduce
from agentix.workload.generate.mixed import Mixed
from agentix.workload.generate.react import React
from agentix.workload.generate.tree import Tree
from agentix.workload.trace import Program

GENERATORS: Registry[ProgramGenerator] = Registry("workload generator")
GENERATORS.register("chat", Chat)
GENERATORS.register("react", React)
GENERATORS.register("tree", Tree)
GENERATORS.register("map_reduce", MapReduce)
GENERATORS.register("mixed", Mixed)


def generate_programs(kind: str, rng: random.Random, *, num_programs: int, **options: Any) -> tuple[Program, ...]:
    """`num_programs` programs of a kind, without arrival times; `options` are those of the kind's class.

    The first programs of a longer run are those of a shorter one. Every program passes the checks of a loaded one.
    Raises ConfigError for an unknown kind (it lists what exists) or option.
    """
    factory = GENERATORS.resolve(kind)
    try:
        generator = factory(**options)
    except TypeError as error:
        raise ConfigError(f"options of workload generator {kind!r}: {error}") from error
    programs = tuple(generator.generate(rng, index=index) for index in range(num_programs))
    for program in programs:
        check_program(program)
    return programs


__all__ = ["GENERATORS", "Chat", "MapReduce", "Mixed", "ProgramGenerator", "React", "Tree", "generate_programs"]
