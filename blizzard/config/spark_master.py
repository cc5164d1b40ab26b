"""Where Spark runs: the master's URL and further settings, from options and from the environment."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from blizzard.config.engine_name import CONFIGURED, EngineName
from blizzard.errors import ConfigError

MASTER = "spark.master"
_LOCAL = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?")
_STANDALONE = re.compile(r"spark://[^,/\s]+:\d+(,[^,/\s]+:\d+)*")
_KUBERNETES = re.compile(r"k8s://(https?://)?[^/\s]+/?")
_DEFAULT_PORTS = {"https": 443, "http": 80}
_EXPECTED = (
    "expected local, local[N] or local[*] for this machine, or a cluster: spark://HOST:PORT (a standalone one), "
    "yarn, or k8s://https://HOST:PORT"
)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """`master` None: whatever Spark itself is set to; without spark-submit that is this machine. `conf` has the other
    settings, of which the later ones count. `origin` says where the master's URL comes from."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    origin: str = "--master"

    @property
    def on_cluster(self) -> bool:
        return self.master is not None and not _LOCAL.fullmatch(self.master)

    def engine(self, wanted: str) -> str:
        """The engine for a wanted one, which may be "configured": on a cluster always Spark. Raises ConfigError for the
        local engine on a cluster."""
        if not self.on_cluster:
            return wanted
        if wanted != CONFIGURED and not EngineName(wanted).has_spark:
            expected = f"--engine local: expected spark, or no --engine, with {self.origin} {self.master}"
            raise ConfigError([f"{expected}: the local engine uses only this machine; leave out one of the two"])
        return EngineName.SPARK


def spark_options(environ: Mapping[str, str], *, master: str | None, conf: Iterable[str]) -> SparkOptions:
    """`master` and `conf` (each KEY=VALUE) are those of the command line, which have precedence over BLIZZARD_MASTER
    and BLIZZARD_SPARK_CONF. Raises ConfigError."""
    in_environment = _pairs(_words(environ.get("BLIZZARD_SPARK_CONF") or ""), "BLIZZARD_SPARK_CONF")
    settings = {**in_environment, **_pairs(conf, "--spark-conf")}
    as_setting = settings.pop(MASTER, None)
    asked = {"--master": master, f"--spark-conf {MASTER}": as_setting}
    asked["BLIZZARD_MASTER"] = environ.get("BLIZZARD_MASTER") or None
    for origin, url in asked.items():
        if url is not None:
            return SparkOptions(_checked(url, origin), settings, origin)
    return SparkOptions(None, settings)


def addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each process that answers for the cluster; none for yarn, whose address Hadoop's files have."""
    if master.startswith("spark://"):
        found = [each.rpartition(":") for each in master.removeprefix("spark://").split(",")]
        return [(host.strip("[]"), int(port)) for host, _, port in found]
    if master.startswith("k8s://"):
        url = master.removeprefix("k8s://")
        parts = urlsplit(url if "://" in url else f"https://{url}")
        return [(parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme])]
    return []


def _checked(url: str, origin: str) -> str:
    known = url == "yarn" or any(form.fullmatch(url) for form in (_LOCAL, _STANDALONE, _KUBERNETES))
    if known:
        try:
            if all(host and 0 < port < 1 << 16 for host, port in addresses(url)):
                return url
        except ValueError:
            pass
    raise ConfigError([f"{origin}: {_EXPECTED}; found {url!r}; correct it"])


def _pairs(texts: Iterable[str], origin: str) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError([f"{origin}: expected KEY=VALUE, such as spark.driver.memory=2g, found {text!r}"])
        found[key] = value
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(
            [f"BLIZZARD_SPARK_CONF: expected KEY=VALUE words as a shell reads them, found {text!r} ({error})"]
        ) from error
