"""Downloads jars from a Maven repository and checks them."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from urllib.parse import urlsplit

from blizzard.errors import ConfigError, SetupError
from blizzard.setup.jar_lock import Jar

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
REPOSITORY_VARIABLE = "BLIZZARD_MAVEN_REPOSITORY"
AT_ONCE = 8
ATTEMPTS = 4
FIRST_PAUSE_SECS = 0.5
TIMEOUT_SECS = 60
_TRANSIENT_STATUS = (408, 429)


def checked_repository(url: str) -> str:
    """Without a slash at the end. Raises ConfigError for what is no URL of a repository."""
    if urlsplit(url).scheme not in ("http", "https", "file"):
        expected = f"expected a URL with http, https or file, such as {MAVEN_CENTRAL}"
        raise ConfigError([f"Maven repository: {expected}, found {url!r}"])
    return url.rstrip("/")


def download(jars: Sequence[Jar], folder: Path, repository: str, arrived: Callable[[Jar], None]) -> None:
    """Into `folder`, where a jar appears under its name only after its hash was checked. Calls `arrived` after each.
    Raises SetupError for the first jar that cannot be had; those that are there stay."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(_download, jar, folder, repository) for jar in jars]
        try:
            for done in as_completed(waiting):
                arrived(done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _download(jar: Jar, folder: Path, repository: str) -> Jar:
    url = f"{repository}/{jar.path}"
    content = _content(url, jar)
    found = hashlib.sha256(content).hexdigest()
    if found != jar.sha256:
        raise SetupError(
            f"{url}: expected sha256 {jar.sha256}, found {found}; the file was not kept. The repository, or something "
            "on the way to it, serves another file: try again, or name another repository"
        )
    partial = folder / f"{jar.file}.partial"
    partial.write_bytes(content)
    partial.replace(folder / jar.file)
    return jar


def _content(url: str, jar: Jar) -> bytes:
    attempt = 1
    while True:
        try:
            # Only the schemes of `checked_repository`.
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECS) as answer:
                content: bytes = answer.read()
                return content
        except (OSError, http.client.HTTPException) as error:
            if attempt == ATTEMPTS or not _may_pass(error):
                raise SetupError(_text(url, jar, error)) from error
        time.sleep(FIRST_PAUSE_SECS * 2 ** (attempt - 1))
        attempt += 1


def _may_pass(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _TRANSIENT_STATUS or error.code >= 500
    return not (isinstance(error, urllib.error.URLError) and isinstance(error.reason, FileNotFoundError))


def _text(url: str, jar: Jar, error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        reason = f"the repository answered {error.code} {error.reason}"
    else:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
    return (
        f"cannot download {jar.coordinate} from {url}: {reason}. Is the network there? HTTPS_PROXY names a proxy, "
        f"{REPOSITORY_VARIABLE} another Maven repository. The next run continues from here"
    )
