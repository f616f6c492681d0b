"""Whose call is this? What clients say (`conventions`), what messages say (`turns`, `lineage`), and both (`sessions`).

And what kind of program is it (`classes`)?
"""

from __future__ import annotations

from agentix.gateway.identity.classes import named_class, work_out_class
from agentix.gateway.identity.conventions import check_id, read_claim
from agentix.gateway.identity.lineage import Lineage, Trail, make_trail
from agentix.gateway.identity.scoped import engine_session, is_anonymous, scoped, split_scoped
from agentix.gateway.identity.sessions import Identity, Sessions
from agentix.gateway.identity.turns import Turn, read_answers, read_prompt

__all__ = [
    "Identity",
    "Lineage",
    "Sessions",
    "Trail",
    "Turn",
    "check_id",
    "engine_session",
    "is_anonymous",
    "make_trail",
    "named_class",
    "read_answers",
    "read_claim",
    "read_prompt",
    "scoped",
    "split_scoped",
    "work_out_class",
]
