"""The findings of rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from infra.template.evaluated import EvaluatedTemplate


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """`where`: a logical id or a parameter's name. `text`: what was expected and found, and what to do."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.rule}]"


RuleFindings = Iterable[tuple[str, str]]
"""`where` and `text` of each finding."""
Rule = Callable[[EvaluatedTemplate], RuleFindings]


def findings(rules: Iterable[Rule], templates: Iterable[EvaluatedTemplate]) -> list[Finding]:
    """Sorted findings of all rules on all templates, without duplicates."""
    known = list(rules)
    return sorted({Finding(rule.__name__, *found) for stack in templates for rule in known for found in rule(stack)})
