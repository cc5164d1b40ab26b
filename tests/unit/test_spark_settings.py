"""The settings of a Spark session, and settings that it must never have."""

from pathlib import Path

import pytest

from blizzard.config.spark_settings import LOG_STORES, settings

LOG_STORE_SOURCES = Path(__file__).parents[2] / "infra" / "logstore"


def test_a_cluster_with_its_own_jars_and_s3_gets_only_the_common_settings() -> None:
    given = settings(jars_dir=None)
    assert not [key for key in given if "fs.s3" in key or "ClassPath" in key or "memory" in key]
    assert given["spark.sql.session.timeZone"] == "UTC"


def test_session_and_jvm_are_in_utc() -> None:
    given = settings(jars_dir="jars")
    for side in ("driver", "executor"):
        assert "-Duser.timezone=UTC" in given[f"spark.{side}.extraJavaOptions"]


@pytest.mark.parametrize("jars_dir", [None, "jars"])
def test_a_long_running_driver_keeps_little_data_for_the_web_ui(jars_dir: str | None) -> None:
    given = settings(jars_dir=jars_dir)
    kept = [key for key in given if ".retained" in key]
    assert len(kept) == 4
    assert all(int(given[key]) <= 1_000 for key in kept)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "file"])
def test_every_scheme_has_a_log_store_in_our_java_sources(scheme: str) -> None:
    store = settings(jars_dir=None)[f"spark.delta.logStore.{scheme}.impl"]
    assert store == LOG_STORES[scheme]
    assert (LOG_STORE_SOURCES / f"{store.replace('.', '/')}.java").exists()


def test_all_jars_of_the_folder_are_on_both_class_paths() -> None:
    given = settings(jars_dir="/srv/blizzard/jars")
    assert given["spark.driver.extraClassPath"] == given["spark.executor.extraClassPath"] == "/srv/blizzard/jars/*"


@pytest.mark.parametrize(("url", "ssl"), [("http://127.0.0.1:5000", "false"), ("https://s3.lab:9000", "true")])
def test_a_local_endpoint_is_addressed_by_path_with_tls_as_in_its_url(url: str, ssl: str) -> None:
    given = settings(jars_dir="jars", s3_endpoint=url)
    assert given["spark.hadoop.fs.s3a.endpoint"] == url
    assert given["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert given["spark.hadoop.fs.s3a.connection.ssl.enabled"] == ssl


def test_requests_are_signed_for_the_given_region() -> None:
    region = "spark.hadoop.fs.s3a.endpoint.region"
    assert settings(jars_dir="jars", s3_endpoint="http://127.0.0.1:5000")[region] == "us-east-1"
    assert settings(jars_dir="jars", s3_endpoint="http://127.0.0.1:5000", s3_region="eu-west-1")[region] == "eu-west-1"
    assert settings(jars_dir="jars", s3_region="eu-west-1")[region] == "eu-west-1"


def test_no_endpoint_is_set_for_aws() -> None:
    assert not [key for key in settings(jars_dir="jars") if "endpoint" in key or "path.style" in key]


@pytest.mark.parametrize("s3_endpoint", [None, "http://127.0.0.1:5000"])
def test_no_setting_can_lose_or_double_rows(s3_endpoint: str | None) -> None:
    given = settings(jars_dir="jars", s3_endpoint=s3_endpoint)
    # Every race for a commit would end in an overwrite where another log store is in use; a Txn would be forgotten.
    harmful = ("fs.s3a.create.performance", "fs.s3a.performance.flags", "setTransactionRetentionDuration")
    assert not [key for key in given if any(name in key for name in harmful)]


def test_every_setting_is_text_as_spark_expects() -> None:
    given = settings(jars_dir="jars", s3_endpoint="http://127.0.0.1:5000")
    assert all(isinstance(value, str) and key.startswith("spark.") for key, value in given.items())


def test_executors_on_other_machines_fetch_the_jars_and_find_the_driver_by_its_name() -> None:
    given = settings(jars_dir="/srv/jars", for_executors=["/srv/jars/a.jar", "/srv/jars/b.jar"])
    assert given["spark.jars"] == "/srv/jars/a.jar,/srv/jars/b.jar"
    assert given["spark.driver.extraClassPath"] == "/srv/jars/*"
    of_one_machine = {"spark.driver.host", "spark.driver.bindAddress", "spark.executor.extraClassPath"}
    assert not of_one_machine & given.keys()
    assert of_one_machine <= settings(jars_dir="/srv/jars").keys()
    assert "spark.jars" not in settings(jars_dir="/srv/jars")
