"""All rules of our own, which no linter has."""

from collections.abc import Mapping
from pathlib import Path

from infra.template import access, delivery, keeping, running, watching
from infra.template.code import read_code
from infra.template.findings import Finding, Rule, findings
from infra.template.stack import Stack, stacks
from infra.template.translate import FUNCTION, Template, parse, translated

RULES: tuple[Rule, ...] = (*delivery.RULES, *access.RULES, *keeping.RULES, *running.RULES, *watching.RULES)
TEMPLATE = "template.yaml"
RUNBOOK = "docs/runbook.md"


def check(root: Path) -> list[Finding]:
    """What is wrong with the project's own template."""
    return findings(RULES, shipped_stacks(root))


def shipped_stacks(root: Path) -> list[Stack]:
    sam = parse((root / TEMPLATE).read_text())
    return stacks(translated(sam, some_codes(sam)), read_code(root), (root / RUNBOOK).read_text())


def some_codes(sam: Template) -> Mapping[str, str]:
    """A place for the zip of each function, where nobody needs the zips themselves."""
    functions = (name for name, resource in sam["Resources"].items() if resource["Type"] == FUNCTION)
    return {name: f"s3://artifacts/{name}.zip" for name in functions}
