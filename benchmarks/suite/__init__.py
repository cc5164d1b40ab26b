"""The benchmarks by name. Each is a module with `run(setting)`, imported when it is wanted."""

import time
from dataclasses import replace
from importlib import import_module

from benchmarks.result import Result
from benchmarks.setting import Setting
from benchmarks.version import version

BENCHMARKS = ("big", "small", "find", "history", "wide", "dirty", "skew", "s3", "latency", "plan", "collect")
_MODULES = {"big": "bulk", "small": "bulk", "collect": "collecting"}


def run(name: str, setting: Setting) -> Result:
    """Raises WrongResult or ContenderFailed when one of those measured did not do its work."""
    module = import_module(f"benchmarks.suite.{_MODULES.get(name, name)}")
    began, of = time.monotonic(), version()
    result: Result = getattr(module, name if name in ("big", "small") else "run")(setting)
    took_secs = time.monotonic() - began
    return replace(
        result, scale=setting.scale, rounds=setting.rounds, took_secs=took_secs, version=of, cores=setting.cores
    )
