"""The batch of a modelled engine: which of its calls run, chosen by the core, and with whose KV blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from agentix.core.events import Batch, CallPreempted, CallStarted, Event
from agentix.core.room import Room
from agentix.core.scheduler import Scheduler
from agentix.sim.call import SimCall
from agentix.sim.config import EngineConfig, EngineCounts
from agentix.sim.flight import Work
from agentix.sim.memory import Memory


class RunningBatch:
    """Carries out the core's choices of a batch on the KV blocks of `memory`, and gives its calls their tokens of a step.

    `calls` are those that run, by id, best first when they were chosen; `parked` those that were preempted and have KV on the
    device. `num_vacant` is how many places of finished calls may be taken before the next choice. `is_settled`: the last
    choice would come out the same, since nothing came, went or moved; whoever tells the core of such a thing sets it to
    False. `lacks_blocks`: at the last choice calls were left out for want of KV, not of slots.
    `all_calls` are the engine's; `tell` takes events to the core; `block_cost_s` is the time to compute a block again.
    """

    def __init__(
        self,
        config: EngineConfig,
        core: Scheduler,
        memory: Memory,
        counts: EngineCounts,
        all_calls: Mapping[str, SimCall],
        tell: Callable[[Event], None],
        *,
        block_cost_s: float,
    ) -> None:
        self.calls: dict[str, SimCall] = {}
        self.parked: dict[str, SimCall] = {}
        self.num_vacant = 0
        self.is_settled = False
        self.lacks_blocks = False
        self._num_spares = 0  # calls that may still take a finished one's place before the next choice
        self._config = config
        self._core = core
        self._memory = memory
        self._counts = counts
        self._all_calls = all_calls
        self._tell = tell
        self._block_cost_s = block_cost_s

    def drop(self, call_id: str) -> None:
        """The call is gone from the engine."""
        self.calls.pop(call_id, None)
        self.parked.pop(call_id, None)

    def finish(self, call_id: str) -> None:
        """A call of the batch has ended; a parked one may take its place if there are spare ones."""
        del self.calls[call_id]
        if self._num_spares:
            self._num_spares -= 1
            self.num_vacant += 1

    def choose(self, now: float) -> None:
        """Have the core choose a batch, and carry that out."""
        self._memory.let_go_for(self.calls)
        # A call that entered the batch stays until it has yielded a token: were it sent away before, it could come back
        # for ever and compute the same prompt each time.
        new = {c: call for c, call in self.calls.items() if not call.has_yielded}
        staying = self.calls if self._config.preemption == "none" else new
        batch, room = self._decide(staying, now)
        self.is_settled = True  # unless what follows moves somebody
        for call_id in batch.preempt:
            if call_id not in staying:
                self._preempt(self._all_calls[call_id], now)
        for call_id in room.victims:
            self._evict(self._all_calls[call_id])
        if self._config.preemption in ("swap", "recompute"):
            admitted = frozenset(batch.admit)
            leaving = sorted((c for c in self.parked if c not in admitted), key=self._core.key)
            for call_id in leaving[self._config.num_spare_calls :]:
                self._evict(self._all_calls[call_id])
        left_out = [call_id for call_id in batch.admit if not self._admit(self._all_calls[call_id], now)]
        if list(self.calls) != list(batch.run):
            self.calls = {c: self._all_calls[c] for c in batch.run} | staying
            for call_id in left_out:
                del self.calls[call_id]
        self._num_spares, self.num_vacant = self._config.num_spare_calls, 0
        self.lacks_blocks = room.is_short or bool(left_out) or self._core.holding.holds_any
        # The calls that were chosen stand first now, so they would be chosen again; unless others had to be left out for want
        # of blocks, which whoever enters may free or share, or run only because they had not yielded yet.
        is_final = not (room.is_short or left_out) and new.keys() <= set(batch.run)
        policy = self._core.policy
        self.is_settled &= (is_final or not (batch.admit or new)) and not policy.reranks
        if policy.holds_programs and batch.admit:
            self.is_settled = False  # whom it holds back may depend on who runs

    def _decide(self, staying: Mapping[str, SimCall], now: float) -> tuple[Batch, Room]:
        """What the core chooses, and what the choice takes; it cannot send those away that are staying.

        Where all that run stand first and there are blocks for their next tokens they all stay, and only of the calls that
        wait is it asked who fits beside them: the same choice for less.
        """
        self._core.rerank(now)
        self._core.hold_back(now)
        num_next = 0 if self._config.preemption == "none" else self._blocks_of_next_step()
        all_stay = self._run_first() and num_next <= self._memory.num_free_blocks
        holders = self.parked.keys() if all_stay else (self.calls.keys() - staying.keys()) | self.parked.keys()
        room = Room(
            self._memory,
            self._core,
            self._config.max_num_seqs,
            staying=self.calls.keys() if all_stay else staying.keys(),
            holders=holders,
            block_cost_s=self._block_cost_s,
            num_reserved_blocks=num_next if all_stay else 0,
        )
        batch = self._fill_up(room) if all_stay else self._core.choose(None, room)
        if room.has_refused:
            more = room.take_holders(holders - set(batch.run))
            batch = Batch(
                run=(*batch.run, *more),
                admit=(*batch.admit, *(c for c in more if c in self.parked)),
                preempt=tuple(c for c in batch.preempt if c not in more),
            )
        return batch, room

    def _run_first(self) -> bool:
        """Whether all that run stand before all that wait and might run."""
        worst, best = next(self._core.running_worst_first(), None), next(self._core.contenders(None), None)
        return worst is None or best is None or self._core.key(worst) < self._core.key(best)

    def _blocks_of_next_step(self) -> int:
        """Free blocks that the calls which run take for their next tokens."""
        growing = [c for c, call in self.calls.items() if call.prompt_tokens + call.num_output > call.num_room]
        return sum(map(self._memory.blocks_needed, growing))

    def _fill_up(self, room: Room) -> Batch:
        """All that run, and of those that wait as many as fit, best first."""
        rows = map(self._core.table.calls.__getitem__, self._core.contenders(None))
        admit = [row.call_id for row in takewhile(room.take, rows)]
        run = [*self._core.running_worst_first()][::-1] + admit
        return Batch(run=tuple(run), admit=tuple(admit), preempt=())

    def _admit(self, call: SimCall, now: float) -> bool:
        """Let it enter the batch with blocks for all its known tokens; False if they are too few."""
        # Blocks it counted on may be shared by a call that goes too; then it waits for the next choice.
        if not (self._memory.grow(call) if self._memory.holds(call) else self._memory.admit(call)):
            return False
        self.parked.pop(call.call_id, None)
        call.start(now)
        self._tell(CallStarted(now=now, call_id=call.call_id))
        return True

    def _preempt(self, call: SimCall, now: float) -> None:
        self._counts.num_preemptions += 1
        call.stop(now)
        self.parked[call.call_id] = call
        self._tell(CallPreempted(now=now, call_id=call.call_id))

    def _evict(self, call: SimCall) -> None:
        """The KV of a preempted call leaves the device."""
        self.parked.pop(call.call_id, None)
        self._memory.evict(call)

    def replace_finished(self, now: float) -> None:
        """Let preempted calls whose KV is on the device take the places of finished ones, best first."""
        for call_id in sorted(self.parked, key=self._core.key)[: self.num_vacant]:
            if self._admit(self._all_calls[call_id], now):
                self.calls[call_id] = self._all_calls[call_id]
                self.num_vacant -= 1

    def fill(self, now: float) -> Work:
        """Give every call of the batch its tokens of this step, best first, within the token budget."""
        budget = self._config.max_batch_tokens
        work = Work()
        calls, decodes, context_tokens, until_finish = work.calls, work.decodes, 0, work.until_finish
        for call in list(self.calls.values()):
            num_output = call.num_output
            num_known = call.prompt_tokens + num_output
            num_tokens = num_known - call.num_computed
            is_decode = num_tokens == 1 and num_output > 0
            if num_tokens > budget:
                if self._config.chunked_prefill:
                    num_tokens = budget
                elif calls:
                    continue
            if num_tokens <= 0:
                continue
            if num_known > call.num_room and not self._make_room(call, calls, now):
                continue
            calls.append(call)
            budget -= num_tokens
            if is_decode:
                decodes.append(call)
                context_tokens += num_known
            else:
                work.chunks.append((call, num_tokens))
            num_wanted = call.num_output_wanted - num_output
            if num_wanted < until_finish:  # noqa: PLR1730 - a call of `min` for each would be the most that is done here
                until_finish = num_wanted
        work.decode_context_tokens, work.until_finish = context_tokens, until_finish
        return work

    def _make_room(self, call: SimCall, served: Sequence[SimCall], now: float) -> bool:
        """Blocks for all its known tokens, taken from worse calls if need be; False if the call itself had to go, or has."""
        if call.call_id not in self.calls:
            return False
        while not self._memory.grow(call):
            if self._memory.let_go_of_first():
                continue
            victim = self._worst_holder(served)
            if self._core.table.call(victim.call_id).running:
                del self.calls[victim.call_id]
                self._preempt(victim, now)
            self._evict(victim)
            self.is_settled = False
            if victim is call:
                return False
        return True

    def _worst_holder(self, served: Sequence[SimCall]) -> SimCall:
        """The call that must give up its blocks first. One that has not yielded asks for none and is spared."""
        spared = {call.call_id for call in served} | {c for c, call in self.calls.items() if not call.has_yielded}
        holders = (c for c in (*self.calls, *self.parked) if c not in spared)
        return self._all_calls[max(holders, key=self._core.key)]
