"""What goes into each archive, and why what does not is left out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.package.closure import Closure, chain, closure_of, file_of, path_of
from infra.package.errors import PackageError
from infra.package.lock import Pinned, Target, distributions_of, pinned, read_lock, with_dependencies

LAMBDA_PYTHON, EMR_PYTHON = "3.13", "3.11"
EMR_RELEASE = "emr-spark-8.1.0"
"""The release that has this Python, and whose Spark and Delta the job is tested with."""
PROVIDED_BY_LAMBDA = frozenset({"boto3", "botocore"})
"""With all that it needs in turn: part of the Python runtime."""
PROVIDED_BY_EMR = frozenset({"pyspark", "py4j", "delta-spark", "pandas", "numpy"})
"""On the image of an EMR Serverless release. A second pyspark would break the first. The image's pyarrow is not used:
for which value a JSON text stands is the parser's promise, and it was tested with one version."""
NOT_IN_FUNCTIONS = {
    "obstore": "reads in bulk, for the job; a function reads single objects with boto3",
}
"""Imported by modules that the functions share with the job, inside functions that only the job calls."""
NOT_IMPORTED_BY_JOB = frozenset({"boto3"})
"""What packages import without naming it among what they need: obstore's `auth.boto3`."""
AWS_SERVICES_OF_JOB = frozenset({"s3", "sts", "sso", "sso-oidc"})
"""S3, and where credentials come from. The 400 other descriptions that botocore brings would be more than half of the
archive, which each worker of each run has to fetch and unpack."""
UNUSED_BY_JOB = re.compile(
    r"pyarrow/(?:tests|include|includes|src)/|pyarrow/(?:libarrow_|_)(?:flight|s3|s3fs)\b|pyarrow/.*\.(?:pyx|pxd|pxi)$"
)
"""Parts of pyarrow for other purposes: a third of it."""
FUNCTION_PACKAGES = frozenset({"aws-lambda-powertools"})
"""What a bundle may vendor, with all that it needs in turn. All else costs cold start: decide on it here."""


@dataclass(frozen=True, slots=True)
class Contents:
    modules: frozenset[str]
    packages: Sequence[Pinned]

    def files(self, wheels: Mapping[str, bytes]) -> dict[str, bytes]:
        """By path in the archive. `wheels`: what the packages hold."""
        kept = {path: data for path, data in wheels.items() if not _is_unused(path)}
        return {**kept, **{path_of(module): file_of(module).read_bytes() for module in self.modules}}


def functions_of(root: Path) -> list[str]:
    """Names of the folders with a handler."""
    return sorted(file.parent.name for file in root.glob("functions/*/handler.py"))


def of_function(name: str, lock: str) -> Contents:
    """Raises PackageError when it imports what a function's bundle does not hold."""
    handler = f"functions.{name}.handler"
    # Nothing but pure Python is asked for, so that any machine stands for all.
    target = Target(LAMBDA_PYTHON, "aarch64")
    closure = closure_of(handler)
    needed = distributions_of(closure.outside) - with_dependencies(PROVIDED_BY_LAMBDA, target)
    if unknown := needed - FUNCTION_PACKAGES - set(NOT_IN_FUNCTIONS):
        raise PackageError(_unexpected(handler, closure, unknown))
    wanted = with_dependencies(needed & FUNCTION_PACKAGES, target)
    return Contents(closure.modules, pinned(wanted, read_lock(lock, target)))


def of_job(lock: str, machine: str) -> Contents:
    target = Target(EMR_PYTHON, machine)
    closure = closure_of("spark_job.main")
    needed = distributions_of(closure.outside) - PROVIDED_BY_EMR | NOT_IMPORTED_BY_JOB
    wanted = with_dependencies(needed, target) - PROVIDED_BY_EMR
    return Contents(closure.modules, pinned(wanted, read_lock(lock, target)))


def requirements_of_functions(root: Path, lock: str) -> str:
    """The text of functions/requirements.txt: what their bundles vendor."""
    packages = {package.name: package for name in functions_of(root) for package in of_function(name, lock).packages}
    head = "# What the functions' bundles hold beside our own code, from requirements.lock. Written by `make lock`.\n"
    return head + "".join(f"{packages[name]}\n" for name in sorted(packages))


def _is_unused(path: str) -> bool:
    folder = re.match(r"botocore/data/([^/]+)/", path)
    return (folder is not None and folder[1] not in AWS_SERVICES_OF_JOB) or UNUSED_BY_JOB.match(path) is not None


def _unexpected(handler: str, closure: Closure, packages: set[str]) -> str:
    modules = sorted(name for name in closure.outside if distributions_of([name]) & packages)
    chains = "\n".join(f"  {chain(handler, module)}" for module in modules)
    return (
        f"{handler} imports {', '.join(sorted(packages))}, which no function's bundle holds. Import it elsewhere, or "
        f"add it to FUNCTION_PACKAGES in infra/package/contents.py:\n{chains}"
    )
