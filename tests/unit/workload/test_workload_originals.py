"""Public trace files: small samples in their documented formats, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentix.core.errors import ConfigError
from agentix.workload import Call, TraceError, full_messages, load_programs, program_parts, save_programs
from agentix.workload.originals import ORIGINALS, load_azure, load_mooncake

SHAREGPT = [
    {
        "id": "QWJhYvA_0",
        "conversations": [
            {"from": "gpt", "value": "the end of an earlier part"},
            {"from": "human", "value": "abcdefgh"},
            {"from": "gpt", "value": "abcde"},
            {"from": "human", "value": "more"},
            {"from": "gpt", "value": "done"},
            {"from": "human", "value": "never answered"},
        ],
    },
    {"id": "empty_0", "conversations": []},
]
BFCL = [
    {
        "id": "multi_turn_base_0",
        "result": [["[ls()]", "[cd('a')]", "Done."], ["Bye."]],
        "input_token_count": [[1000, 1030, 1060], [1100]],
        "output_token_count": [[10, 12, 5], [4]],
        "latency": [[0.5, 0.4, 0.3], [0.2]],
    }
]
TAU = [
    {
        "task_id": 3,
        "trial": 1,
        "reward": 1.0,
        "traj": [
            {"role": "system", "content": "policy"},
            {"role": "user", "content": "cancel my flight"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "x", "type": "function", "function": {"name": "get", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "x", "name": "get", "content": "found"},
            {"role": "assistant", "content": "It is done."},
            {"role": "user", "content": "###STOP###"},
        ],
    }
]
SWE = {
    "environment": "swe_main",
    "history": [
        {"role": "system", "content": "You are a programmer.", "agent": "main"},
        {"role": "user", "content": [{"type": "text", "text": "Fix the issue."}], "agent": "main"},
        {"role": "assistant", "content": "ls", "thought": "look", "action": "ls", "agent": "main"},
        {"role": "user", "content": "file.py", "agent": "main"},
        {"role": "assistant", "content": "submit", "agent": "main"},
    ],
    "trajectory": [{"action": "ls", "execution_time": 0.25}, {"action": "submit", "execution_time": 1.5}],
    "info": {"exit_status": "submitted"},
}
MOONCAKE = [
    {"timestamp": 500, "input_length": 600, "output_length": 20, "hash_ids": [0, 1]},
    {"timestamp": 1500, "input_length": 1030, "output_length": 30, "hash_ids": [0, 2, 3]},
]
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:47.1805900,396,109\n"

SAMPLES: dict[str, str] = {
    "sharegpt": json.dumps(SHAREGPT),
    "bfcl": "\n".join(map(json.dumps, BFCL)),
    "tau_bench": json.dumps(TAU),
    "swe_agent": json.dumps(SWE),
    "mooncake": "\n".join(map(json.dumps, MOONCAKE)),
    "azure": AZURE,
}


def load(name: str, tmp_path: Path, text: str | None = None) -> list[tuple[Call, ...]]:
    path = tmp_path / "original.traj"
    path.write_text(SAMPLES[name] if text is None else text, encoding="utf-8")
    programs = ORIGINALS.resolve(name)(path)
    save_programs(tmp_path / "t.jsonl", programs)
    assert load_programs(tmp_path / "t.jsonl") == programs
    for program in programs:
        for call in program.calls:
            assert sum(n for _, n in program_parts(program)[call.call_id].prompt) == call.prompt_tokens
            if program.has_text:
                assert full_messages(program, call)[-1]["role"] != "assistant"
    return [program.calls for program in programs]


def figures(calls: tuple[Call, ...]) -> list[tuple[Any, ...]]:
    return [(call.parents, call.prompt_tokens, call.output_tokens, call.tool_gap_s, call.after) for call in calls]


def test_sharegpt(tmp_path: Path) -> None:
    (calls,) = load("sharegpt", tmp_path)
    assert figures(calls) == [((), 3 + 4 + 2, 2, None, "human"), (("c0",), 9 + 4 + 2 + 4 + 1, 1, None, "human")]
    assert [call.output_text for call in calls] == ["abcde", "done"]
    assert calls[0].messages == ({"role": "user", "content": "abcdefgh"},)


def test_bfcl(tmp_path: Path) -> None:
    (calls,) = load("bfcl", tmp_path)
    assert figures(calls) == [
        ((), 1000, 10, None, "tool"),
        (("c0",), 1030, 12, None, "tool"),
        (("c1",), 1060, 5, None, "human"),
        (("c2",), 1100, 4, None, "end"),
    ]
    assert [(call.reused_tokens, call.new_tokens, call.step) for call in calls] == [
        (0, 1000, 0),
        (1010, 20, 0),
        (1042, 18, 0),
        (1065, 35, 1),
    ]


def test_tau_bench(tmp_path: Path) -> None:
    (calls,) = load("tau_bench", tmp_path)
    assert [(call.output_text, call.after) for call in calls] == [
        ('<tool_call>{"name": "get", "arguments": "{}"}</tool_call>', "tool"),
        ("It is done.", "human"),
    ]
    assert calls[1].messages == ({"role": "tool", "content": "found", "name": "get"},)


def test_swe_agent(tmp_path: Path) -> None:
    (calls,) = load("swe_agent", tmp_path)
    assert [(call.output_text, call.tool_gap_s, call.after) for call in calls] == [
        ("ls", 0.25, "human"),
        ("submit", None, "end"),
    ]
    other = SWE | {"trajectory": []}
    (calls,) = load("swe_agent", tmp_path, json.dumps(other))
    assert [call.tool_gap_s for call in calls] == [None, None]


def test_mooncake(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(SAMPLES["mooncake"])
    programs = load_mooncake(path, workload="conversation")
    assert [(p.program_id, p.arrival_s) for p in programs] == [("conversation-0", 0.5), ("conversation-1", 1.5)]
    assert [program_parts(p)["c0"].prompt for p in programs] == [
        (("conversation#0", 512), ("conversation#1", 88)),
        (("conversation#0", 512), ("conversation#2", 512), ("conversation#3", 6)),
    ]


def test_azure(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(AZURE)
    programs = load_azure(path)
    assert [program.arrival_s for program in programs] == pytest.approx([0, 0.5])
    assert [figures(program.calls) for program in programs] == [[((), 374, 44, None, None)], [((), 396, 109, None, None)]]


def changed(name: str, old: str, new: str) -> tuple[str, str]:
    assert old in SAMPLES[name]
    return name, SAMPLES[name].replace(old, new, 1)


BAD: dict[str, tuple[tuple[str, str], str]] = {
    "sharegpt bad json": (("sharegpt", "["), "bad JSON"),
    "sharegpt no array": (("sharegpt", "{}"), "a JSON array is expected"),
    "sharegpt speaker": (changed("sharegpt", '"human"', '"dog"'), "program 'sharegpt-0': from is 'dog'; known: assistant"),
    "sharegpt value": (changed("sharegpt", '"abcde"', "5"), "value must be a string, not a number"),
    "bfcl shapes": (changed("bfcl", "[4]]", "[4, 4]]"), "line 1, program 'multi_turn_base_0': output_token_count and input"),
    "bfcl flat": (changed("bfcl", "[1100]", "1100"), "input_token_count must be a list of lists, not a number"),
    "bfcl no counts": (changed("bfcl", "output_token_count", "other"), "output_token_count is missing"),
    "bfcl twice": (("bfcl", "\n".join([SAMPLES["bfcl"]] * 2)), "program 'multi_turn_base_0': program id is used twice"),
    "tau role": (
        changed("tau_bench", '"role": "tool"', '"part": "tool"'),
        "program 'tau-3-1': traj: every message needs a role",
    ),
    "tau id": (changed("tau_bench", "task_id", "task"), "program 'run 0': task_id is missing"),
    "swe no answer": (("swe_agent", "{}"), "program 'original': history has no answer of the model"),
    "swe time": (changed("swe_agent", "0.25", '"fast"'), "execution_time must be a number of seconds"),
    "mooncake time": (changed("mooncake", "timestamp", "time"), "line 1: timestamp is missing"),
    "mooncake length": (changed("mooncake", "1030", "-1"), "line 2: input_length is negative: -1"),
    "azure header": (("azure", "A,B\n1,2\n"), "line 1: no column TIMESTAMP, ContextTokens, GeneratedTokens"),
    "azure time": (changed("azure", "2023-11-16 18:15:47", "yesterday"), "line 3: TIMESTAMP: Invalid isoformat string"),
    "azure tokens": (changed("azure", "396", "-396"), "line 3: ContextTokens must be a whole number ≥ 0, not '-396'"),
    "azure short row": (changed("azure", ",374,44", ""), "line 2: ContextTokens must be a whole number ≥ 0, not ''"),
}


@pytest.mark.parametrize(("sample", "problem"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_said_with_its_place(sample: tuple[str, str], problem: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        load(sample[0], tmp_path, sample[1])
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "original.traj"))


@pytest.mark.parametrize("name", SAMPLES)
def test_files_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        ORIGINALS.resolve(name)(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    with pytest.raises(TraceError, match="not UTF-8"):
        ORIGINALS.resolve(name)(tmp_path / "binary")


def test_formats_are_known_by_name() -> None:
    assert ORIGINALS.names == sorted(SAMPLES)
    with pytest.raises(ConfigError, match="unknown trace format 'alpaca'; known: azure, bfcl"):
        ORIGINALS.resolve("alpaca")
