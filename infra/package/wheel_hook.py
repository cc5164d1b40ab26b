"""Hatchling's hook for the wheel: adds the log store, which the set-up compiled, so that users need no Java compiler.

Runs where only hatchling is installed, and so imports nothing of this project.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOG_STORE = "blizzard-logstore.jar"
FOLDER = "blizzard/setup"


class WheelHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version`: "editable" for the checkout's own environment, which takes the log store from jars/."""
        if version == "editable":
            return
        jar = Path(self.root, "jars", LOG_STORE)
        if not jar.exists():
            raise FileNotFoundError(f"{jar}: expected the compiled log store, found no such file; use `make wheel`")
        build_data["force_include"][str(jar)] = f"{FOLDER}/{LOG_STORE}"
