"""What class is a program of whose client names none? Worked out from what tells agents apart: system prompt, tools, model.

Policies learn by class what programs need (docs/policies.md). Agents that nobody has told apart would be one class, and what
is learnt of it the average of all of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from agentix.core.history import WORKED_OUT
from agentix.gateway.identity.conventions import is_id
from agentix.wire import CLASS_XARG

_MAX_CHARS = 1024
_CHARS_READ = 2 * _MAX_CHARS  # of which the last may be cut short: it seldom counts
_DIGEST_BYTES = 3
_CALENDAR = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|"
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tue|wed|thu|fri|sat|sun|am|pm|utc|gmt"
)
# A word is printable ASCII, so that in a script without spaces a date takes no sentence with it. Each is looked at once, from
# its beginning; nothing is tried twice (`*+`), which keeps this linear.
_OF_A_SESSION = re.compile(
    r"(?<![!-~])(?:[!-.:-?A-\[\]-~]*+[\d/\\@][!-~]*+|"
    rf"[('\"\[]*+(?:{_CALENDAR})[.,;:)'\"\]]*+(?![!-~]))",
    re.IGNORECASE | re.ASCII,
)


def named_class(body: Mapping[str, Any]) -> str | None:
    """The class that the client names with a call, for engines with the plug-in, in `vllm_xargs.agentix_class`."""
    xargs = body.get("vllm_xargs")
    name = xargs.get(CLASS_XARG) if isinstance(xargs, Mapping) else None
    return name if isinstance(name, str) and is_id(name) else None


def work_out_class(tenant: str, body: Mapping[str, Any], preamble: str) -> str | None:
    """A class for the program that a call belongs to, as `auto-` and six hexadecimal digits; None: the call tells nothing.

    Calls get the same one if they are of one tenant, ask for the same model and have tools of the same names and the same
    system prompt (`preamble`). What stands in such a prompt for a session alone does not count, as far as it shows: words
    with a digit, a slash or an @ in them (dates, ids, paths, addresses), and names of months and days. Of what is left the
    first 1,024 characters count: agents introduce themselves first and say where they are last. Linear in what is read.
    """
    text, tools = _without_session(preamble[:_CHARS_READ]), sorted(set(_tool_names(body)))
    if not text and not tools:
        return None
    model = body.get("model")
    told = "\0".join([tenant, model if isinstance(model, str) else "", text, *tools])
    return WORKED_OUT + hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


@lru_cache(maxsize=256)  # most agents begin with the same words all day
def _without_session(begin: str) -> str:
    return " ".join(_OF_A_SESSION.sub("", begin).split())[:_MAX_CHARS]


def _tool_names(body: Mapping[str, Any]) -> Iterator[str]:
    """Of tools in every API's shape; those without a name, which are the server's own, by their type."""
    for key in ("tools", "functions"):
        listed = body.get(key)
        for tool in listed if isinstance(listed, list) else ():
            if isinstance(tool, Mapping):
                inner = next((tool[kind] for kind in ("function", "custom") if isinstance(tool.get(kind), Mapping)), tool)
                name = inner.get("name", tool.get("type"))
                if isinstance(name, str) and name:
                    yield name
