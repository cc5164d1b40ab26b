"""`make check-stack`: all checks of the template, and checkov's of the container image.

Exit status 1 if one finds anything, 2 if a check could not run.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import SetupError
from infra.template.rules import RULES, TEMPLATE, check, placeholder_zip_uris
from infra.template.translate import REGION, TranslationError, parse, translate_template
from infra.tools.environments import Tools

EXIT_FOUND, EXIT_WRONG = 1, 2
CONTAINER = "Dockerfile"
QUIET = {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": REGION}
"""Keeps the tools off the network."""


def main() -> int:
    root = Path(__file__).parents[2]
    try:
        passed = [_own_rules(root), _lint(root), *_other_tools(root)]
    except (SetupError, TranslationError) as error:
        print(f"{TEMPLATE}: {error}", file=sys.stderr)
        return EXIT_WRONG
    return 0 if all(passed) else EXIT_FOUND


def _own_rules(root: Path) -> bool:
    found = check(root)
    for finding in found:
        print(f"{TEMPLATE}: {finding}")
    print(f"{TEMPLATE}: {len(found)} findings by {len(RULES)} rules of our own")
    return not found


def _lint(root: Path) -> bool:
    """Lint the SAM template and its translation: each shows mistakes that the other hides."""
    sam = parse((root / TEMPLATE).read_text())
    deployed = root / ".cache" / "template.json"
    deployed.parent.mkdir(exist_ok=True)
    deployed.write_text(json.dumps(translate_template(sam, placeholder_zip_uris(sam)), indent=1))
    cfn_lint = str(Path(sys.executable).with_name("cfn-lint"))
    return _passes("cfn-lint, also of what is deployed", [cfn_lint, "--", TEMPLATE, str(deployed)], root)


def _other_tools(root: Path) -> list[bool]:
    tools = Tools(root)
    checkov = [str(tools.program("checkov")), "--quiet", "--compact", "--skip-download", "--framework"]
    return [
        _passes("checkov", [*checkov, "cloudformation", "-f", TEMPLATE], root),
        _passes("checkov", [*checkov, "dockerfile", "-f", CONTAINER], root, of=CONTAINER),
        _passes("sam validate --lint", [str(tools.program("sam")), "validate", "--lint", "-t", TEMPLATE], root),
    ]


def _passes(what: str, command: Sequence[str], root: Path, *, of: str = TEMPLATE) -> bool:
    environment: Mapping[str, str] = {**variables(), **QUIET}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr)
    print(f"{of}: {what}: {'clean' if done.returncode == 0 else f'failed with status {done.returncode}'}")
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
