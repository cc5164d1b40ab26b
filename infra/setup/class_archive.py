"""Class data sharing archives of the classes that Spark, Delta and S3A load. The JVM maps one into memory instead of
reading, verifying and linking thousands of classes, which saves about 4 seconds at each start."""

import subprocess
import tempfile
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import SetupError
from blizzard.setup.java import Java
from blizzard.setup.stamps import digest, is_stamped, put_stamp

_MADE_FROM = (
    "requirements.lock",
    "blizzard/setup/jars.lock",
    "infra/local/jobs/load_classes.py",
    "infra/local/jobs/emr_image.py",
)
RUNS = "run-classes"
"""The archive for job runs of the local AWS: their class path is that of EMR's image, without Delta."""
LAST_LINES = 5
TIMEOUT_SECS = 300
QUIET = "-Xlog:cds*=off"
"""Without warnings when the archive does not match the JVM or the class path; it is then not used."""


class ClassArchive:
    """In `.cache`. Valid for the JVM and the class path that it was made with."""

    def __init__(self, root: Path, name: str = "spark-classes") -> None:
        cache = root / ".cache"
        self.file = cache / f"{name}.jsa"
        # The JVM accepts no archive when the class path has a non-empty folder, such as Spark's configuration.
        self.empty_conf = cache / "spark-conf"
        self._stamp = cache / f"{name}.stamp"
        self._options = ["--as-a-run"] if name == RUNS else []
        self._root = root
        self._made_from = [root / name for name in _MADE_FROM]

    def is_current(self, java: Java, log_store: Path) -> bool:
        return self.file.exists() and is_stamped(self._stamp, self._key(java, log_store))

    def make(self, java: Java, log_store: Path, python: Path) -> None:
        """Run a small job in a JVM that archives the classes it loads. Raises SetupError."""
        self._stamp.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)
        self.empty_conf.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.file.parent) as folder:
            partial = Path(folder, self.file.name)
            environ = {
                **variables(),
                "JAVA_HOME": str(java.home),
                "SPARK_CONF_DIR": str(self.empty_conf),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={partial} {QUIET}",
            }
            environ.pop("SPARK_HOME", None)
            command = [str(python), "-m", "infra.local.jobs.load_classes", folder, str(self._root / "jars")]
            _run([*command, *self._options], environ, self._root)
            if not partial.exists():
                raise SetupError(f"{java} ended without writing {partial.name}")
            partial.replace(self.file)
        put_stamp(self._stamp, self._key(java, log_store))

    def java_options(self) -> list[str]:
        """With which a JVM uses the archive; none without one."""
        return [f"-XX:SharedArchiveFile={self.file}", QUIET] if self.file.exists() else []

    def settings(self) -> str:
        """Lines of spark-env.sh that use the archive, unless Spark's configuration folder has other files too."""
        return (
            f'if [ -r "{self.file}" ] && [ "$(ls -A "$SPARK_CONF_DIR")" = spark-env.sh ]; then\n'
            f'    SPARK_CONF_DIR="{self.empty_conf}"\n'
            f'    SPARK_SUBMIT_OPTS="$SPARK_SUBMIT_OPTS -XX:SharedArchiveFile={self.file} {QUIET}"\n'
            "fi\n"
        )

    def _key(self, java: Java, log_store: Path) -> str:
        # The archive depends on the paths and times of the jars.
        return f"{digest(*self._made_from)} {java} {log_store.stat().st_mtime_ns} {self._root}"


def _run(command: list[str], environ: dict[str, str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_SECS,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"the job that loads the classes did not end within {TIMEOUT_SECS} s") from error
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise SetupError(f"the job that loads the classes failed with status {done.returncode}:\n{tail}")
