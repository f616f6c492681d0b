"""What a program's row says of its context, its recent tokens and its gaps."""

from __future__ import annotations

import pytest

from core_shell import Shell


def test_the_context_is_the_prompt_of_a_call_and_then_its_answer_too() -> None:
    shell = Shell()
    shell.arrive("a", prompt_tokens=100)
    assert shell.row().context_tokens == 100
    shell.finish("a", output_tokens=30)
    assert shell.row().context_tokens == 130
    shell.arrive("b", prompt_tokens=90)  # the agent has dropped part of its history
    assert shell.row().context_tokens == 90


def test_of_parallel_calls_the_largest_context_counts_until_the_program_is_idle() -> None:
    shell = Shell()
    for call_id, prompt_tokens in (("a", 100), ("b", 300), ("c", 200)):
        shell.arrive(call_id, prompt_tokens=prompt_tokens)
    assert shell.row().context_tokens == 300
    shell.finish("a", output_tokens=250)
    assert shell.row().context_tokens == 350
    shell.finish("b", output_tokens=10)
    shell.abort("c")
    assert shell.row().context_tokens == 350
    shell.arrive("d", prompt_tokens=40)
    assert shell.row().context_tokens == 40


def test_a_prompt_of_unknown_length_leaves_the_context_as_it_was() -> None:
    shell = Shell()
    shell.arrive("a", prompt_tokens=100)
    shell.finish("a")
    shell.arrive("b")
    assert shell.row().context_tokens == 100


def test_recent_tokens_count_answers_twice_and_halve_every_minute() -> None:
    """100 + 2 · 30 = 160; a minute later 80, and with 20 + 2 · 10 more 120; half a minute later 120 / √2."""
    shell = Shell()
    shell.arrive("a", prompt_tokens=100)
    assert shell.row().recent_tokens_at(shell.now) == 0
    shell.finish("a", output_tokens=30)
    assert shell.row().recent_tokens_at(shell.now) == 160
    shell.arrive("b", prompt_tokens=20)
    shell.wait(60.0)
    assert shell.row().recent_tokens_at(shell.now) == 80
    shell.finish("b", output_tokens=10)
    assert shell.row().recent_tokens_at(shell.now + 30) == pytest.approx(120 / 2**0.5)


def test_an_aborted_call_adds_no_tokens_and_the_older_ones_go_on_fading() -> None:
    shell = Shell()
    shell.arrive("a", prompt_tokens=160)
    shell.finish("a")
    shell.arrive("b", prompt_tokens=1000)
    shell.wait(60.0)
    shell.abort("b")
    shell.wait(60.0)
    assert shell.row().recent_tokens_at(shell.now) == 40


def test_a_gap_is_the_time_from_the_last_completion_to_the_next_arrival_of_an_idle_program() -> None:
    shell = Shell()
    shell.serve("a", 1.0)
    shell.wait(3.0)
    shell.arrive("b")
    assert (shell.row().gaps_s, shell.row().num_gaps) == (3.0, 1)
    shell.arrive("c")  # b is still active: no gap
    shell.finish("b")
    shell.arrive("d")
    shell.finish("c")
    shell.abort("d")
    shell.wait(0.5)
    shell.arrive("e")
    assert (shell.row().gaps_s, shell.row().num_gaps) == (3.5, 2)
