"""The code version of a module: a digest of its source and of everything of its own package that it imports."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

# Plain tables from names to classes: a name's meaning is in the digest of the class it stands for, and one more planner
# is no new simulator.
_TABLES = frozenset({"lightspec_bench.names"})


@functools.cache
def code_version(module: str) -> str:
    """SHA-256 over the source files of `module` and of what it imports from its own top-level package.

    Imports inside functions count, those of other packages do not: their versions are in a run's environment. Empty for
    a module without a source file.
    """
    found, waiting = {}, [module]
    while waiting:
        name = waiting.pop()
        if name in found or name in _TABLES:
            continue
        found[name] = source_digest(name)
        waiting += _imported(name)
    whole = sorted((name, digest) for name, digest in found.items() if digest)
    return hashlib.sha256(repr(whole).encode()).hexdigest() if found[module] else ""


@functools.cache
def source_digest(module: str) -> str:
    """SHA-256 of one module's source file, empty where it has none."""
    path = _source(module)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else ""


@functools.cache
def _source(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (Exception, SystemExit):  # a parent package of a third party may raise anything
        return None
    path = Path(spec.origin) if spec and spec.origin and spec.has_location else None
    return path if path and path.suffix == ".py" and path.is_file() else None


@functools.cache
def _imported(module: str) -> tuple[str, ...]:
    """Modules of the same top-level package that a module's source imports, and the packages it lies in."""
    path = _source(module)
    if path is None:
        return ()
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return ()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    top = module.partition(".")[0]
    names = {name for name in _names(tree, package) if name.partition(".")[0] == top}
    parents = {module.rsplit(".", up)[0] for up in range(1, module.count(".") + 1)}
    return tuple(sorted(name for name in names | parents if _source(name)))


def _names(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            origin = importlib.util.resolve_name(base, package) if node.level and package else base.lstrip(".")
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
