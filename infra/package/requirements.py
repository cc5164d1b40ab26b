"""`python -m infra.package.requirements` writes functions/requirements.txt anew from requirements.lock."""

from infra.package.build import ROOT
from infra.package.contents import requirements_of_functions

FILE = ROOT / "functions" / "requirements.txt"


def main() -> None:
    FILE.write_text(requirements_of_functions(ROOT, (ROOT / "requirements.lock").read_text()))


if __name__ == "__main__":
    main()
