"""A change of the shipped template that one of our rules must find."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from infra.template.evaluated import EvaluatedTemplate, evaluated_templates
from infra.template.findings import Rule
from infra.template.rules import shipped_templates

ROOT = Path(__file__).parents[2]
GONE = object()


@cache
def shipped() -> EvaluatedTemplate:
    return shipped_templates(ROOT)[0]


@dataclass(frozen=True)
class Broken:
    """A change of the shipped template, and where the rule must find it."""

    rule: Rule
    where: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """By path from the template's root, with `/`. GONE deletes."""
    runbook: Callable[[str], str] = str
    code: Callable[[Any], Any] = lambda code: code

    def evaluated_templates(self) -> list[EvaluatedTemplate]:
        with_conditions = deepcopy(shipped().with_conditions)
        for path, value in self.changes.items():
            change(with_conditions, path, value)
        return evaluated_templates(with_conditions, self.code(shipped().code), self.runbook(shipped().runbook))


def change(template: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split("/")
    place: Any = template
    for folder in folders:
        place = place[int(folder)] if isinstance(place, list) else place[folder]
    key: Any = int(last) if isinstance(place, list) else last
    if value is GONE:
        del place[key]
    elif isinstance(place, list) and key == len(place):
        place.append(value)
    else:
        place[key] = value


def at(logical_id: str, path: str = "") -> str:
    return f"Resources/{logical_id}/Properties/{path}"
