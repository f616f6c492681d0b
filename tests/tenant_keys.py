"""Three tenants and their keys: acme, blue, and root, who is an admin."""

from __future__ import annotations

from agentix.gateway.tenants import Budget, Tenant, Tenants, key_digest

KEYS = {name: f"agx-{name}-" + "0123456789" * 4 for name in ("acme", "blue", "root")}
SECRET = "a secret of thirty-two characters"


def bearer(name: str, **more: str) -> dict[str, str]:
    """Headers with the tenant's key."""
    return {"Authorization": f"Bearer {KEYS[name]}", **more}


def tenants(**budgets: Budget) -> Tenants:
    """The three; `budgets` by name."""
    no_limits = Budget()
    found = [
        Tenant(name=n, key_digests=(key_digest(key),), admin=n == "root", budget=budgets.get(n, no_limits))
        for n, key in KEYS.items()
    ]
    return Tenants(tuple(found), SECRET)
