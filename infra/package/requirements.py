"""`python -m infra.package.requirements` updates functions/requirements.txt from requirements.lock."""

from infra.package.build import ROOT
from infra.package.contents import function_requirements

FILE = ROOT / "functions" / "requirements.txt"


def main() -> None:
    FILE.write_text(function_requirements(ROOT, (ROOT / "requirements.lock").read_text()))


if __name__ == "__main__":
    main()
