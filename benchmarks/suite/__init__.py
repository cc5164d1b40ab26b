"""The benchmarks. Each is a module with `run(options)`, imported only when it runs."""

import time
from dataclasses import replace
from importlib import import_module

from benchmarks.result import Result
from benchmarks.run_options import RunOptions
from benchmarks.version import version

BENCHMARKS = (
    "big",
    "small",
    "find",
    "names",
    "engine",
    "cluster",
    "history",
    "wide",
    "formats",
    "large",
    "dirty",
    "rules",
    "skew",
    "s3",
    "latency",
    "plan",
    "collect",
    "audit",
    "kafka",
)
_MODULES = {"big": "bulk", "small": "bulk"}


def run(name: str, options: RunOptions) -> Result:
    """Raises ContenderFailed, or WrongResult if a contender wrote a wrong table."""
    module = import_module(f"benchmarks.suite.{_MODULES.get(name, name)}")
    began, of = time.monotonic(), version()
    result: Result = getattr(module, name if name in ("big", "small") else "run")(options)
    took_secs = time.monotonic() - began
    return replace(
        result, scale=options.scale, rounds=options.rounds, took_secs=took_secs, version=of, cores=options.cores
    )
