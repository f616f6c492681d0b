"""ShareGPT: conversations that people shared.

Format: one JSON array of `{"id", "conversations": [{"from": "human" | "gpt" | "system", "value": text}, …]}`, as in the
public `ShareGPT_V3_unfiltered_cleaned_split.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentix.workload.errors import TraceError
from agentix.workload.originals.conversation import conversation_calls
from agentix.workload.originals.source import checked, fields, read_json_list
from agentix.workload.trace import Message, Program

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
}


def load_sharegpt(path: Path | str) -> tuple[Program, ...]:
    """Every conversation with an answer, as a text program. Long conversations are split in the file and stay so.

    An answer before the first question, as where a split begins, has no prompt and is left out. Raises TraceError.
    """
    path = Path(path)
    return checked(_programs(path), path)


def _programs(path: Path) -> Iterator[Program]:
    for index, raw in enumerate(read_json_list(path)):
        program_id = f"sharegpt-{index}"
        conversation = fields(raw, path, program_id=program_id)
        messages = [_message(turn, path, program_id) for turn in conversation.optional_items("conversations")]
        while messages and messages[0]["role"] == "assistant":
            del messages[0]
        calls = conversation_calls(messages)
        if calls:
            yield Program(
                program_id=program_id, workload="sharegpt", calls=calls, meta={"id": conversation.optional_text("id")}
            )


def _message(raw: object, path: Path, program_id: str) -> Message:
    turn = fields(raw, path, program_id=program_id)
    speaker = turn.text("from")
    if speaker not in _ROLES:
        raise TraceError(f"from is {speaker!r}; known: {', '.join(sorted(_ROLES))}", path=path, program_id=program_id)
    return {"role": _ROLES[speaker], "content": turn.optional_text("value") or ""}
