"""Shell blocks of the docs as commands, and the command line that they are held against."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from typer.main import get_command

from agentix.cli import app

_ENDS = {"|", "||", "&&", ";", "&"}
_REDIRECTS = {">", ">>", "<", "2>"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_WRAPPERS = {"exec": 0, "nohup": 0, "sudo": 0, "time": 0, "env": 0, "taskset": 2, "nice": 2, "timeout": 1}  # and their words


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command: without comments, assignments before it, redirections, and what runs it (`taskset -c 1`)."""
    text = re.sub(r"\$\([^()]*\)", "SUBSTITUTED", text.replace("\\\n", " "))
    for line in _whole_lines(text):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        tokens = iter(lexer)
        for token in tokens:
            if token in _ENDS:
                yield from _command(words)
                words = []
            elif token in _REDIRECTS:
                next(tokens)
            else:
                words.append(token)
        yield from _command(words)


def _whole_lines(text: str) -> Iterator[str]:
    """Lines, joined where a quote spans several."""
    line = ""
    for part in text.splitlines():
        line = f"{line}\n{part}" if line else part
        try:
            shlex.split(line, comments=True)
        except ValueError:
            continue
        yield line
        line = ""
    if line:
        raise ValueError(f"a quote is not closed: {line!r}")


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _WRAPPERS):
        words = words[1 + _WRAPPERS.get(words[0], 0) :]
    if words:
        yield words


@cache
def command_line() -> Any:
    """`agentix` as it can be taken apart, for the docs alone: what its commands would do is replaced."""
    return get_command(app)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What the command line makes of words: the options' values, or what it says is wrong."""

    values: dict[str, Any]
    problem: str | None


def parse(words: list[str]) -> Parsed:
    """What `agentix` (the words after it) would be called with. Nothing is called."""
    values: dict[str, Any] = {}
    root = command_line()
    for command in subcommands(root).values():
        command.callback = values.update
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        try:
            root.main(words, prog_name="agentix", standalone_mode=True)
        except SystemExit as end:
            if end.code:
                return Parsed(values=values, problem=output.getvalue() or f"status {end.code}")
    return Parsed(values=values, problem=None)


def subcommands(command: Any, path: str = "") -> dict[str, Any]:
    """All commands that do something, by their words."""
    children = getattr(command, "commands", None)
    if children is None:
        return {path: command}
    found: dict[str, Any] = {}
    for name, child in children.items():
        found |= subcommands(child, f"{path} {name}".strip())
    return found


def options(command: Any) -> set[str]:
    """The names of its options, `--help` among them."""
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help", "-h"}
