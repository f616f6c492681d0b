"""Chat, ReAct and tree search in equal thirds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from agentix.workload.generate.chat import Chat
from agentix.workload.generate.react import React
from agentix.workload.generate.tree import Tree
from agentix.workload.trace import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Programs of a few short calls beside programs of hundreds: the workload on which order matters most.

    Program 0 is a chat, 1 ReAct, 2 a tree search, and so on in turn, so that any three in a row hold one of each (the
    "Mixed" workload of the Agentix paper's evaluation has equal thirds too). Tree searches have over ten times as many
    calls as the others, so thirds of programs are not thirds of the work.
    """

    chat: Chat = field(default_factory=Chat)
    react: React = field(default_factory=React)
    tree: Tree = field(default_factory=Tree)

    def generate(self, rng: random.Random, *, index: int) -> Program:
        """A program of the kind whose turn it is."""
        kinds = (self.chat, self.react, self.tree)
        return kinds[index % 3].generate(rng, index=index // 3)
