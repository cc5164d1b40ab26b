"""What a Spark session has to be told, as plain configuration. Each setting with the reason for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

LOG_STORES = {
    "s3": "io.github.blizzard.logstore.ConditionalS3LogStore",
    "s3a": "io.github.blizzard.logstore.ConditionalS3LogStore",
    "file": "io.github.blizzard.logstore.HardLinkLogStore",
}
"""By scheme of the table's URI; the classes are in jars/blizzard-logstore.jar."""

CHECKSUM_FILES = {"spark.sql.streaming.checkpointFileManagerClass": "io.github.blizzard.logstore.ChecksumFiles"}
"""Who writes the checksum beside each commit; in the same jar."""

DELTA_ON_EMR = ("/usr/share/aws/delta/lib/delta-spark.jar", "/usr/share/aws/delta/lib/delta-storage.jar")
"""Where EMR's image has Delta, from release 7 on."""

DEPENDENCIES = "./deps"
"""Where Spark unpacks the job's archive, on the driver and on each executor."""

_HEAP_STEP_BYTES = 32 << 20
"""From here on the C library asks the system for each block of memory; of smaller ones it keeps twice as much for each
of its arenas, of which a process with many threads has several."""

# A local endpoint has no regions, but requests are signed for one.
_LOCAL_REGION = "us-east-1"


def settings(*, jars_dir: str | None, s3_endpoint: str | None = None, s3_region: str | None = None) -> dict[str, str]:
    """For a Spark on this machine, whose extra jars are in `jars_dir`; None for one that brings Delta and S3A itself.

    `s3_endpoint`: URL of what stands in for S3; None for AWS. `s3_region`: None leaves it to the AWS SDK.
    """
    local = on_this_machine(jars_dir) if jars_dir is not None else {}
    endpoint = s3a_endpoint(s3_endpoint) if s3_endpoint is not None else {}
    region = {"spark.hadoop.fs.s3a.endpoint.region": s3_region} if s3_region is not None else {}
    return everywhere() | local | endpoint | region


def everywhere() -> dict[str, str]:
    """What the protocol relies on, whoever runs Spark."""
    return {
        # Delta's commands, and tables by path.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # One zone for session and JVM: times mean the same everywhere.
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        # Whenever Delta rebuilds a table's state it does so in 50 partitions unless told otherwise. The job follows the
        # table's size from here on, as long as both settings agree: what somebody else has set is left alone.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.blizzard.snapshotPartitions": "2",
        # Otherwise a commit to a table of few files lists them all in its checksum. Delta reads that list only to check
        # it, and makes the first one by a query on a table that is not there yet: 2 s of a new process's first commit.
        "spark.databricks.delta.allFilesInCrc.enabled": "false",
        # Delta's own let two drivers win the same version.
        **{f"spark.delta.logStore.{scheme}.impl": store for scheme, store in LOG_STORES.items()},
        # Spark's own writes another file and renames it: twenty requests of each commit to S3, where one will do.
        **CHECKSUM_FILES,
        # What Spark remembers for its pages, even where there are none: up to 1,000 jobs, stages and queries, 0.1 MB of
        # plan each query, so 100 MB in a driver that goes on for days. Its event log has all of them.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "20",
        # A task's blocks of some MiB come and go. By itself the C library gives each back to the system, which clears
        # the pages of the next one: 500 MB a task, a sixth of its time. On a cluster executors get it, too.
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(_HEAP_STEP_BYTES),
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(2 * _HEAP_STEP_BYTES),
        # Lists the log from the version that is asked for, not all of it: 44 requests for a month of commits.
        "spark.hadoop.delta.enableFastS3AListFrom": "true",
    }


