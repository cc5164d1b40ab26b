"""A log store that is broken on purpose, compiled when somebody asks for it."""

from pathlib import Path

import pyspark

from blizzard.setup.java import find_jdk
from infra.local.processes.checkout import CHECKOUT
from infra.setup.logstore import compile_java


def overwriting(classes: Path) -> dict[str, str]:
    """Compiles it to `classes`; the settings of a session that uses it for local files."""
    classes.mkdir(parents=True, exist_ok=True)
    jars = [Path(pyspark.__file__).parent / "jars", CHECKOUT / "jars"]
    compile_java(find_jdk(), [Path(__file__).with_name("OverwritingLogStore.java")], jars, classes)
    return {
        "spark.driver.extraClassPath": f"{CHECKOUT / 'jars'}/*:{classes}",
        "spark.delta.logStore.file.impl": "OverwritingLogStore",
    }
