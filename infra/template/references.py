"""The names that a part of a template refers to."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

SUB_VARIABLE = re.compile(r"\$\{([^!}][^}]*)\}")
"""`${Name}` in a text of Fn::Sub; `${!Name}` is literal text."""


def references(value: Any) -> set[str]:
    """Names in Ref, Fn::GetAtt and Fn::Sub: parameters, resources, pseudo parameters."""
    return set(references_in_order(value))


def references_in_order(value: Any) -> Iterator[str]:
    """As `references`, in order of appearance and with repetitions."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "Ref":
                yield str(item)
            elif name == "Fn::GetAtt":
                yield str(item[0] if isinstance(item, list) else item.partition(".")[0])
            elif name == "Fn::Sub":
                text, own = item if isinstance(item, list) else (item, {})
                yield from (found.partition(".")[0] for found in SUB_VARIABLE.findall(text) if found not in own)
                yield from references_in_order(list(own.values()))
            else:
                yield from references_in_order(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references_in_order(item)
