"""The contents of each archive, and the reason for each omission."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blizzard.config.spark_settings import EMR_PYTHON
from infra.package.errors import PackageError
from infra.package.imports import Imports, archive_path, import_chain, imports_of, source_file
from infra.package.lock import PinnedPackage, Target, distributions_of, pinned_packages, read_lock, with_dependencies

LAMBDA_PYTHON = "3.13"
CONTAINER_PYTHON = "3.13"
"""Of the base image in the Dockerfile."""
PROJECT_NAME = "blizzard"
CONTAINER_EXTRAS = frozenset({"confluent-kafka", "aws-msk-iam-sasl-signer-python"})
"""What the wheel installs only with an extra. The image, to which nobody adds packages, has all of it."""
EMR_RELEASE = "emr-spark-8.1.0"
"""The release with this Python, and with the Spark and Delta that the job is tested with."""
PROVIDED_BY_LAMBDA = frozenset({"boto3", "botocore"})
"""Part of the Python runtime, with their dependencies."""
PROVIDED_BY_EMR = frozenset({"pyspark", "py4j", "delta-spark", "pandas", "numpy"})
"""On the image of an EMR Serverless release. A second pyspark would break the first. The image's pyarrow is not used:
the values that the parser returns are tested with one version."""
NOT_IN_FUNCTIONS = {
    "obstore": "reads in bulk, for the job; a function reads single objects with boto3",
}
"""Imported by modules that functions share with the job, but only inside Python functions that the job calls."""
NOT_ON_EMR = {
    "deltalake": "only the local engine imports it, which does not run there; it would more than double the archive",
}
"""Imported by the job, but not on EMR Serverless. An archive for clusters has it."""
IMPORTED_BY_DEPENDENCIES = frozenset({"boto3"})
"""Imported by a dependency that does not declare it: obstore's `auth.boto3`."""
AWS_SERVICES_OF_JOB = frozenset({"s3", "sts", "sso", "sso-oidc", "secretsmanager"})
"""S3, sources of credentials, and logins of Kafka's brokers. botocore's 400 other service models would be more than
half of the archive, which each worker of each run fetches and unpacks."""
UNUSED_BY_JOB = re.compile(
    r"pyarrow/(?:tests|include|includes|src)/|pyarrow/(?:libarrow_|_)(?:flight|s3|s3fs)\b|pyarrow/.*\.(?:pyx|pxd|pxi)$"
)
"""Parts of pyarrow that the job does not use: a third of it."""
FUNCTION_PACKAGES = frozenset({"aws-lambda-powertools"})
"""What a bundle may vendor, with dependencies. Each package slows cold starts, so add one deliberately."""


@dataclass(frozen=True, slots=True)
class Contents:
    modules: frozenset[str]
    packages: Sequence[PinnedPackage]

    def files(self, wheels: Mapping[str, bytes]) -> dict[str, bytes]:
        """By path in the archive. `wheels`: the unpacked content of the packages, by path."""
        kept = {path: data for path, data in wheels.items() if not _is_unused(path)}
        return {**kept, **{archive_path(module): source_file(module).read_bytes() for module in self.modules}}


def function_names(root: Path) -> list[str]:
    """The names of folders with a handler."""
    return sorted(file.parent.name for file in root.glob("functions/*/handler.py"))


def function_contents(name: str, lock: str) -> Contents:
    """Raises PackageError when the function imports a package that bundles may not contain."""
    handler = f"functions.{name}.handler"
    # Only pure Python packages are vendored, so one machine stands for all.
    target = Target(LAMBDA_PYTHON, "aarch64")
    imports = imports_of(handler)
    needed = distributions_of(imports.outside) - with_dependencies(PROVIDED_BY_LAMBDA, target)
    if unknown := needed - FUNCTION_PACKAGES - set(NOT_IN_FUNCTIONS):
        raise PackageError(_unexpected(handler, imports, unknown))
    wanted = with_dependencies(needed & FUNCTION_PACKAGES, target)
    return Contents(imports.modules, pinned_packages(wanted, read_lock(lock, target)))


def job_contents(lock: str, machine: str, python: str = EMR_PYTHON, *, without: Collection[str] = ()) -> Contents:
    """`without`: packages that the job imports and does not need where it is to run."""
    target = Target(python, machine)
    imports = imports_of("spark_job.submit")
    needed = distributions_of(imports.outside) - PROVIDED_BY_EMR - {*without} | IMPORTED_BY_DEPENDENCIES
    wanted = with_dependencies(needed, target) - PROVIDED_BY_EMR
    return Contents(imports.modules, pinned_packages(wanted, read_lock(lock, target)))


def function_requirements(root: Path, lock: str) -> str:
    """The text of functions/requirements.txt: the packages that bundles vendor."""
    packages = {
        package.name: package for name in function_names(root) for package in function_contents(name, lock).packages
    }
    head = "# The packages that the functions' bundles contain, from requirements.lock. Written by `make lock`.\n"
    return head + "".join(f"{packages[name]}\n" for name in sorted(packages))


def container_requirements(lock: str) -> str:
    """The text of infra/container/requirements.txt: what the wheel and its extras need, and what builds pyspark, for
    both of the machines that images are made for."""
    packages: dict[str, PinnedPackage] = {}
    for machine in ("aarch64", "x86_64"):
        target = Target(CONTAINER_PYTHON, machine)
        names = with_dependencies({PROJECT_NAME, *CONTAINER_EXTRAS}, target) - {PROJECT_NAME} | {"setuptools"}
        packages |= {package.name: package for package in pinned_packages(names, read_lock(lock, target))}
    head = "# The packages of the container image, from requirements.lock. Written by `make lock`.\n"
    return head + "".join(f"{packages[name]}\n" for name in sorted(packages))


def _is_unused(path: str) -> bool:
    folder = re.match(r"botocore/data/([^/]+)/", path)
    return (folder is not None and folder[1] not in AWS_SERVICES_OF_JOB) or UNUSED_BY_JOB.match(path) is not None


def _unexpected(handler: str, imports: Imports, packages: set[str]) -> str:
    modules = sorted(name for name in imports.outside if distributions_of([name]) & packages)
    chains = "\n".join(f"  {import_chain(handler, module)}" for module in modules)
    return (
        f"{handler} imports {', '.join(sorted(packages))}, which bundles do not contain. Import it elsewhere, or "
        f"add it to FUNCTION_PACKAGES in infra/package/contents.py:\n{chains}"
    )
