"""What is recorded of calls and programs. Every metric is a formula in the symbols defined here.

All times are seconds on one monotonic clock since the run began; None where the event did not happen.

| symbol | field                      | meaning                                                                     |
|--------|----------------------------|-----------------------------------------------------------------------------|
| a_p    | ProgramRecord.arrival_s    | program p is due to arrive (drawn from the arrival process)                 |
| r_c    | CallRecord.ready_s         | call c may start: roots at a_p, others when all parents + gaps have passed  |
| s_c    | CallRecord.sent_s          | its request is handed to the network                                        |
| f_c    | CallRecord.first_token_s   | the first piece of its answer arrives                                       |
| l_c    | CallRecord.last_token_s    | the last piece of its answer arrives                                        |
| e_c    | CallRecord.end_s           | its response is over, or has failed                                         |
| o_c    | CallRecord.output_tokens   | output tokens, as the server counts them                                    |
| i_c    | CallRecord.prompt_tokens   | prompt tokens, as the server counts them                                    |
| h_c    | CallRecord.cached_tokens   | those of them that were found in the prefix cache                           |
| t_c    | CallRecord.service_s       | time in steps of the model executor (the paper's service time of a call)    |
| x_c    | CallRecord.swap_s          | time that its KV was moved between device and host while it did not run     |
| n_c    | CallRecord.num_preemptions | times it left the running batch unfinished                                  |
| q_c    | CallRecord.longest_wait_s  | longest stretch between s_c and e_c in which it was in no running batch     |

The last four are the engine's knowledge: a simulation has them, a load generator in front of a server does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a call or a program ended."""

    OK = "ok"
    FAILED = "failed"  # HTTP error, broken stream, timeout; of a program: one of its calls
    CANCELLED = "cancelled"  # the run was interrupted while it was under way
    NOT_RUN = "not_run"  # never sent: a call before it failed, or the run was interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call as the client saw it, and what the engine tells of it."""

    program_id: str
    call_id: str
    thread_id: str
    parents: tuple[str, ...]
    status: Status
    max_tokens: int  # asked for: with `ignore_eos` the answer should be exactly that long
    trace_prompt_tokens: int  # by the trace's tokenizer
    ready_s: float | None = None
    sent_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    end_s: float | None = None
    prompt_tokens: int | None = None  # by the server
    cached_tokens: int | None = None  # part of prompt_tokens found in the prefix cache, if the server tells
    output_tokens: int | None = None  # by the server
    service_s: float | None = None  # this and the next three: by the engine, if it tells
    swap_s: float | None = None
    num_preemptions: int | None = None
    longest_wait_s: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecord:
    """One program and all its calls, run or not."""

    program_id: str  # unique per run
    trace_program_id: str
    workload: str
    arrival_s: float
    calls: tuple[CallRecord, ...]
    end_error: str | None = None  # why the server did not take the notice that the program is over

    @property
    def status(self) -> Status:
        """OK only if every call is; CANCELLED also if the run was interrupted between two calls."""
        found = {call.status for call in self.calls}
        if Status.FAILED in found:
            return Status.FAILED
        return found.pop() if len(found) == 1 else Status.CANCELLED
