"""Everything that can happen to an engine that parks, one thing at a time, with the rules checked after each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.without_model.runner import answer
from benchmarks.without_model.scheduler import Engine, PauseState
from parking_rules import Watched, check_work_conserving, validate

ACTIONS = ("arrive", "arrive", "arrive", "step", "step", "step", "step", "abort", "hold", "freeze", "go", "forget", "reset")
SESSIONS = ("arrive", "arrive", "session", "piece", "piece", "close", "step", "step", "step", "step", "step")

Piece = tuple[list[int], int]  # tokens of the client, and how many the answer may have


def conversation(pieces: Sequence[Piece]) -> list[int]:
    """All answers of a streaming-input session; vLLM drops the last token of one before the next piece."""
    context: list[int] = []
    answers: list[int] = []
    for prompt, max_tokens in pieces:
        context += prompt
        said = answer(context, max_tokens)
        answers += said
        context += said[:-1]
    return answers


class Load:
    """Requests as they come to an engine, and what each must be answered."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.pieces: dict[str, list[Piece]] = {}
        self.open: list[str] = []  # sessions
        self.num_gone = 0  # calls that ended, or sessions whose answer did, while they were parked

    @classmethod
    def on(cls, agentix: dict[str, Any], options: dict[str, Any]) -> Load:
        """A load for an engine of `engines()` in the tests: `spare_states` is None for the V1 model runner."""
        options = dict(options)
        spare = options.pop("spare_states")
        num_states = None if spare is None else options["num_slots"] + spare
        return cls(Engine(agentix, **options, num_states=num_states, max_model_len=32, scheduler_cls=Watched))

    def arrive(self, pick: int, *, resumable: bool = False) -> str:
        """Prompts share beginnings; answers take up to 20 tokens; five programs and some calls of none."""
        piece = ([pick % 3] * (pick % 11) + [1 + pick % 7], 1 + pick % (4 if resumable else 20))
        request_id = f"r{len(self.pieces)}"
        self.engine.add(request_id, *piece, (None, "p", "q", "s", "t")[pick % 5], resumable=resumable)
        self.pieces[request_id] = [piece]
        return request_id

    def act(self, action: str, pick: int) -> None:
        """One thing that happens, if it is possible now."""
        scheduler, before = self.engine.scheduler, set(self._parked)
        live = list(scheduler.requests)
        match action:
            case "arrive":
                self.arrive(pick)
            case "session":
                self.open.append(self.arrive(pick, resumable=True))
            case "piece" if self.open:
                self._add_piece(self.open[pick % len(self.open)], pick)
            case "close" if self.open:
                self._close(self.open.pop(pick % len(self.open)))
            case "step":
                self.step()
                return
            case "abort" if live:
                self.engine.abort(live[pick % len(live)])
            case "hold":
                scheduler.set_pause_state(PauseState.PAUSED_NEW)
            case "freeze":
                scheduler.set_pause_state(PauseState.PAUSED_ALL)
            case "go":
                scheduler.set_pause_state(PauseState.UNPAUSED)
            case "forget":
                scheduler.reset_prefix_cache()
            case "reset" if pick % 3 == 0:
                assert scheduler.reset_prefix_cache(reset_running_requests=True)
                before.clear()  # they have lost their blocks, which is counted
        self.num_gone += len(before - self._parked.keys())
        validate(self.engine)

    def step(self) -> None:
        """One turn of the engine's loop; rules are checked between its two halves."""
        engine, scheduler, num_preempted = self.engine, self.engine.scheduler, self.engine.scheduler.num_preempted
        output = engine.schedule() if scheduler.has_requests() else None
        if output is not None:
            validate(engine)
            if scheduler.pause_state == PauseState.UNPAUSED:
                check_work_conserving(engine, output, num_preempted)
        if output is None or engine.is_deep_enough(output):
            before = set(self._parked)
            engine.take_in()
            self.num_gone += len(before - self._parked.keys())
            validate(engine)

    def finish(self) -> None:
        """To the end; then every call must have ended in one way, with its own tokens, and nothing be left behind."""
        engine, scheduler = self.engine, self.engine.scheduler
        scheduler.set_pause_state(PauseState.UNPAUSED)
        while self.open:
            self.act("close", 0)
        for _ in range(3000):
            if not scheduler.has_requests() and not engine.in_flight:
                break
            self.step()
        assert not scheduler.requests, f"never finished: {list(scheduler.requests)}"
        for request_id, pieces in self.pieces.items():
            self._check_answer(request_id, pieces)
        counts = scheduler._parking.counts
        assert counts.num_parks == counts.num_resumes + counts.num_evictions + self.num_gone
        pool = scheduler.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == len(pool.blocks) - 1

    def _check_answer(self, request_id: str, pieces: Sequence[Piece]) -> None:
        endings, answered = self.engine.endings[request_id], self.engine.answers[request_id]
        expected = conversation(pieces)
        if "abort" in endings:
            assert endings.count("abort") == 1
            assert answered == expected[: len(answered)], request_id
        else:
            assert len(endings) == len(pieces), (request_id, endings)
            assert answered == expected, request_id

    def _add_piece(self, request_id: str, pick: int) -> None:
        num_tokens = sum(len(tokens) + max_tokens for tokens, max_tokens in self.pieces[request_id])
        if num_tokens < 24:
            piece = ([2 + pick % 5], 1 + pick % 4)
            self.engine.add(request_id, *piece, resumable=True)
            self.pieces[request_id].append(piece)

    def _close(self, request_id: str) -> None:
        """The client says that no more pieces come; one that waits for its next is over at once."""
        if request_id in self.engine.scheduler.requests:
            self.engine.add(request_id, [1], 1)

    @property
    def _parked(self) -> dict[str, Any]:
        parked: dict[str, Any] = self.engine.scheduler._parking.parked
        return parked
