"""Compiles infra/logstore into jars/blizzard-logstore.jar, reproducibly for the same sources and compiler."""

import subprocess
import tempfile
import zipfile
from pathlib import Path

from blizzard.errors import SetupError
from blizzard.setup.java import Java
from blizzard.setup.stamps import digest

# EMR's Java version; a JDK 21 can compile for it.
RELEASE = "17"
MANIFEST = "META-INF/MANIFEST.MF"
# The earliest date of a zip, so that the jar does not depend on the time.
EPOCH = (1980, 1, 1, 0, 0, 0)


class LogStoreJar:
    def __init__(self, root: Path) -> None:
        self.file = root / "jars" / "blizzard-logstore.jar"
        self._partial = root / ".cache" / "blizzard-logstore.jar.partial"
        self._folder = root / "infra" / "logstore"
        self._jars_lock = root / "blizzard" / "setup" / "jars.lock"

    @property
    def _sources(self) -> list[Path]:
        return sorted(self._folder.rglob("*.java"))

    def _manifest(self) -> str:
        key = digest(*self._sources, self._jars_lock)
        return f"Manifest-Version: 1.0\r\nMade-From-Sha256: {key[:32]}\r\n\r\n"

    def is_current(self) -> bool:
        try:
            with zipfile.ZipFile(self.file) as jar:
                return jar.read(MANIFEST).decode() == self._manifest()
        except (FileNotFoundError, zipfile.BadZipFile, KeyError):
            return False

    def make(self, java: Java, pyspark_home: Path) -> None:
        """Raises SetupError with the compiler's output."""
        self._partial.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._partial.parent) as scratch:
            classes = Path(scratch)
            compile_java(java, self._sources, [pyspark_home / "jars", self.file.parent], classes)
            self._pack(classes)
        self._partial.replace(self.file)

    def _pack(self, classes: Path) -> None:
        with zipfile.ZipFile(self._partial, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr(zipfile.ZipInfo(MANIFEST, EPOCH), self._manifest())
            for file in sorted(classes.rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(str(file.relative_to(classes)), EPOCH), file.read_bytes())


def compile_java(java: Java, sources: list[Path], jar_folders: list[Path], classes: Path) -> None:
    """`jar_folders`: every jar in them is on the class path."""
    class_path = ":".join(str(folder / "*") for folder in jar_folders)
    # -path: manifests of Spark's jars refer to jars that do not exist.
    options = ["--release", RELEASE, "-Xlint:all,-path", "-cp", class_path, "-d", str(classes)]
    done = subprocess.run([java.javac, *options, *sources], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"{java.javac} cannot compile {sources[0].parent}:\n{done.stderr.strip()}")
