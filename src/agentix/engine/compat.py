"""Is this vLLM one that the plug-in can live in? Read off its source, without importing it.

vLLM's scheduler is not a public interface, so everything of it that the plug-in stands on is listed in `hooks`, and what is
missing is named before the first request rather than found during one. An engine asks when it starts; so can anybody, of
any release and without a GPU: `python -m agentix.engine.compat DIRECTORY`, where a wheel of vLLM, or its source, is unpacked.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentix.core.errors import AgentixError
from agentix.engine.hooks import HOOKS, METRICS_HOOKS, Hook

TESTED_VLLM = ("0.32.0", "0.33.0")
"""0.32.0 on real engines; 0.33.0 by this check and the tests that need no model (docs/engine.md)."""


class IncompatibleEngine(AgentixError):
    """This vLLM lacks something the plug-in stands on."""


def check_source(package: Path, version: str) -> None:
    """Raise IncompatibleEngine, with all that is missing, unless the plug-in can live in the vLLM in this directory."""
    lacking = list(missing(package, HOOKS))
    if lacking:
        raise IncompatibleEngine(
            f"agentix: vLLM {version} is none that this plug-in can live in: {'; '.join(lacking)}. Tested with vLLM "
            f"{' and '.join(TESTED_VLLM)}: install one of these, or start the engine without --scheduler-cls."
        )


def missing(package: Path, hooks: Sequence[Hook]) -> Iterator[str]:
    """What the vLLM in this directory lacks, one by one, in words."""
    modules: dict[str, ast.Module | None] = {}
    for hook in hooks:
        if hook.file not in modules:
            modules[hook.file] = _parse(package / hook.file)
            if modules[hook.file] is None:
                yield f"no readable file {hook.file}"
        module = modules[hook.file]
        if module is not None:
            yield from _missing_of(hook, module)


def _parse(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def _missing_of(hook: Hook, module: ast.Module) -> Iterator[str]:
    place = f"{hook.file}: {hook.owner}".rstrip(": ")
    owner: ast.Module | ast.ClassDef | None = module
    if hook.owner:
        owner = next((n for n in module.body if isinstance(n, ast.ClassDef) and n.name == hook.owner), None)
    if owner is None:
        yield f"{hook.file} has no class {hook.owner}"
        return
    names = set(_names(owner))
    functions = {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}
    for name in hook.has:
        if name not in names:
            yield f"{place} has no {name}"
    for call in hook.takes:
        function = functions.get(call.partition("(")[0])
        if function is None:
            yield f"{place} has no method {call.partition('(')[0]}"
        elif not _accepts(function.args, call):
            yield f"{place}.{function.name} cannot be called as {call}"
    for signature in hook.overrides:
        function = functions.get(signature.partition("(")[0])
        if function is None:
            yield f"{place} has no method {signature.partition('(')[0]}"
        elif [arg.arg for arg in _parameters(function.args)] != re.findall(r"\w+", signature)[1:]:
            yield f"{place}.{function.name} has other parameters than {signature}"
    for name in functions if hook.only else ():
        if name != "__init__" and name not in hook.only:
            yield f"{place} has a method {name}, which the plug-in's own lacks"


def _names(owner: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Names bound in the body, and those that a class's methods set on `self`."""
    for node in owner.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
    if isinstance(owner, ast.ClassDef):
        for each in ast.walk(owner):
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self":
                yield each.attr


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Positional and keyword-only ones, without `self`."""
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]


def _accepts(arguments: ast.arguments, call: str) -> bool:
    """Whether a method of these parameters can be called in this way."""
    given = ast.parse(call, mode="eval").body
    assert isinstance(given, ast.Call)  # noqa: S101 - our own list
    positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)][1:]
    keywords = [keyword.arg for keyword in given.keywords]
    num_optional = len(arguments.defaults)
    required = positional[: len(positional) - num_optional]
    required += [arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    known = {arg.arg for arg in _parameters(arguments)}
    filled = {*positional[: len(given.args)], *keywords}
    return (
        (len(given.args) <= len(positional) or arguments.vararg is not None)
        and (arguments.kwarg is not None or known.issuperset(keywords))
        and filled.issuperset(required)
    )


def report(directory: Path) -> tuple[bool, str]:
    """Whether the plug-in can live in the vLLM that is unpacked there, and what it lacks, in lines."""
    package = directory / "vllm" if (directory / "vllm").is_dir() else directory
    lacking, unseen = list(missing(package, HOOKS)), list(missing(package, METRICS_HOOKS))
    lines = [f"vLLM {_version(package)} in {package}: the plug-in {'cannot' if lacking else 'can'} live in it"]
    lines += [f"  missing: {text}" for text in lacking]
    lines += [f"  missing for its metrics: {text}" for text in unseen]
    return not lacking, "\n".join(lines)


def _version(package: Path) -> str:
    try:
        said = (package / "_version.py").read_text(encoding="utf-8")
    except OSError:
        said = ""
    found = re.search(r"^__version__ = (?:version = )?'([^']+)'", said, re.MULTILINE)
    return found.group(1) if found else "of unknown version"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m agentix.engine.compat DIRECTORY, where a wheel of vLLM, or its source, is unpacked")
    fits, text = report(Path(sys.argv[1]))
    print(text)  # noqa: T201 - this is the program's answer
    sys.exit(not fits)
