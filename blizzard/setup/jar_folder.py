"""A folder of the jars that Spark needs: filled step by step, used only when it is complete."""

import shutil
from collections.abc import Callable
from pathlib import Path

from blizzard.errors import ConfigError
from blizzard.setup.file_lock import locked
from blizzard.setup.jar_lock import LOCK, Jar, read_lock
from blizzard.setup.stamps import digest, file_sha256, is_stamped, put_stamp

LOG_STORE = "blizzard-logstore.jar"
STAMP = ".complete"
UNFINISHED = "unfinished"
"""What the stamp says while the folder is being filled, and after that was interrupted."""


class JarFolder:
    def __init__(self, folder: Path, lock: Path = LOCK) -> None:
        self.folder = folder
        self.lock = lock
        self._stamp = folder / STAMP

    @property
    def jars(self) -> list[Jar]:
        return read_lock(self.lock.read_text())

    def is_complete(self) -> bool:
        """Checks names only: contents were checked when the folder was filled."""
        if not is_stamped(self._stamp, digest(self.lock)):
            return False
        return all((self.folder / jar.file).exists() for jar in self.jars)

    def fill(
        self, repository: str, *, log_store: Path | None = None, arrived: Callable[[Jar], None] = lambda _: None
    ) -> int:
        """Download what is missing or damaged and return how many jars that were. Continues what was interrupted; waits
        while another process does the same. `log_store`: a jar to add; None: the caller adds it.

        Raises SetupError when a jar cannot be had, ConfigError when the folder has jars that are not ours.
        """
        from blizzard.setup.download import download  # Brings HTTP and TLS, which a run with jars has no use for.

        with locked(self.folder / ".lock"):
            kept = {LOG_STORE, *(jar.file for jar in self.jars)}
            others = sorted(file for file in self.folder.glob("*.jar") if file.name not in kept)
            if others and not self._stamp.exists():
                raise ConfigError([_not_ours(self.folder, others)])
            missing = [jar for jar in self.jars if not _is_whole(jar, self.folder / jar.file)]
            if missing or others or not self.is_complete():
                put_stamp(self._stamp, UNFINISHED)
            download(missing, self.folder, repository, arrived)
            if log_store is not None:
                _copy(log_store, self.folder / LOG_STORE)
            for left_over in (*others, *self.folder.glob("*.partial")):
                left_over.unlink()
            put_stamp(self._stamp, digest(self.lock))
        return len(missing)


def problem_of(folder: Path) -> str | None:
    """Why Spark cannot use the folder, to complete "found …". A folder that was filled in another way has no stamp."""
    if not folder.is_dir():
        return f"no {folder}"
    if is_stamped(folder / STAMP, UNFINISHED):
        return f"{folder}, whose set-up was interrupted"
    return None if any(folder.glob("*.jar")) else f"no jar in {folder}"


def _is_whole(jar: Jar, file: Path) -> bool:
    return file.is_file() and file_sha256(file) == jar.sha256


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.copyfile(source, partial)
    partial.replace(target)


def _not_ours(folder: Path, others: list[Path]) -> str:
    names = ", ".join(file.name for file in others[:3]) + (", …" if len(others) > 3 else "")
    return (
        f"{folder}: expected a new or empty folder, or one with these jars, found others: {names}. They would be on "
        "Spark's class path: choose another folder, or move them away"
    )
