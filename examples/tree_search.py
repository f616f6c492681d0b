"""A small tree search: propose next lines, rate them all at once, keep the best, go on from there.

Run it: python examples/tree_search.py "a cat at sea" --depth 2
"""

from __future__ import annotations

import asyncio
import re

import agentix
from serving import Server, arguments, connect

BRANCHES = 3  # lines that are proposed for each story
BEAM = 2  # stories that are kept


async def grow(server: Server, theme: str, story: str, branch: int) -> tuple[int, str]:
    """One more line for the story, and what the model thinks of the whole: from 0 to 10."""
    prompt = f"A story about {theme}:\n{story}\nWrite the next sentence of it."
    line = (await server.ask(prompt, max_tokens=30, temperature=1.0, seed=branch)).content or ""
    longer = f"{story} {line.strip()}".strip()
    verdict = await server.ask(f"Rate this story from 1 to 10. Answer with a number.\n\n{longer}", max_tokens=8)
    found = re.search(r"\d+", verdict.content or "")
    return min(int(found[0]), 10) if found else 0, longer


async def main() -> None:
    """Each level waits for all ratings of the one before: the critical path is two calls per level."""
    parser = arguments(__doc__)
    parser.add_argument("theme", nargs="?", default="a cat at sea")
    parser.add_argument("--depth", type=int, default=2)
    options = parser.parse_args()
    async with connect(options) as server, agentix.program("tree-search") as program:
        stories = [""]
        for level in range(options.depth):
            rated = await asyncio.gather(
                *(grow(server, options.theme, story, branch) for story in stories for branch in range(BRANCHES))
            )
            best = sorted(rated, reverse=True)[:BEAM]
            print(f"level {level}: " + ", ".join(str(score) for score, _ in sorted(rated, reverse=True)))
            stories = [story for _, story in best]
        print(f"\n{stories[0]}")
        await server.tell(program)


if __name__ == "__main__":
    asyncio.run(main())
