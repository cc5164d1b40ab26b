"""An archive of the classes that Spark, Delta and S3A load, which the JVM maps into memory instead of reading, checking
and linking thousands of them one by one: some 4 seconds of each start."""

import subprocess
import tempfile
from pathlib import Path

from blizzard.environment import variables
from infra.setup.errors import SetupError
from infra.setup.java import Java
from infra.setup.stamps import digest, is_stamped, put_stamp

_MADE_FROM = ("requirements.lock", "infra/setup/jars.lock", "infra/local/jobs/load_classes.py")
LAST_LINES = 5
MOST_SECS = 300
QUIET = "-Xlog:cds*=off"
"""An archive that does not fit, of another JVM or class path, is not used; nobody has to read why."""


class ClassArchive:
    """In `.cache`, for the JVM and the jars it was made with."""

    def __init__(self, root: Path) -> None:
        cache = root / ".cache"
        self.file = cache / "spark-classes.jsa"
        # The JVM takes no archive where the class path has a folder with files in it, as that of Spark's settings.
        self.empty_conf = cache / "spark-conf"
        self._stamp = cache / "spark-classes.stamp"
        self._root = root
        self._made_from = [root / name for name in _MADE_FROM]

    def is_current(self, java: Java, log_store: Path) -> bool:
        return self.file.exists() and is_stamped(self._stamp, self._key(java, log_store))

    def make(self, java: Java, log_store: Path, python: Path) -> None:
        """Let a small job run in a JVM that writes down what it loads. Raises SetupError."""
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
            _run(command, environ, self._root)
            if not partial.exists():
                raise SetupError(f"{java} ended without having written {partial.name}")
            partial.replace(self.file)
        put_stamp(self._stamp, self._key(java, log_store))

    def settings(self) -> str:
        """Lines of spark-env.sh that put it to use, where nobody has settings of his own beside that file."""
        return (
            f'if [ -r "{self.file}" ] && [ "$(ls -A "$SPARK_CONF_DIR")" = spark-env.sh ]; then\n'
            f'    SPARK_CONF_DIR="{self.empty_conf}"\n'
            f'    SPARK_SUBMIT_OPTS="$SPARK_SUBMIT_OPTS -XX:SharedArchiveFile={self.file} {QUIET}"\n'
            "fi\n"
        )

    def _key(self, java: Java, log_store: Path) -> str:
        # The archive knows the paths of the jars, and their times.
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
            timeout=MOST_SECS,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"the job that loads the classes did not end within {MOST_SECS} s") from error
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise SetupError(f"the job that loads the classes failed with status {done.returncode}:\n{tail}")
