"""The graph of a program by itself: what is cut, what is kept, and how what ends out of order still joins."""

from __future__ import annotations

from agentix.client.dag import MAX_PARENTS, Dag


def test_so_many_parents_that_no_server_would_take_them_are_cut_to_the_latest() -> None:
    dag = Dag()
    for _ in range(MAX_PARENTS + 2):
        fork = dag.fork(dag.first)
        dag.finish(fork, dag.begin(fork))
        fork.is_over = bool  # over only when all have been forked, so that none goes on from another
    for child in dag.first.children:
        child.is_over = lambda: True
    call = dag.begin(dag.first)
    assert call.parents == tuple(str(n) for n in range(3, MAX_PARENTS + 3))
    dag.finish(dag.first, call)
    assert dag.begin(dag.first).parents == ("1", "2", call.call_id)  # the others come later: nothing is lost


def test_what_is_over_is_not_kept() -> None:
    dag = Dag()
    for _ in range(3):
        quiet, busy = dag.fork(dag.first), dag.fork(dag.first)
        dag.finish(busy, dag.begin(busy))
        quiet.is_over = busy.is_over = lambda: True
        assert dag.first.children == [busy]
    dag.begin(dag.first)
    assert dag.first.children == []


def test_a_fork_that_ends_before_its_own_forks_have_called_neither_loses_them_nor_what_it_began_with() -> None:
    dag = Dag()
    dag.finish(dag.first, dag.begin(dag.first))
    middle = dag.fork(dag.first)
    early, late = dag.fork(middle), dag.fork(middle)
    dag.finish(early, dag.begin(early))
    middle.is_over = lambda: True
    assert dag.begin(dag.first).parents == ("1",)  # `early` still runs: nothing has come after the first call yet
    dag.finish(late, dag.begin(late))  # its first call, after the one between has joined
    early.is_over = late.is_over = lambda: True
    assert dag.begin(dag.first).parents == ("2", "4")


def test_what_any_of_those_who_are_over_has_come_after_is_replaced_and_what_each_ended_with_is_gained_once() -> None:
    """Two began with a and b: one comes after a alone, one fails. A third began later, and came after c."""
    dag = Dag()
    first = dag.first
    first.frontier = ("a", "b")
    beside, failed = dag.fork(first), dag.fork(first)
    first.frontier = ("a", "b", "c")
    later = dag.fork(first)
    for strand in (beside, failed, later):
        dag.begin(strand)
    beside.frontier, failed.frontier, later.frontier = ("b", "x"), ("a", "b"), ("a", "b", "y", "x")
    for strand in (beside, failed, later):
        strand.is_over = lambda: True
    assert dag.begin(first).parents == ("b", "x", "y")
