"""Seven small agent programs. Their calls are real; which come next is decided by code, so that every run makes the same ones.

The two wide programs come first and flood the queue, as a batch job does beside people who chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

_TOOL_S = 0.2  # what the tool of the ReAct programs takes
_POPULATION = {"Lyon": 0.52, "Porto": 0.25, "Graz": 0.30}  # in millions; what the tool knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call came to; the next one names it as a parent by its id."""

    call_id: str
    text: str


class Ask(Protocol):
    """Makes one call of the program and gives its answer, of exactly `num_tokens` tokens where the server can be told so."""

    def __call__(self, call_id: str, prompt: str, *parents: Answer, num_tokens: int) -> Awaitable[Answer]:
        """`parents` are the answers that the prompt was made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoProgram:
    """`run` makes `num_calls` calls and returns when the program is done."""

    name: str
    num_calls: int
    run: Callable[[Ask], Awaitable[None]]


async def map_reduce(ask: Ask) -> None:
    """Summarise eight chapters at once, then pairs of summaries, then all of them."""
    chapters = [ask(f"map-{n}", f"Summarise chapter {n} of a travel book about Europe.", num_tokens=24) for n in range(1, 9)]
    notes = await asyncio.gather(*chapters)
    pairs = [
        ask(f"merge-{n}", f"Merge these notes: {a.text} {b.text}", a, b, num_tokens=24)
        for n, (a, b) in enumerate(zip(notes[::2], notes[1::2], strict=True), start=1)
    ]
    merged = await asyncio.gather(*pairs)
    await ask("reduce", "Write the blurb: " + " ".join(note.text for note in merged), *merged, num_tokens=24)


async def tree_search(ask: Ask) -> None:
    """Three first moves, three replies to each, and a verdict: a tree of thoughts of depth two."""

    async def branch(n: int) -> list[Answer]:
        move = await ask(f"move-{n}", f"Make 24 of 3, 5, 7 and 9. Propose first step number {n}.", num_tokens=16)
        replies = [ask(f"move-{n}.{m}", f"{move.text} Now step two, variant {m}.", move, num_tokens=16) for m in range(1, 4)]
        return await asyncio.gather(*replies)

    leaves = [leaf for leaves in await asyncio.gather(*map(branch, range(1, 4))) for leaf in leaves]
    await ask("verdict", "Which is best? " + " ".join(leaf.text for leaf in leaves), *leaves, num_tokens=16)


async def react(city: str, ask: Ask) -> None:
    """Think, use a tool, look at what it says, and answer. The tool is a look-up that takes its time."""
    prompt = f"How many people live in {city}, and is that more than in Graz?"
    last = await ask("think-1", prompt, num_tokens=12)
    for number, name in enumerate((city, "Graz"), start=2):
        await asyncio.sleep(_TOOL_S)
        prompt = f"{prompt}\n{last.text}\nTool: {name} has {_POPULATION[name]} million people."
        last = await ask(f"think-{number}", prompt, last, num_tokens=12)


async def chat(topic: str, ask: Ask) -> None:
    """Three turns, each with everything that was said before."""
    said, parents = "", tuple[Answer, ...]()
    for number, question in enumerate((f"Tell me about {topic}.", "Why?", "Give me an example."), start=1):
        said = f"{said}\nUser: {question}"
        answer = await ask(f"turn-{number}", said, *parents, num_tokens=12)
        said, parents = f"{said}\nAssistant: {answer.text}", (answer,)


PROGRAMS = (
    DemoProgram(name="map-reduce", num_calls=13, run=map_reduce),
    DemoProgram(name="tree-search", num_calls=13, run=tree_search),
    DemoProgram(name="react-lyon", num_calls=3, run=partial(react, "Lyon")),
    DemoProgram(name="react-porto", num_calls=3, run=partial(react, "Porto")),
    DemoProgram(name="chat-rain", num_calls=3, run=partial(chat, "rain")),
    DemoProgram(name="chat-bread", num_calls=3, run=partial(chat, "bread")),
    DemoProgram(name="chat-chess", num_calls=3, run=partial(chat, "chess")),
)
