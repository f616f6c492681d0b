"""Write docs/cli.md from the command line itself; with --check, say whether it is what would be written."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
<!-- Made by `python scripts/cli_reference.py` from the program itself: change the help texts in src/agentix/cli/ instead. -->

"""


def reference() -> str:
    """What typer's own generator makes of the commands and their help."""
    command = [sys.executable, "-m", "typer", "agentix.cli", "utils", "docs", "--name", "agentix", "--title", "Command line"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    paragraphs = [text.strip("\n") for text in html.unescape(done.stdout).split("\n\n")]
    return HEAD + "\n\n".join(map(_as_shell, filter(None, paragraphs))) + "\n"


def _as_shell(paragraph: str) -> str:
    """Examples of commands, each with what it does behind it, as a block of commands with comments; other text as it is."""
    lines = paragraph.splitlines()
    if not all(line.startswith("agentix ") for line in lines):
        return paragraph
    return "\n".join(["```sh", *(re.sub(r"(\S {2,})(?=\S)", r"\1# ", line, count=1) for line in lines), "```"])


def main() -> int:
    """Status 1 if the page is not current."""
    text = reference()
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write("docs/cli.md is not what the command line says; run: python scripts/cli_reference.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
