"""Reads requirements.lock: versions and hashes of packages for a platform."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.package.errors import PackageError

_ENTRY = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\\n]+?))? \\\n"
    r"(?P<hashes>(?:    --hash=.*\n?)+)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class PinnedPackage:
    name: str
    version: str
    sha256s: tuple[str, ...]

    def __str__(self) -> str:
        """In the format of pip's requirements files."""
        return " \\\n".join([f"{self.name}=={self.version}", *(f"    --hash=sha256:{h}" for h in self.sha256s)])


@dataclass(frozen=True, slots=True)
class Target:
    """The platform of a bundle."""

    python: str
    """Such as 3.11."""
    machine: str
    """aarch64 or x86_64."""

    def environment(self) -> dict[str, str]:
        """The variables of environment markers."""
        return {
            "extra": "",
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def read_lock(text: str, target: Target) -> Mapping[str, PinnedPackage]:
    """The packages for `target`, by name."""
    environment = target.environment()
    found = {}
    for match in _ENTRY.finditer(text):
        if match["marker"] is None or Marker(match["marker"]).evaluate(environment):
            hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", match["hashes"]))
            found[match["name"]] = PinnedPackage(match["name"], match["version"], hashes)
    return found


def distributions_of(modules: Iterable[str]) -> set[str]:
    """The packages that contain these top-level modules. The standard library's belong to none."""
    owners = _owners()
    return {str(canonicalize_name(owner)) for module in modules for owner in owners.get(module, ())}


@cache
def _owners() -> Mapping[str, Sequence[str]]:
    return metadata.packages_distributions()


def with_dependencies(names: Iterable[str], target: Target) -> set[str]:
    """Adds dependencies transitively, as the installed packages declare them, without extras."""
    reached: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        reached.add(name)
        todo |= required_names(metadata.requires(name) or (), target) - reached
    return reached


def required_names(requirements: Iterable[str], target: Target) -> set[str]:
    """The packages that a package's metadata requires on `target`, without extras."""
    wanted = map(Requirement, requirements)
    environment = target.environment()
    return {str(canonicalize_name(w.name)) for w in wanted if w.marker is None or w.marker.evaluate(environment)}


def pinned_packages(names: Iterable[str], lock: Mapping[str, PinnedPackage]) -> Sequence[PinnedPackage]:
    """Sorted by name. Raises PackageError with all names that the lock lacks."""
    wanted = sorted(names)
    if missing := [name for name in wanted if name not in lock]:
        raise PackageError(f"requirements.lock has no {', '.join(missing)}: update it with `make lock`")
    return [lock[name] for name in wanted]
