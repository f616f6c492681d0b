"""Golden files: text that a test must reproduce to the byte.

After a change that is meant to alter them, write them anew, and review the difference before you commit it:

    AGENTIX_WRITE_GOLDEN=1 pytest tests/golden

A run that writes does not compare: its golden tests are reported as skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "golden" / "data"


def check_golden(name: str, text: str) -> None:
    """Compare `text` with the golden file `name`, or write it if AGENTIX_WRITE_GOLDEN is set."""
    path = DATA / name
    if os.environ.get("AGENTIX_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        pytest.skip(f"wrote {name}, compared nothing")
    assert text == path.read_text(encoding="utf-8")
