"""The tenants file (docs/tenants.md): TOML to `Tenants`, or an error that names the place and what is allowed there."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentix.core.errors import ConfigError
from agentix.gateway.tenants import MIN_SECRET_CHARS, Budget, Tenant, Tenants, key_digest
from agentix.wire import KEY_VARIABLE

logger = logging.getLogger(__name__)

SALT_VARIABLE = "AGENTIX_SALT_SECRET"
_ONLY_TENANT = "default"
_DIGEST = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_BUDGETS = ("budget", "program_budget")


def load_tenants(path: Path | None, environ: Mapping[str, str]) -> Tenants:
    """The tenants in the file; without one, the single admin whose key is in AGENTIX_API_KEY; without that, none.

    Raises ConfigError for what cannot be read or is not as it should be.
    """
    salt_secret = environ.get(SALT_VARIABLE) or None
    if path is None:
        key = environ.get(KEY_VARIABLE, "")
        only = Tenant(name=_ONLY_TENANT, key_digests=(_digest_of(KEY_VARIABLE, environ),), admin=True) if key else None
        return Tenants((only,) if only else (), salt_secret)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the tenants file {path}: {error.strerror}") from None
    except ValueError as error:  # TOML's and UTF-8's
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        return _read(content, salt_secret, environ)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def reread_tenants(path: Path, environ: Mapping[str, str], adopt: Callable[[Tenants], None]) -> None:
    """Adopt the tenants that the file has now. One that is broken, or gone, changes nothing; the log says which it was."""
    try:
        tenants = load_tenants(path, environ)
        adopt(tenants)
    except ConfigError as error:
        logger.error("the tenants stay as they were: %s", error)
        return
    logger.warning("the tenants were read again from %s: %s", path, ", ".join(t.name for t in tenants.all))


def _read(content: Mapping[str, Any], salt_secret: str | None, environ: Mapping[str, str]) -> Tenants:
    _check_keys(content, ("salt_secret", "tenant"), "the file")
    tables = content.get("tenant", {})
    if not isinstance(tables, dict) or not tables or not all(isinstance(t, dict) for t in tables.values()):
        raise ConfigError("there must be a table [tenant.NAME] for each tenant, and at least one")
    secret = content.get("salt_secret", salt_secret)
    if secret is not None and not isinstance(secret, str):
        raise ConfigError("salt_secret must be a string")
    return Tenants(tuple(_tenant(name, table, environ) for name, table in tables.items()), secret)


def _tenant(name: str, table: Mapping[str, Any], environ: Mapping[str, str]) -> Tenant:
    plain = ("weight", "admin", "cache_group")
    _check_keys(table, ("keys_sha256", "key_env", *plain, *_BUDGETS), f"tenant {name!r}")
    try:
        if not isinstance(table.get("admin", False), bool):
            raise ConfigError(f"admin must be true or false, not {table['admin']!r}")
        if not isinstance(table.get("cache_group", ""), str):
            raise ConfigError(f"cache_group must be a string, not {table['cache_group']!r}")
        digests = [*_digests(table.get("keys_sha256", []))]
        if "key_env" in table:
            digests.append(_digest_of(table["key_env"], environ))
        settings = {key: table[key] for key in plain if key in table}
        settings |= {key: _budget(key, table[key]) for key in _BUDGETS if key in table}
        return Tenant(name=name, key_digests=tuple(digests), **settings)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith("tenant ") else f"tenant {name!r}: {text}") from None


def _digests(values: Any) -> list[bytes]:
    if not isinstance(values, list) or not all(isinstance(v, str) and _DIGEST.fullmatch(v) for v in values):
        raise ConfigError("keys_sha256 must be a list of SHA-256 digests, 64 hexadecimal digits each (agentix key makes them)")
    return [bytes.fromhex(value) for value in values]


def _digest_of(variable: Any, environ: Mapping[str, str]) -> bytes:
    """The digest of the key in an environment variable. The key is in no message."""
    key = environ.get(variable, "") if isinstance(variable, str) else ""
    if not key:
        raise ConfigError(f"key_env: the environment variable {variable!r} is not set")
    if len(key) < MIN_SECRET_CHARS:
        raise ConfigError(f"the key in {variable} is too short: {len(key)} characters; {MIN_SECRET_CHARS} or more are needed")
    return key_digest(key)


def _budget(name: str, table: Any) -> Budget:
    if not isinstance(table, dict):
        raise ConfigError(f"{name} must be a table")
    _check_keys(table, tuple(f.name for f in fields(Budget)), name)
    try:
        return Budget(**table)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = sorted(table.keys() - set(known))
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(known)}")
