"""What the parts of a template refer to, and the order that follows from it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

SUB_VARIABLE = re.compile(r"\$\{([^!}][^}]*)\}")
"""`${Name}` in a text of Fn::Sub; `${!Name}` is literal text."""

Resources = Mapping[str, Mapping[str, Any]]


class CircularDependency(Exception):
    """Resources refer to each other in a circle."""


def references(value: Any) -> Iterator[str]:
    """The logical ids and parameters that a part of a template refers to."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "Ref":
                yield str(item)
            elif name == "Fn::GetAtt":
                yield str(item[0] if isinstance(item, list) else item.partition(".")[0])
            elif name == "Fn::Sub":
                text = item[0] if isinstance(item, list) else item
                yield from (found.partition(".")[0] for found in SUB_VARIABLE.findall(text))
                yield from references(item[1]) if isinstance(item, list) else ()
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def in_dependency_order(resources: Resources) -> list[str]:
    """Each logical id after all that it refers to or depends on. Raises CircularDependency."""
    order: dict[str, None] = {}
    open_ids: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in open_ids:
            circle = " → ".join([*open_ids[open_ids.index(name) :], name])
            raise CircularDependency(f"Circular dependency between resources: {circle}")
        open_ids.append(name)
        depends_on = resources[name].get("DependsOn", [])
        depends_on = [depends_on] if isinstance(depends_on, str) else depends_on
        for other in [*depends_on, *references(resources[name].get("Properties", {}))]:
            if other in resources:
                visit(other)
        open_ids.pop()
        order[name] = None

    for name in sorted(resources):
        visit(name)
    return list(order)
