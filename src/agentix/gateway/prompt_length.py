"""How long is a prompt? Estimated from its text before an engine has counted it, and better the more engines have counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentix.gateway.identity.recent import Recent

_CHARS_PER_TOKEN = 4
_IMAGE_CHARS = 4000
_MODELS_KEPT = 256  # of each tenant
_MEDIA_FIELDS = frozenset({"url", "image_url", "video_url", "audio_url", "file_url", "file_data", "data"})
_FORGETTING = 0.99  # weight of what was learned before, after each further call
_MAX_FACTOR = 10.0
_LEAST_TAUGHT_BY = 256  # tokens by the rule: of shorter prompts too much is what a chat template puts around them


class PromptLength:
    """Estimates in tokens, by the rule of thumb of four characters each until a model's calls have shown better.

    What is learned is one factor for each model of a tenant's: tokens counted by engines over tokens estimated by the rule, the
    last hundred or so calls counting most. Short prompts teach nothing: "hi" in its chat template is ten times as long, and
    after it a prompt that fits would be taken for one that cannot. What one tenant sends changes no other's estimates.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Recent[str, tuple[float, float]]] = {}  # by tenant, then by model

    def estimate(self, model: Any, by_rule: int, *, tenant: str = "") -> int:
        """The likely number of tokens of a prompt that has `by_rule` by the rule of thumb."""
        seen = self._seen.get(tenant)
        counted, ruled = (seen and seen.get(str(model))) or (1.0, 1.0)
        return round(by_rule * min(_MAX_FACTOR, max(1 / _MAX_FACTOR, counted / ruled)))

    def learn(self, model: Any, by_rule: int, counted: int | None, *, tenant: str = "") -> None:
        """An engine has counted the tokens of a prompt."""
        if counted and by_rule >= _LEAST_TAUGHT_BY:
            seen = self._seen.setdefault(tenant, Recent(_MODELS_KEPT))
            before = seen.get(str(model)) or (0.0, 0.0)
            seen[str(model)] = before[0] * _FORGETTING + counted, before[1] * _FORGETTING + by_rule


def tokens_by_rule(body: Mapping[str, Any]) -> int:
    """Prompt length by the rule of thumb of four characters per token; good to about 30 % on English and code.

    Counts text wherever it stands in a prompt, whatever the API; a prompt given as token ids counts them, an image a thousand.
    That something is an image its place tells, not its text: everybody may begin a message with `data:`.
    """
    num_chars = 0
    rest = [body.get(key) for key in ("messages", "prompt", "input", "system", "instructions", "tools")]
    while rest:
        match rest.pop():
            case str() as text:
                num_chars += len(text)
            case int():
                num_chars += _CHARS_PER_TOKEN
            case dict() as fields:
                for name, value in fields.items():
                    if name in _MEDIA_FIELDS and _is_media(name, value, fields):
                        num_chars += _IMAGE_CHARS
                    else:
                        rest.append(value)
            case list() as items:
                rest.extend(items)
    return num_chars // _CHARS_PER_TOKEN


def _is_media(name: str, value: Any, fields: Mapping[str, Any]) -> bool:
    """Whether this one of _MEDIA_FIELDS holds an image, a recording or a document: as a `data:` URL, or in base64."""
    if not isinstance(value, str):
        return False
    return (fields.get("type") == "base64" or "format" in fields) if name == "data" else value.startswith("data:")
