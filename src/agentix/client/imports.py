"""Libraries are wrapped when the host imports them: nothing is imported for it that it does not use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class WhenImported(MetaPathFinder):
    """A finder that finds nothing itself; it calls `then` as soon as one of the modules `names` has been imported.

    It acts from `watch` until `forget`. What others find, and what their imports raise, stays as it is.
    """

    def __init__(self, names: Collection[str], then: Callable[[], object]) -> None:
        self._names = names
        self._then = then

    def watch(self) -> None:
        """Begin, in front of all other finders; once is enough."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Leave what is imported from now on alone."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What the other finders find."""
        if fullname not in self._names:
            return None
        for finder in tuple(sys.meta_path):
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    _call_after(spec.loader, self._then)
                return spec
        return None


def _call_after(loader: Loader, then: Callable[[], object]) -> None:
    """Have the loader call `then` once it has run the module. One that takes no attributes is left as it is."""
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        then()

    if hasattr(loader, "__dict__"):
        vars(loader)["exec_module"] = exec_module
