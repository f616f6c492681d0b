"""Power of two choices: nearly as even as the least used of all, from a look at two."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from agentix.core.balancers.base import EngineView, LoadBalancer, Route, by_load
from agentix.core.program import ProgramRow


class PowerOfTwo(LoadBalancer):
    """Of two engines that are drawn, the one with fewer calls in system; then the other, then the rest by load.

    A balancer has no state and no dice, so the draw is a hash of the program's id and the number of calls routed so far:
    even over engines, different for each call, the same in a replay. Gateways that see different engines draw differently.

    Source: M. Mitzenmacher, *The Power of Two Choices in Randomized Load Balancing*, IEEE TPDS 12(10), 2001.
    """

    def route(self, prompt_tokens: int | None, row: ProgramRow | None, engines: Sequence[EngineView]) -> Route:
        """The better of two, the worse of two, the others; a tie between the two keeps the order of `engines`."""
        if len(engines) == 1:
            return Route(engine_ids=by_load(engines))
        program_id, num_routed = row.program_id if row is not None else "", sum(e.num_routed for e in engines)
        draw = int.from_bytes(blake2b(f"{num_routed}/{program_id}".encode(), digest_size=8).digest())
        first, step = draw % len(engines), draw // len(engines) % (len(engines) - 1)
        pair = {first, (first + 1 + step) % len(engines)}
        drawn = [e for i, e in enumerate(engines) if i in pair]
        rest = [e for i, e in enumerate(engines) if i not in pair]
        return Route(engine_ids=by_load(drawn) + by_load(rest), reason="less used of two")
