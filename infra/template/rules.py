"""Our own rules, which no linter has."""

from collections.abc import Mapping
from pathlib import Path

from infra.template import access, account, buckets, encryption, monitoring, queues, runtime
from infra.template.code_facts import read_code
from infra.template.evaluated import EvaluatedTemplate, evaluated_templates
from infra.template.findings import Finding, Rule, findings
from infra.template.translate import FUNCTION, Template, parse, translate_template

RULES: tuple[Rule, ...] = (
    *queues.RULES,
    *access.RULES,
    *account.RULES,
    *buckets.RULES,
    *encryption.RULES,
    *runtime.RULES,
    *monitoring.RULES,
)
TEMPLATE = "template.yaml"
RUNBOOK = "docs/runbook.md"


def check(root: Path) -> list[Finding]:
    """Findings in the shipped template."""
    return findings(RULES, shipped_templates(root))


def shipped_templates(root: Path) -> list[EvaluatedTemplate]:
    sam = parse((root / TEMPLATE).read_text())
    return evaluated_templates(
        translate_template(sam, placeholder_zip_uris(sam)), read_code(root), (root / RUNBOOK).read_text()
    )


def placeholder_zip_uris(sam: Template) -> Mapping[str, str]:
    """A URI for each function's zip, for checks that do not need the zips."""
    functions = (name for name, resource in sam["Resources"].items() if resource["Type"] == FUNCTION)
    return {name: f"s3://artifacts/{name}.zip" for name in functions}
