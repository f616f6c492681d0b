"""Names for interchangeable parts: the built-in ones, and a user's own by dotted path."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Generic, TypeVar

from agentix.core.errors import ConfigError, unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps a name to the class (or factory) that makes a `T`.

    `resolve("plas")` gives a built-in; `resolve("my_module:MyPolicy")` imports a user's own, which needs no
    registration. An unknown name is a ConfigError that lists what exists; a name is registered once.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._factories: dict[str, Callable[..., T]] = {}

    def register(self, name: str, factory: Callable[..., T]) -> None:
        """Add a built-in. Raises ConfigError if the name is taken."""
        if name in self._factories:
            raise ConfigError(f"{self._kind} {name!r} is registered twice")
        self._factories[name] = factory

    @property
    def names(self) -> list[str]:
        """Registered names, sorted."""
        return sorted(self._factories)

    def resolve(self, name: str) -> Callable[..., T]:
        """The factory behind a name or a dotted path. Raises ConfigError."""
        if ":" in name:
            return self._imported(name)
        if name not in self._factories:
            raise unknown_name(self._kind, name, [*self._factories, "your_module:YourClass"])
        return self._factories[name]

    def _imported(self, path: str) -> Callable[..., T]:
        module_name, _, attribute = path.partition(":")
        try:
            factory: Callable[..., T] = getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise ConfigError(f"cannot load {self._kind} {path!r}: {error}") from error
        if not callable(factory):
            raise ConfigError(f"{self._kind} {path!r} is not a class or function")
        return factory
