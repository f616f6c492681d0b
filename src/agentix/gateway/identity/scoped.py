"""Program ids, kept apart by tenant: two tenants may both have a program `a`, and neither can name the other's.

In the gateway (process table, memories) an id is the tenant's name, a character that no id may hold, and the id as its
client knows it. Without tenants it is the client's id alone. Engines see a form that may stand in a header.
"""

from __future__ import annotations

_SEPARATOR = "\x1f"  # "unit separator": not printable, so that no client's id has it (`is_id`)

ANONYMOUS = "anonymous-"  # the ids of programs that nobody has named begin with it


def scoped(tenant: str, program_id: str) -> str:
    """The id by which the gateway knows a tenant's program."""
    return f"{tenant}{_SEPARATOR}{program_id}" if tenant else program_id


def split_scoped(scoped_id: str) -> tuple[str, str]:
    """The inverse: the tenant, and the id as the client knows it."""
    tenant, _, program_id = scoped_id.rpartition(_SEPARATOR)
    return tenant, program_id


def is_anonymous(scoped_id: str) -> bool:
    """Whether it is a program that nobody has named, so that nobody can name it at another gateway either."""
    return split_scoped(scoped_id)[1].startswith(ANONYMOUS)


def engine_session(scoped_id: str) -> str:
    """The id as engines see it. No two programs share one: tenants' names have no slash, and all programs have one or none."""
    return scoped_id.replace(_SEPARATOR, "/", 1)
