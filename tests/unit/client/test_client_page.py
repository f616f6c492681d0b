"""What the client's page claims of frameworks is proved by the tests that it names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_in_the_table_of_frameworks_exists_and_every_test_of_frameworks_is_in_it() -> None:
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "client.md").read_text())
    files = [path for path in (ROOT / "tests" / "integration").glob("test_client_*.py") if path.stem != "test_client_sdk"]
    defined = {name for path in files for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)}
    beside = {name for name in defined if "library" in name or "left_alone" in name}
    assert len(files) >= 5
    assert set(named) == defined - beside
