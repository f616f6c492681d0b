"""Session hash: a program's calls go to the engine that its id is hashed to, whatever is going on there."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from agentix.core.balancers.base import EngineView, LoadBalancer, Route, by_load
from agentix.core.program import ProgramRow


class SessionHash(LoadBalancer):
    """Engines by the hash of program and engine, highest first: rendezvous hashing.

    What routers do that keep no state (session affinity, consistent hashing). Programs stay where they are when an engine
    joins or goes, but for those of that engine. It knows nothing of load: a large program loads its engine alone. A
    call of no known program goes to the least used engine.

    Source: D. G. Thaler and C. V. Ravishankar, *Using Name-Based Mappings to Increase Hit Rates*, IEEE/ACM Transactions on
    Networking 6(1), 1998.
    """

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """By hash; never by load where the program is known."""
        if row is None:
            return Route(engine_ids=by_load(engines), reason="program unknown: least used")
        program_id = row.program_id

        def weight(engine_id: str) -> bytes:
            return blake2b(f"{program_id}\0{engine_id}".encode(errors="surrogatepass"), digest_size=8).digest()

        return Route(
            engine_ids=tuple(sorted((e.engine_id for e in engines), key=weight, reverse=True)), reason="hash of the program"
        )
