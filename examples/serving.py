"""What the examples share: the server to talk to, one question to it, and what it says about a program."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import APIConnectionError, APIStatusError, AsyncOpenAI

from agentix.client import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An OpenAI-compatible server, and the model of it that is asked."""

    client: AsyncOpenAI
    model: str

    async def ask(self, messages: str | list[Any], *, max_tokens: int = 80, **options: Any) -> Any:
        """The model's message in answer to a text, or to a conversation."""
        conversation: Any = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        answer = await self.client.chat.completions.create(
            model=self.model, messages=conversation, max_tokens=max_tokens, **options
        )
        return answer.choices[0].message

    async def tell(self, program: Program) -> None:
        """Print what the gateway knows of a running program; nothing if the server is no Agentix gateway."""
        try:
            row: Any = await self.client.get(f"/programs/{program.id}", cast_to=object)
        except APIStatusError:
            return
        times = ", ".join(f"{name} {row[name + '_s']:.1f} s" for name in ("service", "critical_path", "waiting"))
        print(f"\n[program {program.name}: {row['num_finished']} calls, {times}]", file=sys.stderr)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser of command lines with the options that every example has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1", help="of the server (http://127.0.0.1:8080/v1)")
    parser.add_argument("--model", help="name of the model (the first that the server lists)")
    return parser


@asynccontextmanager
async def connect(options: argparse.Namespace) -> AsyncIterator[Server]:
    """The server at `--base-url`, with the key in AGENTIX_API_KEY if it wants one. Ends the example if there is no server."""
    async with AsyncOpenAI(base_url=options.base_url, api_key=os.environ.get("AGENTIX_API_KEY", "none")) as client:
        try:
            models = [model.id async for model in client.with_options(max_retries=0).models.list()]
        except (APIConnectionError, APIStatusError) as error:
            sys.exit(f"nothing serves at {options.base_url} ({error}): start it with `make serve`, or name another --base-url")
        if not (options.model or models):
            sys.exit(f"the server at {options.base_url} lists no model: name one with --model")
        yield Server(client=client, model=options.model or models[0])
