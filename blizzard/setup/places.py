"""Where the jars are: in a checkout, in the user's cache, or where BLIZZARD_JARS says."""

from collections.abc import Mapping
from pathlib import Path

from blizzard.errors import ConfigError, SetupError
from blizzard.setup.jar_folder import LOG_STORE, problem_of
from blizzard.setup.jar_lock import LOCK
from blizzard.setup.stamps import digest

_ROOT = Path(__file__).resolve().parents[2]
CHECKOUT = _ROOT if (_ROOT / "infra" / "setup" / "run").is_file() else None
"""The checkout that this package is imported from; None for an installed one."""
SETUP_COMMAND = "make setup" if CHECKOUT else "blizzard setup"
"""What fills the folder of jars."""
JARS_VARIABLE = "BLIZZARD_JARS"
_KEY_CHARACTERS = 12


def find_jars(environ: Mapping[str, str]) -> Path:
    """The folder of jars to use. If there is none yet, where SETUP_COMMAND puts it."""
    if given := environ.get(JARS_VARIABLE):
        return Path(given)
    if CHECKOUT is None:
        return cache_folder(environ)
    own = CHECKOUT / "jars"
    if not problem_of(own):
        return own
    cached = cache_folder(environ)
    return own if problem_of(cached) else cached


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Named after its content, so that two versions of Blizzard do not disturb each other. Raises ConfigError."""
    files = [LOCK, *(file for file in [_own_log_store()] if file.is_file())]
    return _cache(environ) / "blizzard" / f"jars-{digest(*files)[:_KEY_CHARACTERS]}"


def log_store() -> Path:
    """The compiled log store. Raises SetupError."""
    file = _own_log_store()
    if not file.is_file():
        how = "run `make setup` first" if CHECKOUT else "install a wheel that `make wheel` built"
        raise SetupError(f"{file}: expected Blizzard's log store, found no such file; {how}")
    return file


def _own_log_store() -> Path:
    """The wheel has it in this package, a checkout in jars/."""
    return CHECKOUT / "jars" / LOG_STORE if CHECKOUT else Path(__file__).with_name(LOG_STORE)


def _cache(environ: Mapping[str, str]) -> Path:
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    # The specification of these folders says that a relative path must be ignored.
    if given.is_absolute():
        return given
    try:
        return Path.home() / ".cache"
    except RuntimeError as error:
        expected = f"expected a home folder, found none; set HOME, XDG_CACHE_HOME or {JARS_VARIABLE}"
        raise ConfigError([expected]) from error
