"""What a Python process of the job is, on the driver or on an executor."""

import platform
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

IMPORTED = ("botocore", "isal", "obstore", "orjson", "pyarrow", "pydantic", "spark_job.main")
"""What each run imports: compiled packages, boto's core, and the job's own code with all that it imports."""


def describe_process(_: object = None) -> dict[str, Any]:
    """`packages`: the version of each that can be imported ("" without one). `missing`: why another cannot."""
    packages: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name in IMPORTED:
        try:
            import_module(name)
            packages[name] = _version(name)
        except Exception as error:  # noqa: BLE001 - a package that is made for another machine may raise anything
            missing[name] = f"{type(error).__name__}: {error}"[:300]
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "architecture": platform.machine(),
        "os": _os_name(),
        "packages": packages,
        "missing": missing,
    }


def describe_processes(_: Iterable[object]) -> Iterable[dict[str, Any]]:
    """For a task on an executor."""
    return [describe_process()]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
