"""A program under way in a simulation, and the record of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from agentix.cost.step import Step, StepCostModel, causal_pairs
from agentix.metrics import CallRecord, ProgramRecord, Status
from agentix.sim.call import SimCall
from agentix.sim.content import Contents, Context
from agentix.workload import Call, Program, thread_ids
from agentix.workload.parts import CallParts, Parts, program_parts


@dataclass(slots=True)
class ProgramRun:
    """One program: what it consists of, and what has come of it. `sent` and `done` are by the trace's call ids."""

    program_id: str
    program: Program
    arrival_s: float
    threads: dict[str, str]
    children: dict[str, list[Call]]
    parts: dict[str, CallParts]
    ready_s: dict[str, float] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    sent: dict[str, SimCall] = field(default_factory=dict)
    done: dict[str, SimCall] = field(default_factory=dict)
    _last_parts: Parts = ()
    _last_contexts: list[Context] = field(default_factory=lambda: [Context()])  # of the first 0, 1, … of those parts

    @classmethod
    def plan(cls, index: int, program: Program, arrival_s: float) -> ProgramRun:
        """The run of a simulation's program number `index`."""
        children: dict[str, list[Call]] = {}
        for call in program.calls:
            for parent in dict.fromkeys(call.parents):
                children.setdefault(parent, []).append(call)
        program_id = f"{index}:{program.program_id}"
        return cls(program_id, program, arrival_s, thread_ids(program), children, program_parts(program))

    @property
    def is_over(self) -> bool:
        """Whether all its calls are."""
        return len(self.done) == len(self.program.calls)

    def send(self, call: Call, key: str, now: float, contents: Contents) -> SimCall:
        """The call as an engine sees it, under an id that is unique in the simulation."""
        sim_call = SimCall(
            call_id=key,
            program_id=self.program_id,
            prompt=self._prompt(self.parts[call.call_id].prompt, contents),
            answer=self.parts[call.call_id].answer[0],
            num_output_wanted=call.max_tokens,
            waiting_since_s=now,
        )
        self.sent[call.call_id] = sim_call
        return sim_call

    def _prompt(self, parts: Parts, contents: Contents) -> Context:
        """The prompt of these parts; as far as they are those of the call before, so are its contexts."""
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(parts, self._last_parts, strict=False))
        del self._last_contexts[1 + sum(1 for _ in alike) :]
        for name, num_tokens in parts[len(self._last_contexts) - 1 :]:
            self._last_contexts.append(contents.extend(self._last_contexts[-1], name, num_tokens))
        self._last_parts = parts
        return self._last_contexts[-1]

    def finish(self, call_id: str, now: float) -> list[tuple[Call, float]]:
        """A call is over; returns the calls that may start because of it, and when."""
        self.ended_s[call_id] = now
        self.done[call_id] = self.sent[call_id]
        return [
            (child, max(now, *(self.ended_s[p] + (self.program.call(p).tool_gap_s or 0.0) for p in child.parents)))
            for child in self.children.get(call_id, [])
            if all(p in self.ended_s for p in child.parents)
        ]

    def work_s(self, cost: StepCostModel) -> float:
        """Service it needs alone on an engine whose prefix cache holds nothing: what SRPT is told."""
        return sum(_work_s(call, cost) for call in self.program.calls)

    def record(self) -> ProgramRecord:
        """What became of it."""
        return ProgramRecord(
            program_id=self.program_id,
            trace_program_id=self.program.program_id,
            workload=self.program.workload,
            arrival_s=self.arrival_s,
            calls=tuple(self._call_record(call) for call in self.program.calls),
        )

    def _call_record(self, call: Call) -> CallRecord:
        done = self.done.get(call.call_id)
        ready_s, end_s = self.ready_s.get(call.call_id), self.ended_s.get(call.call_id)
        return CallRecord(
            program_id=self.program_id,
            call_id=call.call_id,
            thread_id=self.threads[call.call_id],
            parents=call.parents,
            status=Status.OK if done is not None else Status.NOT_RUN,
            max_tokens=call.max_tokens,
            trace_prompt_tokens=call.prompt_tokens,
            ready_s=ready_s,
            sent_s=ready_s,
            first_token_s=done.first_token_s if done is not None else None,
            last_token_s=end_s,
            end_s=end_s,
            prompt_tokens=done.prompt_tokens if done is not None else None,
            cached_tokens=done.cached_tokens if done is not None else None,
            output_tokens=done.num_output if done is not None else None,
            service_s=done.service_s if done is not None else None,
            swap_s=done.swap_s if done is not None else None,
            num_preemptions=done.num_preemptions if done is not None else None,
            longest_wait_s=done.longest_wait_s if done is not None else None,
        )


def _work_s(call: Call, cost: StepCostModel) -> float:
    n = call.prompt_tokens
    prefill = Step(prefill_tokens=n, prefill_pairs=causal_pairs(n))
    decode = Step(num_decodes=1, decode_context_tokens=n + call.output_tokens // 2)
    return cost.step_s(prefill) + max(0, call.output_tokens - 1) * cost.step_s(decode)
