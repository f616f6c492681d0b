"""Who may use the gateway, by API key, and how much.

A key is 32 characters or more and made by a machine, so nobody can guess it, and a plain SHA-256 of it is safe to
store: slow, salted hashes (bcrypt, argon2) are for secrets that people make up, and would cost every call milliseconds. A
shorter key never matches, whatever the file says.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from starlette.requests import Request

from agentix.core.errors import ConfigError
from agentix.gateway.errors import HTTPError

MIN_SECRET_CHARS = 32
# It begins the ids of the tenant's programs where engines see them, and is a bare key in TOML: no slash, no dot.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
_SCOPE_KEY = "agentix.tenant"  # of the ASGI scope of a request whose key was good


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a tenant, or each of its programs, may use; None: as much as it likes.

    calls_per_minute    a bucket of so many, which refills evenly
    tokens_per_minute   of prompts (cached or not) and answers, in the same way
    concurrent_calls    in engines at a time; more are held
    service_s_per_hour  attained service, as the process table counts it, over the last hour
    soft                the share of a limit from which on calls go one level lower
    max_hold_s          a call that would be held for longer is refused
    """

    calls_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_calls: int | None = None
    service_s_per_hour: float | None = None
    soft: float = 0.8
    max_hold_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("calls_per_minute", "tokens_per_minute", "concurrent_calls"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
                raise ConfigError(f"{name} must be a whole number, 1 or more, not {value!r}")
        if self.service_s_per_hour is not None and not _is_number(self.service_s_per_hour):
            raise ConfigError(f"service_s_per_hour must be a number above 0, not {self.service_s_per_hour!r}")
        if not _is_number(self.soft) or self.soft > 1:
            raise ConfigError(f"soft must be above 0 and at most 1, not {self.soft!r}")
        if not _is_number(self.max_hold_s, or_zero=True):
            raise ConfigError(f"max_hold_s must be a number, 0 or more, not {self.max_hold_s!r}")

    @property
    def is_limited(self) -> bool:
        """Whether it limits anything."""
        return any(getattr(self, f.name) is not None for f in fields(self) if f.default is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Somebody with keys of their own.

    key_digests     SHA-256 of each key
    weight          its share of the engines beside other tenants, while they compete
    admin           sees and steers all programs and engines, and reads /metrics
    cache_group     tenants of the same group share prefix caches; "": it shares with nobody
    budget          for all of its calls together
    program_budget  for the calls of each of its programs
    """

    name: str
    key_digests: tuple[bytes, ...] = field(repr=False)
    weight: float = 1.0
    admin: bool = False
    cache_group: str = ""
    budget: Budget = field(default_factory=Budget)
    program_budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.cache_group:
            check_name(self.cache_group)
        if not self.key_digests:
            raise ConfigError(f"tenant {self.name!r} has no key: give keys_sha256 or key_env")
        if not _is_number(self.weight):
            raise ConfigError(f"tenant {self.name!r}: weight must be a number above 0, not {self.weight!r}")


class Tenants:
    """All tenants. None: the gateway is open to whoever reaches it, and everybody is the one tenant `""`.

    `salt_secret` makes the cache salts; gateways in front of the same engines must have the same one. None: one is made up,
    and after a restart nothing is found in the engines' prefix caches. Whoever has this object sees what `adopt` changes.
    """

    def __init__(self, tenants: tuple[Tenant, ...] = (), salt_secret: str | None = None) -> None:
        if salt_secret is not None and len(salt_secret) < MIN_SECRET_CHARS:
            raise ConfigError(f"the salt secret must have {MIN_SECRET_CHARS} characters or more")
        self._by_name = {t.name: t for t in tenants}
        self._keys = [(digest, t) for t in tenants for digest in t.key_digests]
        self._salt_secret = (salt_secret or secrets.token_hex(32)).encode()
        self._is_made_up = salt_secret is None
        if len(self._by_name) < len(tenants):
            raise ConfigError(f"tenants' names must differ: {', '.join(t.name for t in tenants)}")
        owners: dict[bytes, str] = {}
        for digest, tenant in self._keys:
            if owners.setdefault(digest, tenant.name) != tenant.name:
                raise ConfigError(f"tenants {owners[digest]!r} and {tenant.name!r} have the same key")

    def adopt(self, other: Tenants) -> None:
        """Have the tenants that `other` has, from now on; a salt secret that was made up stays, so that caches do too.

        Raises ConfigError, and changes nothing, if a gateway that asks for keys would be open, or the other way round.
        """
        if self.is_open != other.is_open:
            raise ConfigError("whether there are tenants at all is settled at the start")
        self._by_name, self._keys = other._by_name, other._keys
        if not other._is_made_up:
            self._salt_secret, self._is_made_up = other._salt_secret, False

    @property
    def all(self) -> tuple[Tenant, ...]:
        """Every tenant."""
        return tuple(self._by_name.values())

    @property
    def is_open(self) -> bool:
        """Whether nobody needs a key."""
        return not self._by_name

    def find(self, key: str) -> Tenant | None:
        """The tenant with this key; None for a wrong one. How long it takes tells nothing of the good ones."""
        presented, found = key_digest(key), None
        for digest, tenant in self._keys:
            if hmac.compare_digest(presented, digest):
                found = tenant
        return found if len(key) >= MIN_SECRET_CHARS else None

    def cache_salt(self, name: str, own: Any) -> str | None:
        """What a tenant's call has as vLLM's `cache_salt`; None: nothing. `own`: the one that it came with.

        Without it one tenant could find out by the time to the first token what another's prompts begin with. A client's own
        salt narrows it further. Raises HTTPError 400 if that is no text.
        """
        if not name:
            return None
        if own is not None and not (isinstance(own, str) and own):
            raise HTTPError(400, "cache_salt must be a string that is not empty", param="cache_salt")
        return self._digest(name) if own is None else self._digest(name, own)

    def media_id(self, name: str, own: Any) -> str:
        """A tenant's own name for an image or other media, as engines see it (vLLM's `uuid`): nobody else's stands for it."""
        return self._digest(name, "uuid", str(own))

    def _digest(self, name: str, *rest: str) -> str:
        """What stands for words of a tenant's, the same for all of its cache group; of one that is gone, its own."""
        tenant = self._by_name.get(name)
        scope = f"group\0{tenant.cache_group}" if tenant is not None and tenant.cache_group else f"tenant\0{name}"
        message = "\0".join([scope, *rest])
        return hmac.digest(self._salt_secret, message.encode("utf-8", "surrogatepass"), "sha256").hex()


def check_name(name: str) -> str:
    """The name of a tenant or of a cache group; raises ConfigError if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a tenant's name is 1 to 63 letters, digits, '_' and '-', not {name[:70]!r}")
    return name


def key_digest(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def presented_keys(headers: Mapping[str, str]) -> list[str]:
    """The keys that a request brings: `Authorization: Bearer`, as OpenAI's clients send it, and Anthropic's `x-api-key`."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    keys = [token.strip()] if scheme.lower() == "bearer" else []
    return [*keys, *(k for k in [headers.get("x-api-key", "").strip()] if k)]


def bind_tenant(scope: Mapping[str, Any], tenant: Tenant | None) -> dict[str, Any]:
    """The ASGI scope of a request that comes from this tenant (None: from nobody who has said so)."""
    return {**scope, _SCOPE_KEY: tenant}


def tenant_of(request: Request) -> str:
    """Whose request it is; `""`: the open tenant's."""
    tenant = request.scope.get(_SCOPE_KEY)
    return tenant.name if isinstance(tenant, Tenant) else ""


def is_admin(request: Request) -> bool:
    """Whether this request may see and steer what belongs to everybody: always, where nobody needs a key."""
    if _SCOPE_KEY not in request.scope:
        return True
    tenant = request.scope[_SCOPE_KEY]
    return isinstance(tenant, Tenant) and tenant.admin


def require_admin(request: Request) -> None:
    """Raise HTTPError 403 unless this request may."""
    if not is_admin(request):
        raise HTTPError(403, "this is for tenants with admin = true", "permission_error", code="not_an_admin")


def _is_number(value: object, *, or_zero: bool = False) -> bool:
    """Whether this is a finite number above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and (0 < value < math.inf or (or_zero and value == 0))
