"""Optional parts of the installation, asked for by name."""

from __future__ import annotations

from importlib.util import find_spec

from agentix.core.errors import ConfigError


def require(extra: str, *modules: str) -> None:
    """Raise ConfigError, which says what to install, unless all `modules` of the extra are there."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} is not installed; run: pip install 'agentix[{extra}]'")
