"""What is wrong in an account, by what a probe has found, and what to do about each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from blizzard.config.spark_settings import EMR_PYTHON, LOG_STORES
from infra.probe.log_lines import Found
from infra.probe.run import ProbeRun

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


def problems_of(run: ProbeRun, log: Found, *, log_group: str, application_id: str, log_secs: float) -> list[Problem]:
    """Empty: all is well."""
    if not run.has_ended:
        return [_not_ended(run, application_id)]
    if log.line is None:
        return [_no_line(run, log, log_group, application_id, log_secs)]
    found = [] if run.state == "SUCCESS" else [_failed(run, "The line below was printed before that.")]
    return [*found, *line_problems(log.line)]


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


def _not_ended(run: ProbeRun, application_id: str) -> Problem:
    waits = run.state in ("QUEUED", "PENDING", "SUBMITTED")
    advice = (
        "Another run may hold the application (MaxConcurrentRuns), or its vCPUs are used up (MaximumVcpus, the "
        "account's quota): look at the application's runs, and probe again."
        if waits
        else "Look at the run in EMR Studio."
    )
    cancel = f"aws emr-serverless cancel-job-run --application-id {application_id} --job-run-id {run.id}"
    return Problem("run", f"still {run.state} after {run.secs:.0f} s", f"{advice} To end this one: {cancel}")


def _failed(run: ProbeRun, said: str) -> Problem:
    details = run.details.strip().rstrip(".")
    return Problem("run", f"{run.state}: {details}. {said}", "Correct what it names, and probe again.")


def _no_line(run: ProbeRun, log: Found, group: str, application_id: str, secs: float) -> Problem:
    if run.state != "SUCCESS":
        last = f"The log's last lines: {' / '.join(log.last_lines)}" if log.last_lines else "No log line has arrived."
        return _failed(run, last)
    arrived = "other lines of the run, but not the probe's" if log.last_lines else "no line of it"
    dashboard = f"aws emr-serverless get-dashboard-for-job-run --application-id {application_id} --job-run-id {run.id}"
    return Problem(
        "log",
        f"the run succeeded, but within {secs:.0f} s {arrived} arrived in {group}",
        f"Alarms and metrics of the job would see nothing either. EMR keeps its own copy of the output: `{dashboard}` "
        "prints its address (Logs, Driver, stdout). Then look whether the log group exists, and whether JobRole still "
        "has its statements Log and FindLogGroup.",
    )


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
