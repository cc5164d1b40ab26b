"""The order in which resources can be created."""

from collections.abc import Mapping
from typing import Any

from infra.template.references import references_in_order

Resources = Mapping[str, Mapping[str, Any]]


class CircularDependency(Exception):
    """Resources refer to each other in a cycle."""


def in_dependency_order(resources: Resources) -> list[str]:
    """Each logical id after all that it refers to or depends on. Raises CircularDependency."""
    order: dict[str, None] = {}
    open_ids: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in open_ids:
            cycle = " → ".join([*open_ids[open_ids.index(name) :], name])
            raise CircularDependency(f"Circular dependency between resources: {cycle}")
        open_ids.append(name)
        depends_on = resources[name].get("DependsOn", [])
        depends_on = [depends_on] if isinstance(depends_on, str) else depends_on
        for other in [*depends_on, *references_in_order(resources[name].get("Properties", {}))]:
            if other in resources:
                visit(other)
        open_ids.pop()
        order[name] = None

    for name in sorted(resources):
        visit(name)
    return list(order)
