"""The findings of rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from infra.template.stack import Stack


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
Rule = Callable[[Stack], RuleFindings]


def findings(rules: Iterable[Rule], stacks: Iterable[Stack]) -> list[Finding]:
    """Sorted findings of all rules on all stacks, without duplicates."""
    known = list(rules)
    return sorted({Finding(rule.__name__, *found) for stack in stacks for rule in known for found in rule(stack)})
