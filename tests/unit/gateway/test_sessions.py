"""Program, thread and parents of a call, from what the client says and from the calls before it."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.gateway.apis import Dialect
from agentix.gateway.identity import Identity, Sessions, make_trail, read_answers, read_claim, read_prompt


class Client:
    """Sends calls with the headers and bodies of some harness; names them c0, c1, …"""

    def __init__(self, **limits: Any) -> None:
        self.sessions = Sessions(**limits)
        self.num_calls = 0

    def call(
        self, said: list[str] | str, answer: str, *, tenant: str = "", response_id: str | None = None, **claims: Any
    ) -> Identity:
        """One call; `said` alternates between user and assistant. `headers` and fields of the body in `claims`."""
        headers = {"x-agentix-call": f"c{self.num_calls}", **claims.pop("headers", {})}
        self.num_calls += 1
        said = [said] if isinstance(said, str) else said
        messages = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(said)]
        trail = make_trail(tenant, read_prompt(Dialect.CHAT, {"messages": messages}))
        identity = self.sessions.identify(read_claim(headers, claims), trail)
        self.sessions.arrived(identity, identity.call_id)
        answers = read_answers(Dialect.CHAT, {"choices": [{"message": {"content": answer}}]})
        self.sessions.answered(identity, identity.call_id, trail, answers, engine_id="e", response_id=response_id)
        return identity


def test_without_ids_the_messages_tell_program_thread_and_parent() -> None:
    client = Client()
    first = client.call("hi", "hello")
    assert (first.program_id, first.anonymous, first.parents) == ("anonymous-c0", True, None)
    second = client.call(["hi", "hello", "a"], "x")
    assert (second.program_id, second.anonymous) == ("anonymous-c0", False)
    assert (second.thread_id, second.parents) == ("", ("c0",))
    beside = client.call(["hi", "hello", "b"], "y")
    assert (beside.program_id, beside.thread_id, beside.parents) == ("anonymous-c0", "c2", ("c0",))


def test_what_the_client_says_goes_before_what_the_messages_say() -> None:
    client = Client()
    client.call("hi", "hello", user="p")
    moved = client.call(["hi", "hello", "a"], "x", user="q")
    assert (moved.program_id, moved.parents) == ("q", None)
    named = client.call(["hi", "hello", "a"], "x", user="p")
    assert (named.program_id, named.parents) == ("p", ("c0",))
    said = client.call(["hi", "hello", "a"], "x", user="p", headers={"x-agentix-parent": "", "x-agentix-thread": "t"})
    assert (said.parents, said.thread_id) == ((), "t")


def test_a_weak_id_gives_way_to_the_messages() -> None:
    client = Client()
    traces = [{"traceparent": f"00-{digit * 32}-b7ad6b7169203331-01"} for digit in "12"]
    first = client.call("hi", "hello", headers=traces[0])
    assert (first.program_id, first.anonymous) == ("1" * 32, True), "it may name this one request only"
    assert not client.call("side", "x", headers=traces[0]).anonymous
    assert client.call(["hi", "hello", "a"], "x", headers=traces[1]).program_id == "1" * 32
    assert client.call("other", "x", headers=traces[1]).program_id == "2" * 32


def test_claude_code_s_agents_are_threads_that_fork_and_join() -> None:
    client = Client()
    session = {"x-claude-code-session-id": "s"}
    agent_a = {**session, "x-claude-code-agent-id": "a"}
    agent_b = {**session, "x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"}
    client.call("build", "plan", headers=session)
    first_a = client.call("task a", "1", headers=agent_a)
    assert (first_a.program_id, first_a.thread_id, first_a.parents) == ("s", "a", ("c0",))
    assert client.call("task b", "2", headers=agent_b).parents == ("c1",)
    assert client.call(["task a", "1", "b said 2"], "3", headers=agent_a).parents == ("c1", "c2")
    assert client.call(["build", "plan", "a said 3"], "4", headers=session).parents == ("c0", "c3")


def test_opencode_s_child_sessions_belong_to_the_program_of_their_root() -> None:
    client = Client()
    client.call("build", "plan", headers={"x-session-id": "root"})
    child = client.call("task", "1", headers={"x-session-id": "child", "x-parent-session-id": "root"})
    assert (child.program_id, child.thread_id, child.parents) == ("root", "child", ("c0",))
    grandchild = client.call("part", "2", headers={"x-session-id": "grandchild", "x-parent-session-id": "child"})
    assert (grandchild.program_id, grandchild.thread_id, grandchild.parents) == ("root", "grandchild", ("c1",))
    silent = client.call(["task", "1", "more"], "3", headers={"x-session-id": "child"})
    assert (silent.program_id, silent.thread_id, silent.parents) == ("root", "child", ("c1", "c2"))
    stranger = client.call("task", "1", headers={"x-session-id": "child"}, tenant="other")
    assert (stranger.shown_id, stranger.thread_id) == ("child", "")
    assert stranger.program_id not in {"child", "root"}


def test_a_response_is_gone_on_from_by_its_id_within_a_tenant() -> None:
    client = Client()
    client.call("hi", "hello", response_id="resp_1")
    after = client.call("a", "x", previous_response_id="resp_1")
    assert (after.program_id, after.thread_id, after.parents) == ("anonymous-c0", "", ("c0",))
    beside = client.call("b", "x", previous_response_id="resp_1")
    assert (beside.program_id, beside.thread_id) == ("anonymous-c0", "c2")
    assert client.call("a", "x", previous_response_id="resp_1", tenant="other").anonymous
    assert client.sessions.engine_of("", "resp_1") == "e"
    assert client.sessions.engine_of("other", "resp_1") is None
    assert client.sessions.engine_of("", None) is None


def test_final_turns_are_told_and_ended_programs_forgotten() -> None:
    client = Client()
    assert client.call("hi", "hello", headers={"x-dynamo-session-final": "true"}).final
    client.sessions.ended("anonymous-c0")
    assert client.call(["hi", "hello", "a"], "x").anonymous


@pytest.mark.parametrize("count", [5, 50])
def test_memory_is_bounded(count: int) -> None:
    client = Client(max_remembered=3)
    for number in range(count):
        parent = {"x-session-id": f"child{number}", "x-parent-session-id": f"root{number}"}
        client.call(f"task {number}", "x", headers=parent, response_id=f"resp_{number}")
    sessions = client.sessions
    assert [len(m) for m in (sessions._parent_programs, sessions._responses, sessions._threads)] == [3, 3, 3]


def test_threads_of_a_program_are_bounded() -> None:
    client = Client()
    for number in range(300):
        client.call("x", "y", headers={"x-session-id": "s", "x-agentix-thread": f"t{number}"})
    assert len(client.sessions._threads.get("s") or ()) == 256
