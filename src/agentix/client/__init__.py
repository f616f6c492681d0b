"""The client SDK: calls say by themselves which program, thread and parents they have (docs/client.md).

Standard library only. `httpx` and `httpx2`, through which the OpenAI and Anthropic SDKs and most frameworks send, are
instrumented if they are installed.
"""

from agentix.client.block import program
from agentix.client.context import headers
from agentix.client.dag import Call
from agentix.client.instrumentation import instrument, uninstrument
from agentix.client.running import Program

__all__ = ["Call", "Program", "headers", "instrument", "program", "uninstrument"]