def on_this_machine(jars_dir: str) -> dict[str, str]:
    """One process, one user, the machine's own memory."""
    jars = str(PurePath(jars_dir) / "*")
    return {
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        # Everything runs in the driver. Its default of 1 GB is too little for a large batch.
        "spark.driver.memory": "2g",
        # Nobody looks at it, and it takes a port and half a second.
        "spark.ui.enabled": "false",
        # The machine's own name often has no address, or one that a VPN takes away.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark's default of 200 is for a cluster; here each task costs more than its rows.
        "spark.sql.shuffle.partitions": "4",
        # Its bar writes over the lines of the log.
        "spark.ui.showConsoleProgress": "false",
        # Spark makes this folder when it starts, though no table is in it: not where the user happens to be.
        "spark.sql.warehouse.dir": str(PurePath(jars_dir) / "spark-warehouse"),
        # One client for s3:// and s3a://, behind both interfaces of Hadoop, which Delta uses. So it is on EMR already.
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        # Environment, profile, web identity, container and instance: where boto3 looks too. S3A's own chain knows no
        # profiles.
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
    }


@dataclass(frozen=True, slots=True)
class Workers:
    """Sizes of EMR Serverless' workers; memory and disk as Spark writes them, such as `4G`. A tenth is added to the
    memory; of an executor's, a quarter and that tenth are for Python."""

    driver_cores: int
    driver_memory: str
    executor_cores: int
    executor_memory: str
    executor_disk: str
    max_executors: int


def on_emr_serverless(workers: Workers, *, archive_uri: str, log_store_uri: str, region: str) -> Mapping[str, str]:
    """For a run on EMR Serverless, which brings Spark, Delta and S3A. Everything is said with each start: what stands
    at the application is replaced by one release and merged by the next."""
    return everywhere() | {
        "spark.jars": ",".join([*DELTA_ON_EMR, log_store_uri]),
        # The project and what it imports, made by `make package`.
        "spark.archives": f"{archive_uri}#{PurePath(DEPENDENCIES).name}",
        "spark.emr-serverless.driverEnv.PYTHONPATH": DEPENDENCIES,
        "spark.executorEnv.PYTHONPATH": DEPENDENCIES,
        # Nothing promises that the workers' environment says where they are.
        "spark.emr-serverless.driverEnv.AWS_REGION": region,
        "spark.executorEnv.AWS_REGION": region,
        "spark.hadoop.fs.s3a.endpoint.region": region,
        # The defaults are a driver of 4 cores, three executors of 4 cores at once, and no upper limit.
        "spark.driver.cores": str(workers.driver_cores),
        "spark.driver.memory": workers.driver_memory,
        "spark.executor.cores": str(workers.executor_cores),
        # Tasks work in Python, beside the JVM. The worker stays as large as a tenth on top of its memory makes it.
        "spark.executor.memory": f"{_mib(workers.executor_memory) * 3 // 4}m",
        "spark.executor.memoryOverhead": f"{_mib(workers.executor_memory) * 7 // 20}m",
        "spark.emr-serverless.executor.disk": workers.executor_disk,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": str(workers.max_executors),
        # Each worker is billed for a minute at least; most runs need no second one.
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.executor.instances": "1",
    }


def _mib(memory: str) -> int:
    """Of a whole number of gigabytes, as the template has them: `14G`."""
    return int(memory.removesuffix("G")) * 1024


def submit_parameters(conf: Mapping[str, str]) -> str:
    """Settings as the words of a `spark-submit` command line, for services that take it as one text.

    In double quotes what is more than one word, with a backslash before `"` and `\\`: Spark's own parser of options and
    a shell read that alike.
    """
    return " ".join(f"--conf {key}={_word(value)}" for key, value in sorted(conf.items()))


def _word(value: str) -> str:
    if value and not any(letter.isspace() or letter in "\"'\\$`" for letter in value):
        return value
    if "$" in value or "`" in value:
        raise ValueError(f"a shell would read {value!r} as more than text; leave out the $ or `")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def s3a_endpoint(url: str) -> dict[str, str]:
    return {
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.endpoint.region": _LOCAL_REGION,
        # There is no DNS name for each bucket.
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(url.startswith("https://")).lower(),
    }
