"""Downloads the jars of a Java program at first use, into `.cache/tools/NAME`, each with the hash of its lock."""

from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import variables
from blizzard.setup.download import MAVEN_CENTRAL, REPOSITORY_VARIABLE, checked_repository
from blizzard.setup.jar_folder import JarFolder

LOCKS = Path(__file__).parent / "jars"


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """`packages`: the Maven coordinates whose jars, with all that they need at run time, are in `lock`."""

    name: str
    packages: tuple[str, ...]
    lock: Path


KAFKA = JavaProgram(
    name="kafka",
    packages=(
        "org.apache.kafka:kafka_2.13:4.1.0",
        # Of the release, though not of its POM: without it no broker writes a log.
        "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
    ),
    lock=LOCKS / "kafka.lock",
)
"""A Kafka broker, for tests; Apache License 2.0."""
SPARK_KAFKA = JavaProgram(
    name="spark-kafka",
    packages=("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",),
    lock=LOCKS / "spark-kafka.lock",
)
"""Spark's own source of topics, for the benchmark alone; Apache License 2.0. Without the jars that Spark has itself."""
JAVA_PROGRAMS = {KAFKA.name: KAFKA, SPARK_KAFKA.name: SPARK_KAFKA}


@dataclass(frozen=True, slots=True)
class JavaTools:
    """The Java programs below a checkout's `.cache/tools`."""

    root: Path

    def jars(self, wanted: JavaProgram) -> Path:
        """The folder of the program's jars. Downloads what is missing. Raises SetupError when a jar cannot be had, and
        ConfigError when BLIZZARD_MAVEN_REPOSITORY is no URL."""
        place = JarFolder(self.root / ".cache" / "tools" / wanted.name, wanted.lock)
        if not place.is_complete():
            repository = checked_repository(variables().get(REPOSITORY_VARIABLE, MAVEN_CENTRAL))
            print(f"tools: {wanted.name} into {place.folder.relative_to(self.root)} …", flush=True)
            place.fill(repository)
        return place.folder
