"""Programs made to break a policy that learns what programs need and decides whose context stays."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentix.workload import Call, Program
from agentix.workload.generate.base import gap_s
from agentix.workload.generate.chain import Chain
from agentix.workload.parts import Part, answer_name

ABANDONED = "abandoned"
_FORGOTTEN_AFTER_S = 900.0  # engines forget a program without a call after as long: `program_idle_s`


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A workload: `make(rng, scale)` gives its programs in the order in which they come, each with its kind in `meta`.

    at_once_s: all come within so many seconds, whatever the engine can carry; None: at a rate.
    """

    make: Callable[[random.Random, float], list[Program]]
    says: str
    at_once_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A chain of calls over one growing context; tokens of the first prompt, of each addition and each answer."""

    kind: str
    num_calls: int
    first_tokens: int
    new_tokens: int = 200
    output_tokens: int = 60
    mean_gap_s: float = 1.0

    def program(self, rng: random.Random, program_id: str, program_class: str) -> Program:
        """One run of it; only the gaps are drawn."""
        chain = Chain(program_id, program_class)
        for i in range(self.num_calls):
            chain.append(
                chain.part("new", self.new_tokens if i else self.first_tokens),
                output_tokens=self.output_tokens,
                after="tool",
                gap_s=gap_s(rng, self.mean_gap_s) if i < self.num_calls - 1 else None,
            )
        return of_kind(chain.program(), self.kind)


def of_kind(program: Program, kind: str) -> Program:
    """The program with its kind, which the engine is not told: a class may hold several."""
    return replace(program, meta={"kind": kind})


def _times(number: int, scale: float) -> int:
    return max(2, round(number * scale))


def _shuffled(rng: random.Random, scale: float, *groups: tuple[int, Agent, str]) -> list[Program]:
    """So many runs of each agent, each with its class, in random order."""
    programs = [
        agent.program(rng, f"{agent.kind}-{i}", program_class)
        for number, agent, program_class in groups
        for i in range(_times(number, scale))
    ]
    rng.shuffle(programs)
    return programs


_SHORT = Agent(kind="short", num_calls=3, first_tokens=4000)
_LONG = Agent(kind="long", num_calls=30, first_tokens=4000, output_tokens=300)  # 50 times the answers of a short one
_BIG = Agent(kind="big", num_calls=12, first_tokens=4000, output_tokens=300)  # 20 times


def two_modes(rng: random.Random, scale: float) -> list[Program]:
    """A class in which what has been learnt from nine says nothing of the tenth."""
    return _shuffled(rng, scale, (126, _SHORT, "agent"), (14, _LONG, "agent"))


def _drift(before: Agent, after: Agent) -> Callable[[random.Random, float], list[Program]]:
    def make(rng: random.Random, scale: float) -> list[Program]:
        first, second = (_shuffled(rng, scale, (45, agent, "agent")) for agent in (before, after))
        return first + second

    return make


def tiny_beside_long(rng: random.Random, scale: float) -> list[Program]:
    """One tenant's flood of tiny programs, another's few long ones."""
    tiny = Agent(kind="tiny", num_calls=1, first_tokens=300, output_tokens=30)
    long = Agent(kind="long", num_calls=15, first_tokens=10_000, output_tokens=200)
    return _shuffled(rng, scale, (1000, tiny, "a"), (50, long, "b"))


def huge_contexts(rng: random.Random, scale: float) -> list[Program]:
    """Contexts of which no two fit together."""
    huge = Agent(kind="huge", num_calls=3, first_tokens=235_000, output_tokens=300)
    small = Agent(kind="small", num_calls=5, first_tokens=1500, output_tokens=100)
    return _shuffled(rng, scale, (4, huge, "huge"), (120, small, "small"))


def _drawn_lengths(rng: random.Random, scale: float, number: int, draw: Callable[[], float]) -> list[Program]:
    lengths = [min(100, max(1, round(draw()))) for _ in range(_times(number, scale))]
    return [
        Agent(kind="agent", num_calls=length, first_tokens=4000, output_tokens=150).program(rng, f"agent-{i}", "agent")
        for i, length in enumerate(lengths)
    ]


def cold_start(rng: random.Random, scale: float) -> list[Program]:
    """Everybody is there before anything can have been learnt."""
    return _drawn_lengths(rng, scale, 100, lambda: rng.lognormvariate(1.5, 1.0))


def identical(rng: random.Random, scale: float) -> list[Program]:
    """All alike: nothing is to be gained by order, but by who has begun."""
    return _shuffled(rng, scale, (100, Agent(kind="agent", num_calls=6, first_tokens=9000, output_tokens=150), "agent"))


def exponential(rng: random.Random, scale: float) -> list[Program]:
    """No memory: how long a program has run says nothing of how long it will."""
    return _drawn_lengths(rng, scale, 100, lambda: rng.expovariate(1 / 7))


def pareto(rng: random.Random, scale: float) -> list[Program]:
    """Heavy tail: a mean that the totals seen so far do not tell."""
    return _drawn_lengths(rng, scale, 140, lambda: 1.5 * rng.paretovariate(1.1))


def wide(rng: random.Random, scale: float) -> list[Program]:
    """A hundred threads at once beside chains: service of all threads counts, and the longest decides."""
    chain = Agent(kind="chain", num_calls=5, first_tokens=4000, output_tokens=150)
    programs = [_wide(f"wide-{i}", 100) for i in range(_times(5, scale))]
    programs += [chain.program(rng, f"chain-{i}", "chain") for i in range(_times(70, scale))]
    rng.shuffle(programs)
    return programs


def _wide(program_id: str, num_threads: int) -> Program:
    """Read a text, ask so many questions about it at once, then join what was said."""
    text = (f"{program_id}/text", 6000)

    def call(call_id: str, parents: tuple[str, ...], parts: tuple[Part, ...], output_tokens: int) -> Call:
        tokens = sum(length for _, length in parts)
        return Call(call_id=call_id, parents=parents, prompt_tokens=tokens, output_tokens=output_tokens, prompt_parts=parts)

    names = tuple(f"ask{i}" for i in range(num_threads))
    read = call("read", (), (text,), 50)
    asked = tuple(call(name, ("read",), (text, (f"{program_id}/{name}", 100)), 80) for name in names)
    join = call("join", names, tuple((answer_name(program_id, name), 80) for name in names), 200)
    return of_kind(Program(program_id=program_id, workload="wide", calls=(read, *asked, join)), "wide")


def abandoned(rng: random.Random, scale: float) -> list[Program]:
    """Programs that never call again, and nobody says so: their contexts wait for nothing."""
    steady = Agent(kind="steady", num_calls=5, first_tokens=9000, output_tokens=150)
    programs = _shuffled(rng, scale, (75, steady, "agent"))
    for i in range(_times(25, scale)):
        chain = Chain(f"{ABANDONED}-{i}", "agent")
        chain.append(chain.part("new", 12_000), output_tokens=150, after="tool", gap_s=1.0)
        chain.append(chain.part("new", 200), output_tokens=150, after="human", gap_s=_FORGOTTEN_AFTER_S)
        last = (f"{ABANDONED}-{i}/last", 16)  # the simulator's way to forget it: one short call of its own much later
        end = Call(call_id="end", parents=("c1",), prompt_tokens=16, output_tokens=1, prompt_parts=(last,))
        program = chain.program()
        programs.append(of_kind(replace(program, calls=(*program.calls, end)), ABANDONED))
    rng.shuffle(programs)
    return programs


def long_gaps(rng: random.Random, scale: float) -> list[Program]:
    """Tools that take minutes, between calls with long contexts."""
    slow = Agent(kind="slow", num_calls=5, first_tokens=20_000, output_tokens=150, mean_gap_s=150.0)
    return _shuffled(rng, scale, (80, slow, "agent"))


def long_lived(rng: random.Random, scale: float) -> list[Program]:
    """Agents that stay all the time, one call after the other, while short ones come and go."""
    resident = Agent(kind="resident", num_calls=100, first_tokens=4000, new_tokens=100, output_tokens=60, mean_gap_s=3.0)
    residents = [resident.program(rng, f"resident-{i}", "resident") for i in range(_times(10, scale))]
    return residents + _shuffled(rng, scale, (600, replace(_SHORT, output_tokens=150), "short"))


def long_answers(rng: random.Random, scale: float) -> list[Program]:
    """Programs of one call, whose service is not over before they are: slots, not KV, are short."""
    brief = Agent(kind="brief", num_calls=1, first_tokens=500, output_tokens=80)
    thinking = Agent(kind="thinking", num_calls=1, first_tokens=500, output_tokens=4000)
    return _shuffled(rng, scale, (200, brief, "ask"), (120, thinking, "think"))


def _classes(name: Callable[[str], str]) -> Callable[[random.Random, float], list[Program]]:
    def make(rng: random.Random, scale: float) -> list[Program]:
        programs = _shuffled(rng, scale, (90, _SHORT, "short"), (20, _BIG, "big"))
        return [replace(program, workload=name(program.program_id)) for program in programs]

    return make


SHAPES = {
    "two_modes": Shape(make=two_modes, says="one class: nine in ten short, the tenth 50 times as long"),
    "drift_up": Shape(make=_drift(_SHORT, _BIG), says="totals of the class grow 20 times half-way"),
    "drift_down": Shape(make=_drift(_BIG, _SHORT), says="totals of the class shrink 20 times half-way"),
    "tiny_beside_long": Shape(make=tiny_beside_long, says="a tenant's thousand tiny programs beside another's fifty long ones"),
    "huge_contexts": Shape(make=huge_contexts, says="a few programs with 60 % of the KV each beside many small"),
    "cold_start": Shape(make=cold_start, says="all come within 5 s, none has been over before", at_once_s=5.0),
    "identical": Shape(make=identical, says="all programs alike"),
    "exponential": Shape(make=exponential, says="exponential totals"),
    "pareto": Shape(make=pareto, says="totals with a heavy tail (Pareto, 1.1)"),
    "wide": Shape(make=wide, says="programs of 100 parallel threads beside chains"),
    "abandoned": Shape(make=abandoned, says="a quarter of the programs stop calling, unannounced, with 12,000 tokens each"),
    "long_gaps": Shape(make=long_gaps, says="tools of minutes between calls of 20,000 tokens"),
    "long_lived": Shape(make=long_lived, says="ten agents of 100 calls that were there first, beside 600 short ones"),
    "long_answers": Shape(make=long_answers, says="single calls with answers of 4,000 tokens beside single calls of 80"),
    "unique_classes": Shape(make=_classes(lambda program_id: program_id), says="short and big ones, each a class of its own"),
    "one_class": Shape(make=_classes(lambda _: ""), says="the same programs, all in the class without a name"),
}
