"""The reference of the command line is made from the command line."""

from __future__ import annotations

import subprocess
import sys

from doc_commands import command_line, options, subcommands
from doc_pages import DOCS, ROOT


def test_it_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "cli_reference.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_command_and_option_is_in_it() -> None:
    text = (DOCS / "cli.md").read_text()
    for name, command in subcommands(command_line()).items():
        _, heading, rest = text.partition(f" `agentix {name}`\n")
        assert heading, name
        section = rest.partition("\n## ")[0]
        shown = {option for option in options(command) if option in section}
        assert shown >= {o for o in options(command) if o.startswith("--")}, name
