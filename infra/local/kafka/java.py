"""How a JVM with Kafka's jars is started, and an archive of its classes, so that it starts in half the time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from blizzard.setup.file_lock import locked
from blizzard.setup.jar_folder import STAMP
from blizzard.setup.java import Java, find_java
from blizzard.setup.stamps import digest, is_stamped, put_stamp
from infra.local.processes.checkout import CHECKOUT
from infra.tools.java_programs import KAFKA, JavaTools

# A broker lives for seconds or minutes: a quick start counts more than peak throughput.
_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:cds*=off")
# Without the second one nothing is logged of the end of a broker that is stopped.
_LOG_OPTIONS = ("-Dlog4j2.level=INFO", "-Dlog4j.shutdownHookEnabled=false")


@dataclass(frozen=True, slots=True)
class KafkaJava:
    """`classes`: the archive, used wherever it is there and fits."""

    java: Java
    jars: Path
    classes: Path

    def command(self, main: str, heap_mb: int, *, archiving: bool = False, plugins: Sequence[Path] = ()) -> list[str]:
        """Without the arguments of `main`. `archiving`: write `classes` at its end. `plugins`: further jars."""
        share = f"-XX:{'ArchiveClassesAtExit' if archiving else 'SharedArchiveFile'}={self.classes}"
        options = [f"-Xmx{heap_mb}m", *_OPTIONS, *_LOG_OPTIONS, share]
        return [str(self.java.java), *options, "-cp", ":".join([f"{self.jars}/*", *map(str, plugins)]), main]

    @contextmanager
    def missing_classes(self) -> Iterator[bool]:
        """Whether the archive has to be made, which is to be done in the block. Waits while another process does it."""
        stamp = self.classes.with_suffix(".stamp")
        with locked(self.classes.with_suffix(".lock")):
            key = self._key()
            is_missing = not is_stamped(stamp, key)
            yield is_missing
            if is_missing:
                put_stamp(stamp, key)

    def _key(self) -> str:
        """What an archive depends on, also the paths and times of the jars. A JVM does not use one that does not fit,
        and says nothing."""
        release = self.java.home / "release"
        content = digest(KAFKA.lock, *([release] if release.is_file() else []))
        return f"{content} {self.java} {self.jars} {(self.jars / STAMP).stat().st_mtime_ns}"


@cache
def kafka_java() -> KafkaJava:
    """Downloads the jars at first use. Raises SetupError without Java, or when a jar cannot be had."""
    jars = JavaTools(CHECKOUT).jars(KAFKA)
    return KafkaJava(find_java(), jars, jars.with_name("kafka-classes.jsa"))
