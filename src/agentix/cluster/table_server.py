"""The server that holds the shared table: Redis's protocol, one script, one round trip for each exchange."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from agentix.cluster.table_ledger import KEPT_OVER_S
from agentix.cluster.table_program import Told
from agentix.cluster.table_record import News
from agentix.core.errors import AgentixError, ConfigError

SCHEMES = ("redis", "rediss", "unix")
_PREFIX = "agentix:1:"  # with the version of what is kept: gateways that would not understand each other do not meet
_KEYS = (f"{_PREFIX}changes", f"{_PREFIX}table", f"{_PREFIX}gateways")
_TOTALS_KEY = f"{_PREFIX}totals"
_TOTALS_KEPT_S = 30 * 24 * 3600
_TIMEOUT_S = 2.0


class TableServerError(AgentixError):
    """The server could not be reached, or did not do what it was asked; whether it did it is not known."""


class TableServer:
    """A connection, opened when it is needed and again after every fault.

    Args:
        url: `redis://host:6379/0`, `rediss://` with TLS, or `unix:///path`. Raises ConfigError for anything else.
        keep_s: how long a program is kept after its last change.
        silent_s: how long a gateway may be silent before its calls count as over.
    """

    def __init__(self, url: str, *, keep_s: float, silent_s: float) -> None:
        self._client = _connect(url)
        self._script = self._client.register_script(files("agentix.cluster").joinpath("table.lua").read_text("utf-8"))
        self._limits = tuple(str(int(1000 * limit_s)) for limit_s in (keep_s, KEPT_OVER_S, silent_s))

    async def exchange(
        self, gateway: str, loads: Mapping[str, int] | None, told: Sequence[Told], *, since: int, most: int
    ) -> News:
        """Tell what there is to tell, and hear of at most `most` programs that have changed after the change `since`.

        `loads`: calls in engines by the engine's address; None: the gateway leaves. Raises TableServerError.
        """
        said = "" if loads is None else _dump(loads)
        args = (f"{_PREFIX}program:", gateway, said, str(since), str(most), *self._limits, _dump([_item(t) for t in told]))
        try:
            answer = await self._script(keys=_KEYS, args=args)
            return News.from_json(json.loads(answer))
        except (_errors(), OSError, TimeoutError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TableServerError(f"{type(error).__name__}: {error}") from error

    async def totals(self) -> str:
        """What gateways have learnt of programs that are over, as one of them wrote it last; "": nothing."""
        try:
            text = await self._client.get(_TOTALS_KEY)
            return (text or b"").decode("utf-8", "replace")
        except (_errors(), OSError, TimeoutError) as error:
            raise TableServerError(f"{type(error).__name__}: {error}") from error

    async def keep_totals(self, text: str) -> None:
        """Have the next gateway that asks read this."""
        try:
            await self._client.set(_TOTALS_KEY, text, ex=_TOTALS_KEPT_S)
        except (_errors(), OSError, TimeoutError) as error:
            raise TableServerError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()


def _item(told: Told) -> list[Any]:
    """The server keeps every value as the JSON that it gets, and reads no number but versions and lives."""
    program_id, life, account, numbers, common = told
    in_json = f"[{','.join(map(repr, numbers))}]"  # a third of the time that json takes
    return [program_id, life, account, in_json, [[name, v, _dump([v, value])] for name, v, value in common]]


_dump = json.JSONEncoder(separators=(",", ":")).encode


def _errors() -> type[Exception]:
    from redis.exceptions import RedisError  # noqa: PLC0415 - an extra of its own

    return RedisError


def _connect(url: str) -> Any:
    try:
        from redis.asyncio import Redis  # noqa: PLC0415 - an extra of its own
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
    except ImportError:
        raise ConfigError("a shared table needs a client for Redis's protocol; run: pip install 'agentix[cluster]'") from None
    if url.partition("://")[0] not in SCHEMES:
        raise ConfigError(f"a shared table is at redis://, rediss:// or unix://, not at {url.partition('://')[0]}://")
    try:
        # No retries: an exchange that failed is not sent again as it was.
        return Redis.from_url(
            url,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            client_name="agentix",
        )
    except ValueError:  # whose message may quote a part of the password
        raise ConfigError(
            "the address of the shared table must be redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], with special characters "
            "of the password percent-encoded"
        ) from None
