"""Whether Spark can start on this machine."""

from collections.abc import Mapping

from blizzard.errors import ConfigError, SetupError
from blizzard.setup.jar_folder import problem_of
from blizzard.setup.java import find_java
from blizzard.setup.places import SETUP_COMMAND, find_jars


def why_no_spark(environ: Mapping[str, str]) -> str | None:
    """What the machine lacks, and how to get it; None if it has Java and the jars. Starts no Spark."""
    try:
        find_java()
        jars = find_jars(environ)
    except (ConfigError, SetupError) as error:
        return str(error)
    problem = problem_of(jars)
    return problem and f"Spark needs Delta's jars, and found {problem}; run `{SETUP_COMMAND}`"
