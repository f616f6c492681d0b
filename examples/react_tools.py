"""An agent with tools: the model calls one in every turn, until it calls `answer`. One program, one chain of calls.

Run it: python examples/react_tools.py "What is 12 times 7, minus 4?"
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


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    """A tool as the API wants to be told of it; all its parameters are required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


NUMBER = {"type": "integer", "minimum": -9999, "maximum": 9999}
TOOLS = [
    tool("calculate", "Does sums.", operation={"type": "string", "enum": list(OPERATIONS)}, a=NUMBER, b=NUMBER),
    tool("answer", "Gives the final answer.", value=NUMBER),
]


def run(call: Any) -> str:
    """What the tool says; a model may well call it with arguments that make no sense, and is then told so."""
    try:
        given = json.loads(call.function.arguments)
        return str(given["value"] if call.function.name == "answer" else OPERATIONS[given["operation"]](given["a"], given["b"]))
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error!r}"


async def main() -> None:
    """Think, act, observe, again and again."""
    parser = arguments(__doc__)
    parser.add_argument("question", nargs="?", default=QUESTION)
    options = parser.parse_args()
    messages: list[Any] = [
        {"role": "system", "content": "Use the tool calculate for one step at a time, then the tool answer."},
        {"role": "user", "content": options.question},
    ]
    async with connect(options) as server, agentix.program("react") as program:
        for _ in range(MAX_TURNS):
            said = await server.ask(messages, tools=TOOLS, tool_choice="required", temperature=0)
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls or ():
                result = run(call)
                print(f"{call.function.name} {call.function.arguments} -> {result}")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if any(call.function.name == "answer" for call in said.tool_calls or ()):
                break
        else:
            print(f"no answer after {MAX_TURNS} turns")
        await server.tell(program)


if __name__ == "__main__":
    asyncio.run(main())
