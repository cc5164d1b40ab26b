"""The settings of a Spark session, each with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

LOG_STORES = {
    "s3": "io.github.blizzard.logstore.ConditionalS3LogStore",
    "s3a": "io.github.blizzard.logstore.ConditionalS3LogStore",
    "file": "io.github.blizzard.logstore.HardLinkLogStore",
}
"""Delta's log store by scheme of the table's URI; the classes are in jars/blizzard-logstore.jar."""

CHECKSUM_FILES = {"spark.sql.streaming.checkpointFileManagerClass": "io.github.blizzard.logstore.ChecksumFiles"}
"""The class that writes the checksum of each commit; in the same jar."""

DELTA_ON_EMR = ("/usr/share/aws/delta/lib/delta-spark.jar", "/usr/share/aws/delta/lib/delta-storage.jar")
"""Delta's jars in EMR's image, from release 7 on."""

EMR_PYTHON = "3.11"
"""The Python of the job on EMR, for which its archive is built."""

DEPENDENCIES = "./deps"
"""Where Spark unpacks the job's archive, on the driver and on each executor."""

_HEAP_STEP_BYTES = 32 << 20
HEAP = {
    "MALLOC_MMAP_THRESHOLD_": str(_HEAP_STEP_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(2 * _HEAP_STEP_BYTES),
    "MALLOC_ARENA_MAX": "2",
}
"""Variables of a process that reads files. Tasks allocate and free blocks of some MiB. By default the C library returns
each to the system, which zeroes the pages of the next one: 500 MB a task, up to a sixth of its time. With these it maps
only larger blocks one by one, and keeps up to the second size of free memory for each of its arenas: two, or it would
be one for each thread."""

# A local endpoint has no regions, but requests must be signed for one.
_LOCAL_REGION = "us-east-1"


def settings(
    *,
    jars_dir: str | None,
    for_executors: Sequence[str] | None = None,
    s3_endpoint: str | None = None,
    s3_region: str | None = None,
) -> dict[str, str]:
    """For a driver on this machine with its extra jars in `jars_dir`; None for a Spark that includes Delta and S3A.

    `for_executors`: those jars, one by one, for executors on other machines; None: there are none. `s3_endpoint`: URL
    of a local S3; None for AWS. `s3_region`: None leaves it to the AWS SDK.
    """
    here: dict[str, str] = {}
    if jars_dir is not None:
        here = local_settings(jars_dir) if for_executors is None else cluster_settings(jars_dir, for_executors)
    endpoint = s3a_endpoint_settings(s3_endpoint) if s3_endpoint is not None else {}
    region = {"spark.hadoop.fs.s3a.endpoint.region": s3_region} if s3_region is not None else {}
    return common_settings() | here | endpoint | region


def common_settings() -> dict[str, str]:
    """What the protocol relies on, wherever Spark runs."""
    return {
        # Delta's commands, and tables by path.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Tables are named by their paths. A platform's defaults may have Hive or Glue answer for such names, too.
        "spark.sql.catalogImplementation": "in-memory",
        # One time zone for session and JVM.
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        # Delta rebuilds a table's state in 50 partitions by default. The job starts with 2 and follows the table's
        # size, as long as both settings agree: a value that was set elsewhere is not changed.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.blizzard.snapshotPartitions": "2",
        # By default a commit to a small table lists all its files in the checksum. Delta only validates that list, and
        # makes the first one by a query on a table that does not exist yet: 2 s of a new process's first commit.
        "spark.databricks.delta.allFilesInCrc.enabled": "false",
        # With Delta's own log stores two drivers can both win the same version.
        **{f"spark.delta.logStore.{scheme}.impl": store for scheme, store in LOG_STORES.items()},
        # Spark's own class writes another file and renames it: twenty requests to S3 for each commit instead of one.
        **CHECKSUM_FILES,
        # Spark keeps data for its web UI even without one: by default 1,000 jobs, stages and queries, each query with a
        # plan of 0.1 MB, so 100 MB in a driver that runs for days. The event log still has all of them.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "20",
        **{f"spark.executorEnv.{name}": value for name, value in HEAP.items()},
        # Lists the log from the requested version on. The whole log takes 44 requests after a month of commits.
        "spark.hadoop.delta.enableFastS3AListFrom": "true",
    }


def local_settings(jars_dir: str) -> dict[str, str]:
    """For one process on one machine, with its jars in `jars_dir`."""
    return _driver_settings(jars_dir) | {
        "spark.executor.extraClassPath": _all_in(jars_dir),
        # Not used, and it takes a port and half a second.
        "spark.ui.enabled": "false",
        # The machine's host name often does not resolve, or only without a VPN.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark's default of 200 is for a cluster; here each task costs more than its rows.
        "spark.sql.shuffle.partitions": "4",
    }


def cluster_settings(jars_dir: str, jars: Sequence[str]) -> dict[str, str]:
    """For a driver on this machine, with its jars in `jars_dir`, and executors elsewhere, which fetch `jars` from it.

    No addresses: executors connect to the driver by SPARK_LOCAL_IP, which the job sets once it has reached the master.
    """
    return _driver_settings(jars_dir) | {
        "spark.jars": ",".join(jars),
        # The number of tasks follows the number of cores; standalone clusters begin with whatever is there first.
        "spark.scheduler.minRegisteredResourcesRatio": "0.8",
    }


def _all_in(jars_dir: str) -> str:
    return str(PurePath(jars_dir) / "*")


def _driver_settings(jars_dir: str) -> dict[str, str]:
    return {
        "spark.driver.extraClassPath": _all_in(jars_dir),
        # Without a cluster everything runs in the driver, and on one it plans and commits. The default of 1 GB is too
        # little for a large batch.
        "spark.driver.memory": "2g",
        # The progress bar overwrites lines of the log.
        "spark.ui.showConsoleProgress": "false",
        # Spark creates this folder at its start though it stays empty. By default that is in the working directory.
        "spark.sql.warehouse.dir": str(PurePath(jars_dir) / "spark-warehouse"),
        # One client for s3:// and s3a://, for both of Hadoop's interfaces, since Delta uses both. EMR does the same.
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        # Environment, profile, web identity, container and instance, as in boto3. S3A's own chain has no profiles.
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
    }


@dataclass(frozen=True, slots=True)
class Workers:
    """Sizes of EMR Serverless workers; memory and disk in Spark's notation, such as `4G`.

    EMR adds a tenth to the memory. Of an executor's memory, a quarter and that tenth are for Python.
    """

    driver_cores: int
    driver_memory: str
    executor_cores: int
    executor_memory: str
    executor_disk: str
    max_executors: int


def emr_serverless_settings(
    workers: Workers, *, archive_uri: str, log_store_uri: str, region: str
) -> Mapping[str, str]:
    """For a run on EMR Serverless, which includes Spark, Delta and S3A. Each start passes every setting, since some EMR
    releases replace the application's own settings and others merge them."""
    return common_settings() | {
        "spark.jars": ",".join([*DELTA_ON_EMR, log_store_uri]),
        # The project and its packages, built by `make package`.
        "spark.archives": f"{archive_uri}#{PurePath(DEPENDENCIES).name}",
        "spark.emr-serverless.driverEnv.PYTHONPATH": DEPENDENCIES,
        "spark.executorEnv.PYTHONPATH": DEPENDENCIES,
        # The archive's packages are compiled for one Python. An image may have several, and change its default.
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": f"python{EMR_PYTHON}",
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": f"python{EMR_PYTHON}",
        "spark.executorEnv.PYSPARK_PYTHON": f"python{EMR_PYTHON}",
        # The workers' environment is not guaranteed to name the region.
        "spark.emr-serverless.driverEnv.AWS_REGION": region,
        "spark.executorEnv.AWS_REGION": region,
        "spark.hadoop.fs.s3a.endpoint.region": region,
        # The defaults are a driver of 4 cores, three executors of 4 cores at once, and no upper limit.
        "spark.driver.cores": str(workers.driver_cores),
        "spark.driver.memory": workers.driver_memory,
        "spark.executor.cores": str(workers.executor_cores),
        # Tasks work in Python, outside the JVM. Both add up to the worker's memory and the tenth that EMR adds.
        "spark.executor.memory": f"{_mib(workers.executor_memory) * 3 // 4}m",
        "spark.executor.memoryOverhead": f"{_mib(workers.executor_memory) * 7 // 20}m",
        "spark.emr-serverless.executor.disk": workers.executor_disk,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": str(workers.max_executors),
        # Each worker is billed for at least a minute, and most runs need only one.
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.executor.instances": "1",
    }


def _mib(memory: str) -> int:
    """From a whole number of gigabytes such as `14G`, as in the template."""
    return int(memory.removesuffix("G")) * 1024


def submit_parameters(conf: Mapping[str, str]) -> str:
    """Settings as one text of `spark-submit` options.

    A value with blanks or quotes is in double quotes, with a backslash before `"` and `\\`. Spark's own option parser
    and a shell read that alike. Raises ValueError for `$` and backquotes, which a shell would expand.
    """
    return " ".join(f"--conf {key}={_word(value)}" for key, value in sorted(conf.items()))


def _word(value: str) -> str:
    if value and not any(letter.isspace() or letter in "\"'\\$`" for letter in value):
        return value
    if "$" in value or "`" in value:
        raise ValueError(f"a shell would expand {value!r}; remove the $ or `")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def s3a_endpoint_settings(url: str) -> dict[str, str]:
    return {
        "spark.hadoop.fs.s3a.endpoint": url,
        "spark.hadoop.fs.s3a.endpoint.region": _LOCAL_REGION,
        # Buckets have no DNS names of their own.
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(url.startswith("https://")).lower(),
    }
