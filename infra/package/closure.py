"""What a module imports, and what those import in turn: a bundle holds that and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import grimp

from infra.package.errors import PackageError

PROJECT = ("blizzard", "functions", "spark_job")


@dataclass(frozen=True, slots=True)
class Closure:
    modules: frozenset[str]
    """Of the project, by dotted name, with the packages around them, which an import runs too."""
    outside: frozenset[str]
    """Top-level names of everything else, the standard library included."""


def closure_of(module: str, packages: Sequence[str] = PROJECT) -> Closure:
    """Imports inside functions count; those for type checkers only do not. Raises PackageError: no such module."""
    graph = _graph(tuple(packages))
    reached: set[str] = set()
    missing = {module}
    while missing:
        if not missing <= graph.modules:
            raise PackageError(f"{module}: expected a module of {', '.join(packages)}, found none")
        reached |= missing.union(*(graph.find_upstream_modules(name) for name in missing))
        missing = {name.rpartition(".")[0] for name in reached} - reached - {""}
    own = {name for name in reached if name.partition(".")[0] in packages}
    return Closure(frozenset(own), frozenset(reached - own))


def chain(module: str, outside: str, packages: Sequence[str] = PROJECT) -> str:
    """How `module` comes to import `outside`, for messages."""
    return " → ".join(_graph(tuple(packages)).find_shortest_chain(module, outside) or (module, "…", outside))


def file_of(module: str) -> Path:
    """Its source. Raises PackageError when it has none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise PackageError(f"{module}: expected a Python file, found {spec.origin if spec else 'nothing'}")
    return Path(spec.origin)


def path_of(module: str) -> str:
    """Where it lies in an archive: `a/b.py`, or `a/b/__init__.py` for a package."""
    parts = module.replace(".", "/")
    return f"{parts}/__init__.py" if file_of(module).name == "__init__.py" else f"{parts}.py"


@cache
def _graph(packages: tuple[str, ...]) -> grimp.ImportGraph:
    first, *others = packages
    return grimp.build_graph(
        first, *others, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
