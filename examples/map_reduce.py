"""Map and reduce: calls side by side, and one that waits for all of them. The SDK sees it by itself.

Run it: python examples/map_reduce.py "the sea" "the desert"
"""

from __future__ import annotations

import asyncio

import agentix
from serving import Server, arguments, connect

TOPICS = ("the sun", "the moon", "the sea", "the wind")


async def describe(server: Server, topic: str) -> str:
    """Two calls in a row: a thread of its own within the program."""
    draft = await server.ask(f"Write two sentences about {topic}.")
    short = await server.ask(f"Shorten this to one sentence: {draft.content}", max_tokens=40)
    return short.content or ""


async def main() -> None:
    """Describe all topics at once; then make one text of it."""
    parser = arguments(__doc__)
    parser.add_argument("topics", nargs="*", default=TOPICS)
    options = parser.parse_args()
    async with connect(options) as server, agentix.program("map-reduce") as program:
        parts = await asyncio.gather(*(describe(server, topic) for topic in options.topics))
        for topic, part in zip(options.topics, parts, strict=True):
            print(f"{topic}: {part}")
        poem = await server.ask("Write a short poem from these lines:\n" + "\n".join(parts))
        print(f"\n{poem.content}")
        await server.tell(program)


if __name__ == "__main__":
    asyncio.run(main())
