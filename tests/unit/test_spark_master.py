"""Where Spark runs, from options and from the environment."""

import pytest

from blizzard.config.spark_master import SparkOptions, addresses, spark_options
from blizzard.errors import ConfigError


@pytest.mark.parametrize("url", ["local", "local[4]", "local[*]", "local[2,3]"])
def test_a_local_master_is_no_cluster_and_leaves_the_engine_alone(url: str) -> None:
    options = spark_options({}, master=url, conf=[])
    assert (options.master, options.on_cluster) == (url, False)
    assert [options.engine(wanted) for wanted in ("local", "auto", "configured")] == ["local", "auto", "configured"]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("spark://10.0.0.1:7077", [("10.0.0.1", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://api.lab:6443", [("api.lab", 6443)]),
        ("k8s://api.lab", [("api.lab", 443)]),
        ("yarn", []),
    ],
)
def test_a_cluster_has_its_addresses_and_takes_spark(url: str, found: list[tuple[str, int]]) -> None:
    options = spark_options({}, master=url, conf=[])
    assert (options.on_cluster, addresses(url)) == (True, found)
    assert [options.engine(wanted) for wanted in ("spark", "auto", "configured")] == ["spark"] * 3


@pytest.mark.parametrize(
    "url",
    [
        "",
        "spark://",
        "spark://host",
        "spark://host:seven",
        "spark://host:70777",
        "mesos://a:1",
        "Yarn",
        "local[0",
        "k8s://",
    ],
)
def test_another_master_is_refused_and_the_error_says_what_is_expected(url: str) -> None:
    with pytest.raises(ConfigError, match=r"--master: expected local.*spark://HOST:PORT.*yarn.*found '"):
        spark_options({}, master=url, conf=[])


@pytest.mark.parametrize(
    ("options", "origin"),
    [
        (spark_options({}, master="yarn", conf=[]), "--master yarn"),
        (spark_options({"BLIZZARD_MASTER": "yarn"}, master=None, conf=[]), "BLIZZARD_MASTER yarn"),
        (spark_options({}, master=None, conf=["spark.master=yarn"]), "--spark-conf spark.master yarn"),
    ],
)
def test_the_local_engine_on_a_cluster_is_refused_and_the_error_names_both(options: SparkOptions, origin: str) -> None:
    with pytest.raises(ConfigError, match=f"--engine local: expected spark, or no --engine, with {origin}: "):
        options.engine("local")


def test_the_command_line_has_precedence_over_the_environment() -> None:
    environ = {
        "BLIZZARD_MASTER": "yarn",
        "BLIZZARD_SPARK_CONF": "spark.a=1 'spark.b=two words' spark.master=local[2]",
    }
    options = spark_options(environ, master="spark://a:1", conf=["spark.a=3", "spark.c=x=y"])
    assert options.master == "spark://a:1"
    assert options.conf == {"spark.a": "3", "spark.b": "two words", "spark.c": "x=y"}
    assert spark_options(environ, master=None, conf=[]).master == "local[2]"
    assert spark_options({**environ, "BLIZZARD_SPARK_CONF": ""}, master=None, conf=[]).master == "yarn"
    assert spark_options({"BLIZZARD_MASTER": ""}, master=None, conf=[]) == SparkOptions()


@pytest.mark.parametrize("text", ["spark.a", "=1", ""])
def test_a_setting_without_a_key_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--spark-conf: expected KEY=VALUE, such as spark\.driver\.memory=2g, found"):
        spark_options({}, master=None, conf=[text])


@pytest.mark.parametrize("text", ["spark.a", "'spark.a=1"])
def test_settings_of_the_environment_are_words_of_a_shell(text: str) -> None:
    with pytest.raises(ConfigError, match="BLIZZARD_SPARK_CONF: expected KEY=VALUE"):
        spark_options({"BLIZZARD_SPARK_CONF": text}, master=None, conf=[])
