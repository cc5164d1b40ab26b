"""The line that a probe prints: where it is in the log, what is wrong by it, and what to do about each."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from blizzard.config.spark_settings import EMR_PYTHON, LOG_STORES

EVENT = '"event": "probed"'
MIN_HADOOP = (3, 4, 2)
"""The first one whose S3A has the conditional create that the log store uses."""
RELEASE = "Use the EMR release that `make publish` names (ReleaseLabel); an application that exists needs it too."
POLICY = 'See "A lake that exists already" in docs/deploy.md for the statement NumbersAreTakenOnce.'


@dataclass(frozen=True, slots=True)
class Problem:
    """`check`: the part of the probe's output that shows it."""

    check: str
    found: str
    advice: str

    def as_dict(self) -> dict[str, str]:
        return {"check": self.check, "found": self.found, "advice": self.advice}


def line_of(messages: Sequence[str], probe_id: str | None = None) -> dict[str, Any] | None:
    """The line in the log events of one stream, each of which may hold several lines, or a part of one. `probe_id`:
    None for any probe's. None: it is not there, or not whole."""
    for joint in ("\n", ""):
        text = joint.join(messages)
        at = text.find(EVENT)
        if at < 0:
            continue
        try:
            line, _ = json.JSONDecoder().raw_decode(text, text.rfind("{", 0, at))
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and probe_id in (None, line.get("id")):
            return line
    return None


def line_problems(line: Mapping[str, Any]) -> list[Problem]:
    """Denied rights come first, since they are why other checks fail."""
    return [
        *_rights((line.get("rights") or {}).get("denied", ())),
        *_failed_checks(line.get("failed") or {}),
        *_processes(line),
        *_versions(line.get("jvm") or {}),
        *_jars(line.get("jars") or {}),
        *_log_stores(line.get("log_store") or {}),
        *_writes(line.get("written") or {}),
    ]


def _failed_checks(failed: Mapping[str, str]) -> Iterator[Problem]:
    for check, error in failed.items():
        yield Problem(check, f"the check failed: {error}", "Correct what it names, and probe again.")


def _processes(line: Mapping[str, Any]) -> Iterator[Problem]:
    for place in ("driver", "executor"):
        process = line.get(place)
        if process is None:
            continue  # its check failed, or Spark did not start: that is among the failed ones
        python = process["python"]
        if not python.startswith(f"{EMR_PYTHON}."):
            found = f"Python {python} ({process['executable']}), expected {EMR_PYTHON}"
            yield Problem(place, found, f"The job's packages are compiled for {EMR_PYTHON}. {RELEASE}")
        for package, error in process["missing"].items():
            yield Problem(
                place,
                f"{package} cannot be imported on {process['architecture']}: {error}",
                "Run `make package` with the ARCH of the application (JobArchitecture), publish and deploy.",
            )


def _versions(jvm: Mapping[str, str | None]) -> Iterator[Problem]:
    for name, package in (("spark", "pyspark"), ("delta", "delta-spark")):
        tested = ".".join(version(package).split(".")[:2])
        if name in jvm and not f"{jvm[name]}.".startswith(f"{tested}."):
            yield Problem("jvm", f"{name} {jvm[name] or 'unknown'}, expected {tested}", RELEASE)
    if "hadoop" in jvm and _numbers(jvm["hadoop"] or "") < MIN_HADOOP:
        expected = ".".join(map(str, MIN_HADOOP))
        yield Problem("jvm", f"hadoop {jvm['hadoop'] or 'unknown'}, expected {expected} or later", RELEASE)


def _numbers(text: str) -> tuple[int, ...]:
    """Of `3.4.2-amzn-0`: (3, 4, 2)."""
    return tuple(int(part) for part in text.partition("-")[0].split(".") if part.isdigit())


def _jars(jars: Mapping[str, list[str]]) -> Iterator[Problem]:
    for name, found in jars.items():
        if not found:
            advice = "Publish and deploy again." if name == "blizzard-logstore" else RELEASE
            yield Problem("jars", f"{name} is not on the class path", advice)
        elif len(found) > 1 and name in ("delta-spark", "delta-storage", "blizzard-logstore"):
            yield Problem(
                "jars",
                f"{name} is on the class path more than once: {', '.join(found)}",
                "Remove the second one from the application's own settings, or from its image.",
            )


def _log_stores(stores: Mapping[str, str]) -> Iterator[Problem]:
    for scheme, found in stores.items():
        if found != LOG_STORES.get(scheme):
            yield Problem(
                "log_store",
                f"Delta writes the log of {scheme}:// with {found}, expected {LOG_STORES.get(scheme)}",
                "With it two runs could win one commit. Remove spark.delta.logStore… from the application's settings.",
            )


def _writes(written: Mapping[str, Any]) -> Iterator[Problem]:
    table = written.get("table_uri")
    stop = "Do not ingest there: two writers could overwrite each other. Use a bucket of S3 itself, without a gateway."
    if written.get("second_put_refused") is False:
        yield Problem("written", f"a PUT with If-None-Match overwrote an object below {table}", stop)
    if written.get("second_commit_refused") is False:
        yield Problem("written", f"Delta's log store wrote a log entry below {table} twice", stop)
    if written.get("winners_of_race") not in (None, 1):
        found = f"{written['winners_of_race']} of several writers were told that they created one object below {table}"
        yield Problem("written", f"{found}, expected 1", stop)
    if written.get("numbers_fenced") is False:
        found = f"a PUT without a condition overwrote a numbered object below {table}"
        yield Problem("written", found, f"The bucket's policy should deny that. {POLICY}")
    for one in written.get("left_behind") or ():
        yield Problem("written", f"could not be deleted: {one}", "Allow s3:DeleteObject and s3:ListBucket; delete it.")


_OF_BUCKETS = "Allow it to the stack's JobRole: look at the bucket's policy, its KMS key, the organization's policies."
_OF_BROKERS = (
    "Let the job reach the brokers (SubnetIds, SecurityGroupIds, the brokers' own security group) and log in "
    "(`kafka.security`, KafkaClusterArn, KafkaSecretArns): docs/kafka.md#on-aws."
)


def _rights(denied: Iterable[Mapping[str, str]]) -> Iterator[Problem]:
    for one in denied:
        yield Problem(
            "rights",
            f"{one['action']} on {one['resource']} failed: {one['error']}",
            _OF_BROKERS if one["action"].startswith("kafka-cluster:") else _OF_BUCKETS,
        )
