"""What a rule says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from infra.template.stack import Stack


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """`where` is a logical id or a parameter's name; `text` says what was expected and found, and what to do."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.rule}]"


Found = Iterable[tuple[str, str]]
"""Where, and what."""
Rule = Callable[[Stack], Found]


def findings(rules: Iterable[Rule], stacks: Iterable[Stack]) -> list[Finding]:
    """Of all rules on all stacks, each once."""
    known = list(rules)
    return sorted({Finding(rule.__name__, *found) for stack in stacks for rule in known for found in rule(stack)})
