"""An agent with a tool: in every turn the model does a sum, until it answers. One program, one chain of calls.

Run it: python examples/react_tools.py "What is 12 times 7, minus 4?"
The server must take tools, as `make serve` does, whose small model steps about rather than arrive. Of a model of your own,
tell vLLM how it writes tool calls: `agentix serve MODEL -- --enable-auto-tool-choice --tool-call-parser NAME`.
"""

from __future__ import annotations

import asyncio
import json
import operator
from typing import Any

import agentix
from serving import arguments, connect

QUESTION = "What is 12 times 7, minus 4?"
MAX_TURNS = 6
OPERATIONS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


NUMBER = {"type": "integer", "minimum": -9999, "maximum": 9999}
STEP: dict[str, Any] = {"type": "object", "properties": {"do": {"enum": [*OPERATIONS, "answer"]}, "a": NUMBER, "b": NUMBER}}
STEP |= {"required": ["do", "a", "b"], "additionalProperties": False}
STEP_TOOL = {"name": "step", "description": "Does a sum, or answers with a.", "parameters": STEP, "strict": True}
TOOL = {"type": "function", "function": STEP_TOOL}
# A small model takes the tool only if it must.
CHOICE = {"type": "function", "function": {"name": "step"}}


def run(arguments: str) -> tuple[str, bool]:
    """What the tool says, and whether it is the answer; a model may well call it with what makes no sense, and is told so."""
    try:
        given = json.loads(arguments)
        if given["do"] == "answer":
            return str(given["a"]), True
        return str(OPERATIONS[given["do"]](given["a"], given["b"])), False
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error!r}", False


async def main() -> None:
    """Think, act, observe, again and again."""
    parser = arguments(__doc__)
    parser.add_argument("question", nargs="?", default=QUESTION)
    options = parser.parse_args()
    messages: list[Any] = [
        {"role": "system", "content": "Do one step at a time, then answer."},
        {"role": "user", "content": options.question},
    ]
    async with connect(options) as server, agentix.program("react") as program:
        for _ in range(MAX_TURNS):
            said = await server.ask(messages, tools=[TOOL], tool_choice=CHOICE, temperature=0, max_tokens=120)
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:  # it was cut short
                print(f"no tool was called: {said.content}")
                break
            (call,) = said.tool_calls
            result, is_answer = run(call.function.arguments)
            print(f"{call.function.arguments} -> {result}")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if is_answer:
                break
        else:
            print(f"no answer after {MAX_TURNS} turns")
        await server.tell(program)


if __name__ == "__main__":
    asyncio.run(main())
