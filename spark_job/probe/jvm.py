"""What Spark's JVM is: versions, the jars that the job's classes come from, Delta's log stores."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from spark_job.probe.scratch import FOLDER

CLASSES = {
    "spark": "org/apache/spark/sql/SparkSession.class",
    "delta-spark": "org/apache/spark/sql/delta/DeltaLog.class",
    "delta-storage": "io/delta/storage/LogStore.class",
    "blizzard-logstore": "io/github/blizzard/logstore/ConditionalS3LogStore.class",
    "hadoop-aws": "org/apache/hadoop/fs/s3a/S3AFileSystem.class",
    "hadoop-client": "org/apache/hadoop/fs/FileSystem.class",
    "aws-sdk-s3": "software/amazon/awssdk/services/s3/S3Client.class",
}
"""One class of each jar that the job needs."""
ALREADY_EXISTS = "java.nio.file.FileAlreadyExistsException"


def jvm_versions(spark: SparkSession) -> dict[str, str | None]:
    """None: the class that says it is missing."""
    jvm: Any = spark._jvm
    return {
        "spark": spark.version,
        "delta": _or_none(lambda: getattr(jvm.io.delta, "package").VERSION()),  # noqa: B009 - one cannot write it
        "hadoop": _or_none(lambda: jvm.org.apache.hadoop.util.VersionInfo.getVersion()),
        "scala": _or_none(lambda: jvm.scala.util.Properties.versionNumberString()),
        "java": str(jvm.java.lang.System.getProperty("java.version")),
        "java_vendor": str(jvm.java.lang.System.getProperty("java.vendor")),
    }


def jar_names(spark: SparkSession) -> dict[str, list[str]]:
    """The jars that have each class of CLASSES, in the order of the class path. Only names: folders differ."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    return {name: _jars_with(loader, file) for name, file in CLASSES.items()}


def _jars_with(loader: Any, file: str) -> list[str]:
    found, names = loader.getResources(file), []
    while found.hasMoreElements():
        names.append(str(found.nextElement()).partition("!")[0].rpartition("/")[2])
    return list(dict.fromkeys(names))


def log_store_classes(spark: SparkSession, uris: Iterable[str]) -> dict[str, str]:
    """The class with which Delta writes the log of a table, by the scheme of the table's URI."""
    by_scheme = {uri.partition("://")[0] if "://" in uri else "file": uri for uri in uris}
    return {scheme: _log_store_class(spark, uri) for scheme, uri in by_scheme.items()}


def _log_store_class(spark: SparkSession, uri: str) -> str:
    """Delta itself chooses: its own store passes each call on to one by the path's scheme, wrapped if it is in Java.
    The log of the table is not opened, which may be large."""
    jvm: Any = spark._jvm
    no_table = f"{uri.rstrip('/')}/{FOLDER}none"
    store = _delta_log(spark, no_table).store().getDelegate(jvm.org.apache.hadoop.fs.Path(no_table))
    with suppress(Py4JError):  # one that is in Scala
        store = store.logStoreImpl()
    return str(store.getClass().getName())


def create_entry_twice(spark: SparkSession, folder_uri: str) -> bool:
    """Whether Delta refuses the second of two log entries with one number, as two commits of one version would write
    them. `folder_uri`: a folder without a table."""
    jvm: Any = spark._jvm
    log = _delta_log(spark, folder_uri)
    path = jvm.org.apache.hadoop.fs.Path(f"{folder_uri}/{0:020d}.json")
    store, hadoop = log.store(), log.newDeltaHadoopConf()

    def write(line: str) -> None:
        lines = jvm.java.util.Collections.singletonList(line).iterator()
        store.write(path, jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines), False, hadoop)

    write("first")
    try:
        write("second")
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == ALREADY_EXISTS:
            return True
        raise
    return False


def _delta_log(spark: SparkSession, uri: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, uri)


def _or_none(call: Callable[[], object]) -> str | None:
    try:
        return str(call())
    except (Py4JError, TypeError):
        return None
