"""The transitive imports of a module: a bundle contains exactly these."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import grimp

from infra.package.errors import PackageError

PROJECT = ("blizzard", "functions", "spark_job")


@dataclass(frozen=True, slots=True)
class Imports:
    modules: frozenset[str]
    """Of the project, by dotted name, with their parent packages, which an import runs too."""
    outside: frozenset[str]
    """Top-level names of all others, including the standard library."""


def imports_of(module: str, packages: Sequence[str] = PROJECT) -> Imports:
    """Includes imports inside functions, not those for type checkers. Raises PackageError for an unknown module."""
    graph = _graph(tuple(packages))
    reached: set[str] = set()
    missing = {module}
    while missing:
        if not missing <= graph.modules:
            raise PackageError(f"{module}: expected a module of {', '.join(packages)}, found none")
        reached |= missing.union(*(graph.find_upstream_modules(name) for name in missing))
        missing = {name.rpartition(".")[0] for name in reached} - reached - {""}
    own = {name for name in reached if name.partition(".")[0] in packages}
    return Imports(frozenset(own), frozenset(reached - own))


def import_chain(module: str, outside: str, packages: Sequence[str] = PROJECT) -> str:
    """The shortest chain of imports from `module` to `outside`, for error texts."""
    return " → ".join(_graph(tuple(packages)).find_shortest_chain(module, outside) or (module, "…", outside))


def source_file(module: str) -> Path:
    """The module's source file. Raises PackageError when it has none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise PackageError(f"{module}: expected a Python file, found {spec.origin if spec else 'nothing'}")
    return Path(spec.origin)


def archive_path(module: str) -> str:
    """The module's path in an archive: `a/b.py`, or `a/b/__init__.py` for a package."""
    parts = module.replace(".", "/")
    return f"{parts}/__init__.py" if source_file(module).name == "__init__.py" else f"{parts}.py"


@cache
def _graph(packages: tuple[str, ...]) -> grimp.ImportGraph:
    first, *others = packages
    return grimp.build_graph(
        first, *others, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
