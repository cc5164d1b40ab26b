"""Turns a StartJobRun request into settings for spark-submit on this machine."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.config.spark_settings import local_settings

IMAGE_JARS = "/usr/share/aws/delta/lib/"
DRIVER_VARIABLE = "spark.emr-serverless.driverEnv."
LOCAL_MASTER = "local[2]"
LOCAL_DRIVER_MEMORY = "1g"
LOCAL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No second compiler and the serial garbage collector: the others do not pay off in runs of a minute."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A parsed request. `log_group`: None if the request does not enable CloudWatch Logs."""

    entry_point: str
    arguments: tuple[str, ...]
    conf: Mapping[str, str]
    log_group: str | None
    log_prefix: str

    @property
    def archives(self) -> list[tuple[str, str]]:
        """URI, and name of the folder that it is unpacked into."""
        found = [item.partition("#") for item in _items(self.conf.get("spark.archives", ""))]
        return [(uri, name or uri.rpartition("/")[2]) for uri, _, name in found]

    @property
    def jars(self) -> list[str]:
        return _items(self.conf.get("spark.jars", ""))

    @property
    def driver_variables(self) -> dict[str, str]:
        return {
            name.removeprefix(DRIVER_VARIABLE): value
            for name, value in self.conf.items()
            if name.startswith(DRIVER_VARIABLE)
        }


def read_request(run: Mapping[str, Any]) -> JobRequest:
    """From GetJobRun. Raises ValueError for spark-submit parameters other than `--conf`."""
    submit = run["jobDriver"]["sparkSubmit"]
    monitoring = (run.get("configurationOverrides") or {}).get("monitoringConfiguration") or {}
    cloudwatch = monitoring.get("cloudWatchLoggingConfiguration") or {}
    group = cloudwatch.get("logGroupName") if cloudwatch.get("enabled") else None
    return JobRequest(
        entry_point=submit["entryPoint"],
        arguments=tuple(submit.get("entryPointArguments") or ()),
        conf=conf_of(submit.get("sparkSubmitParameters") or ""),
        log_group=group,
        log_prefix=cloudwatch.get("logStreamNamePrefix", ""),
    )


def conf_of(parameters: str) -> dict[str, str]:
    arguments = shlex.split(parameters)
    conf: dict[str, str] = {}
    while arguments:
        argument = arguments.pop(0)
        name, equals, value = argument.partition("=")
        if name == "--conf":
            setting = value if equals else arguments.pop(0)
            key, _, found = setting.partition("=")
            conf[key] = found
        else:
            raise ValueError(f"sparkSubmitParameters: expected --conf key=value, found {argument!r}")
    return conf


def local_conf(
    request: JobRequest,
    *,
    image: Path,
    class_path: str,
    delta_jars: Sequence[Path],
    downloaded: Mapping[str, Path],
    java_options: Sequence[str] = (),
) -> dict[str, str]:
    """The request's settings, changed only where this machine differs from EMR.

    `image`: what stands in for EMR's image; `class_path`: its jars; `delta_jars` replace those below IMAGE_JARS;
    `downloaded`: the local copy of each s3:// jar; `java_options`: more of them, for this machine.
    """
    conf = {name: value for name, value in request.conf.items() if not name.startswith("spark.archives")}
    here = local_settings(str(image))
    own = [str(path) for path in delta_jars] if any(jar.startswith(IMAGE_JARS) for jar in request.jars) else []
    own += [str(downloaded[jar]) for jar in request.jars if not jar.startswith(IMAGE_JARS)]
    java = " ".join([conf.get("spark.driver.extraJavaOptions", ""), LOCAL_JVM, *java_options]).strip()
    return {
        **here,
        **conf,
        "spark.master": LOCAL_MASTER,
        "spark.driver.memory": LOCAL_DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": java,
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.driver.host": here["spark.driver.host"],
        "spark.driver.bindAddress": here["spark.driver.bindAddress"],
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        **({"spark.jars": ",".join(own)} if own else {}),
    }


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
