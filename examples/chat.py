"""A conversation: each call goes on from the one before. One program of one thread, whose context stays on its engine.

Run it: python examples/chat.py "What is a star?" "How hot is one?"
"""

from __future__ import annotations

import asyncio
from typing import Any

import agentix
from serving import arguments, connect

QUESTIONS = ("What is a star?", "What colour does it have?", "Say that in five words.")


async def main() -> None:
    """Ask one question after the other, and show the answers as they come."""
    parser = arguments(__doc__)
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    options = parser.parse_args()
    messages: list[Any] = []
    async with connect(options) as server, agentix.program("chat") as program:
        for question in options.questions:
            print(f"> {question}")
            messages.append({"role": "user", "content": question})
            answer = ""
            stream = await server.client.chat.completions.create(
                model=server.model, messages=messages, max_tokens=80, stream=True
            )
            async for chunk in stream:
                if chunk.choices and (text := chunk.choices[0].delta.content):
                    print(text, end="", flush=True)
                    answer += text
            print()
            messages.append({"role": "assistant", "content": answer})
        await server.tell(program)


if __name__ == "__main__":
    asyncio.run(main())
