"""The archives of classes that the set-up makes are used: a JVM silently ignores one that does not fit."""

import subprocess
from pathlib import Path

import pyspark
import pytest

from blizzard.config.spark_settings import common_settings, local_settings
from blizzard.environment import variables
from infra.local.jobs.emr_image import class_path, delta_jars, emr_image
from infra.local.jobs.request import IMAGE_JARS, JobRequest, local_conf
from infra.local.processes.checkout import CHECKOUT
from infra.setup.class_archive import RUNS, ClassArchive
from tests.spark.lake import JARS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not ClassArchive(CHECKOUT, RUNS).file.exists(), reason="the set-up could not make the archives"),
]
FROM_THE_ARCHIVE = "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)"


def loaded_classes(spark_home: Path, conf: dict[str, str]) -> str:
    """What the JVM of a spark-submit with these settings loads, and from where."""
    java = f"{conf['spark.driver.extraJavaOptions']} -Xlog:class+load"
    words = [f"{name}={value}" for name, value in {**conf, "spark.driver.extraJavaOptions": java}.items()]
    command = [str(spark_home / "bin" / "spark-submit"), *(word for conf in words for word in ("--conf", conf))]
    # A file that is not there: Spark's own classes are loaded before it is looked for.
    done = subprocess.run(
        [*command, "none.py"],
        env={**variables(), "SPARK_HOME": str(spark_home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_job_run_of_the_local_aws_takes_its_classes_from_their_archive(tmp_path: Path) -> None:
    image = emr_image(tmp_path / "image")
    request = JobRequest("s3://a/e.py", (), {**common_settings(), "spark.jars": IMAGE_JARS}, None, "")
    conf = local_conf(
        request,
        image=image,
        class_path=class_path(JARS),
        delta_jars=delta_jars(JARS),
        downloaded={},
        java_options=ClassArchive(CHECKOUT, RUNS).java_options(),
    )
    assert FROM_THE_ARCHIVE in loaded_classes(image / "spark", conf)


def test_a_job_of_this_machine_takes_its_classes_from_their_archive(tmp_path: Path) -> None:
    conf = {**common_settings(), **local_settings(str(JARS))}
    assert FROM_THE_ARCHIVE in loaded_classes(Path(pyspark.__file__).parent, conf)
