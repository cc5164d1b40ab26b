"""`python -m infra.package.requirements` updates the parts of requirements.lock for functions and container."""

from infra.package.build import ROOT
from infra.package.contents import container_requirements, function_requirements

FUNCTIONS = ROOT / "functions" / "requirements.txt"
CONTAINER = ROOT / "infra" / "container" / "requirements.txt"


def main() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    FUNCTIONS.write_text(function_requirements(ROOT, lock))
    CONTAINER.write_text(container_requirements(lock))


if __name__ == "__main__":
    main()
