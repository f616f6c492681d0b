"""Whatever happens to gateways, their connections and the server: totals are the sum of what was told, each call once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from table_gateway import Gateway
from table_server import Server, table_server

PROGRAMS = ("p", "q")
DURATIONS_S = (0.25, 0.5, 1.0, 4.0)  # sums of them are exact


class SharedTable(RuleBasedStateMachine):
    """Gateways that come, serve, lose their connections and die, and a server that may forget everything.

    A gateway that dies takes with it what it has not told. One run has gateways that die or a server that forgets, not
    both: what both have lost is lost.
    """

    server: Server
    gateways = Bundle("gateways")
    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.alive: list[Gateway] = []
        self.served: dict[Gateway, dict[str, Counter[str]]] = {}  # by gateway and program: what it has seen
        self.told: dict[Gateway, dict[str, Counter[str]]] = {}  # and what of it is at the server
        with self.server.client as client:
            client.flushall()

    @initialize(forgets=st.booleans())
    def begin(self, forgets: bool) -> None:
        self.forgets = forgets

    @rule(target=gateways)
    def come(self) -> Any:
        if len(self.alive) >= 3:
            return multiple()
        gateway = Gateway(self.server.url, loop=self.loop)
        self.alive.append(gateway)
        self.served[gateway] = {p: Counter() for p in PROGRAMS}
        self.told[gateway] = {p: Counter() for p in PROGRAMS}
        return gateway

    @rule(target=calls, gateway=gateways, program_id=st.sampled_from(PROGRAMS))
    def arrive(self, gateway: Gateway, program_id: str) -> Any:
        return (gateway, gateway.arrive(program_id)) if gateway in self.alive else multiple()

    @rule(call=calls, service_s=st.sampled_from(DURATIONS_S), waiting_s=st.sampled_from(DURATIONS_S), aborted=st.booleans())
    def finish(self, call: tuple[Gateway, str], service_s: float, waiting_s: float, aborted: bool) -> None:
        gateway, call_id = call
        if gateway in self.alive and call_id in gateway.table.calls:
            program_id = gateway.table.call(call_id).program_id
            gateway.finish(call_id, service_s, waiting_s, aborted=aborted)
            figures = {"service": service_s, "waiting": waiting_s, "aborted" if aborted else "finished": 1}
            self.served[gateway][program_id].update(figures)

    @rule(gateway=gateways, most=st.sampled_from((1, 2, 1000)), sent=st.booleans(), answered=st.booleans())
    def exchange(self, gateway: Gateway, most: int, sent: bool, answered: bool) -> None:
        if gateway in self.alive:
            untold = list(gateway.ledger._untold)[:most]
            gateway.exchange(most=most, sent=sent, answered=answered)
            for program_id in untold if sent else ():
                self.told[gateway][program_id] = self.served[gateway][program_id].copy()

    @rule(gateway=gateways, program_id=st.sampled_from(PROGRAMS))
    def give_up(self, gateway: Gateway, program_id: str) -> None:
        row = gateway.table.rows.get(program_id)
        if gateway in self.alive and row is not None and not row.calls:
            gateway.give_up(program_id)

    @precondition(lambda self: not self.forgets)
    @rule(gateway=gateways)
    def die(self, gateway: Gateway) -> None:
        if gateway in self.alive:
            self.alive.remove(gateway)
            gateway.close()

    @precondition(lambda self: self.forgets)
    @rule()
    def forget(self) -> None:
        with self.server.client as client:
            client.flushall()

    @invariant()
    def nobody_has_more_than_was_served(self) -> None:
        for program_id in PROGRAMS:
            most = sum((of[program_id] for of in self.served.values()), Counter())
            for gateway in self.alive:
                service_s, waiting_s, num_finished, num_aborted = gateway.totals(program_id)
                assert service_s <= most["service"]
                assert waiting_s <= most["waiting"]
                assert num_finished <= most["finished"]
                assert num_aborted <= most["aborted"]

    def teardown(self) -> None:
        for _ in range(3):  # a server that has forgotten hears everything anew, and then everybody does
            for gateway in self.alive:
                gateway.catch_up()
        for program_id in PROGRAMS:
            known = [(self.served if gateway in self.alive else self.told)[gateway][program_id] for gateway in self.served]
            expected = sum(known, Counter())
            for gateway in self.alive:
                if program_id not in gateway.table.rows:  # given up; the next call brings it back
                    gateway.finish(gateway.arrive(program_id), 0.0)
                    expected["finished"] += 1
                    for each in (gateway, *self.alive):
                        each.catch_up()
            for gateway in self.alive:
                figures = tuple(expected[name] for name in ("service", "waiting", "finished", "aborted"))
                assert gateway.totals(program_id) == figures
        for gateway in self.alive:
            gateway.close()
        self.loop.close()


def test_any_interleaving_comes_to_the_sum() -> None:
    with table_server() as server:
        SharedTable.server = server
        run_state_machine_as_test(SharedTable, settings=settings(max_examples=30, stateful_step_count=40, deadline=None))
