"""The parts of the local AWS without I/O."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.cloudformation.dependency_order import CircularDependency, in_dependency_order
from infra.local.functions.schedules import UnsupportedSchedule, parse_schedule
from infra.local.jobs.request import IMAGE_JARS, JobRequest, conf_of, local_conf, read_request
from infra.local.logs.metrics import MetricFilter, emf_data, filter_data, matches
from infra.template.references import references

NOON = datetime(2026, 1, 14, 12, tzinfo=UTC).timestamp()


def at(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("expression", "after", "fires"),
    [
        ("rate(1 minute)", NOON, NOON + 60),
        ("rate(5 minutes)", NOON + 301, NOON + 600),
        ("rate(2 hours)", NOON + 1, NOON + 7200),
        ("cron(0/5 * * * ? *)", NOON + 1, NOON + 300),
        ("cron(30 6 * * ? *)", NOON, at(2026, 1, 15, 6, 30)),
        ("cron(0 0 ? * 2-6 *)", at(2026, 1, 16, 12), at(2026, 1, 19)),
        ("cron(0 0 1 3,9 ? *)", NOON, at(2026, 3, 1)),
    ],
)
def test_a_schedule_fires_when_its_expression_says(expression: str, after: float, fires: float) -> None:
    assert parse_schedule(expression).next_after(after, NOON) == fires


@pytest.mark.parametrize("expression", ["rate(5 fortnights)", "cron(0 0 L * ? *)", "at(2026-01-01T00:00:00)", "hourly"])
def test_an_unsupported_schedule_is_refused(expression: str) -> None:
    with pytest.raises(UnsupportedSchedule, match="expected"):
        parse_schedule(expression)


RECORD = {"event": "batch_committed", "rows": 12, "source": "events:landing", "deep": {"er": True}, "zero": 0}


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ('{ $.event = "batch_committed" }', True),
        ('{ $.event = "batch_*" && $.rows > 11.5 }', True),
        ('{ $.event != "batch_committed" || $.rows < 12 }', False),
        ('{ ($.event = "x" || $.rows = 12) && $.deep.er IS TRUE }', True),
        ("{ $.zero >= 0 && $.nothing NOT EXISTS }", True),
        ("{ $.nothing > 0 }", False),
        ('{ $.event = "batch" }', False),
    ],
)
def test_a_filter_matches_what_its_pattern_says(pattern: str, holds: bool) -> None:
    assert matches(pattern, RECORD) is holds


@pytest.mark.parametrize("pattern", ["ERROR", "{ $.a }", '{ $.a = "b" ', '{ $.a = "b" } and more', '{ ($.a = "b" }'])
def test_an_unsupported_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        matches(pattern, RECORD)


def test_a_filter_extracts_a_field_or_counts_lines() -> None:
    transformations = (
        {"metricName": "Rows", "metricNamespace": "B", "metricValue": "$.rows", "dimensions": {"source": "$.source"}},
        {"metricName": "Lines", "metricNamespace": "B", "metricValue": "1", "unit": "Count"},
        {"metricName": "Missing", "metricNamespace": "B", "metricValue": "$.none"},
    )
    found = MetricFilter("group", '{ $.event = "batch_committed" }', transformations)
    line = '{"event": "batch_committed", "rows": 12, "source": "s"}'
    assert [(datum["MetricName"], datum["Value"], datum["Dimensions"]) for _, datum in filter_data(found, line)] == [
        ("Rows", 12.0, [{"Name": "source", "Value": "s"}]),
        ("Lines", 1.0, []),
    ]
    assert list(filter_data(found, "no JSON")) == []


def test_embedded_metrics_are_read_with_each_set_of_dimensions() -> None:
    line = (
        '{"_aws": {"CloudWatchMetrics": [{"Namespace": "B", "Dimensions": [["a"], ["a", "b"]], "Metrics": '
        '[{"Name": "N", "Unit": "Count"}]}]}, "a": "1", "b": "2", "N": [3.0, 4.0]}'
    )
    found = [(len(datum["Dimensions"]), datum["Value"], datum["Unit"]) for _, datum in emf_data(line)]
    assert found == [(1, 3.0, "Count"), (1, 4.0, "Count"), (2, 3.0, "Count"), (2, 4.0, "Count")]
    assert list(emf_data('{"event": "no metric"}')) == []


def resources(**depends_on: list[str]) -> dict[str, Any]:
    return {name: {"Type": "T", "Properties": {"X": [{"Ref": one} for one in on]}} for name, on in depends_on.items()}


@given(st.dictionaries(st.integers(0, 20), st.lists(st.integers(0, 20), max_size=4), max_size=20))
def test_resources_are_ordered_after_their_references(graph: dict[int, list[int]]) -> None:
    acyclic = resources(**{f"r{name}": [f"r{one}" for one in on if one < name] for name, on in graph.items()})
    order = in_dependency_order(acyclic)
    assert sorted(order) == sorted(acyclic)
    for name, resource in acyclic.items():
        for other in references(resource["Properties"]):
            assert other not in acyclic or order.index(other) < order.index(name)


def test_a_circular_reference_is_refused_with_its_names() -> None:
    with pytest.raises(CircularDependency, match="a → b → c → a"):
        in_dependency_order(resources(a=["b"], b=["c"], c=["a"]))


def test_references_are_found_in_every_intrinsic_function() -> None:
    value = {
        "A": {"Ref": "one"},
        "B": [{"Fn::GetAtt": ["two", "Arn"]}, {"Fn::GetAtt": "three.Arn"}],
        "C": {"Fn::Sub": "${four}-${five.Arn}-${!literal}"},
        "D": {"Fn::Sub": ["${x}-${six}", {"x": {"Ref": "seven"}}]},
        "E": {"Fn::If": ["Condition", {"Ref": "eight"}, {"Ref": "AWS::NoValue"}]},
    }
    wanted = {"one", "two", "three", "four", "five", "six", "seven", "eight", "AWS::NoValue"}
    assert set(references(value)) == wanted


RUN = {
    "jobDriver": {
        "sparkSubmit": {
            "entryPoint": "s3://a/entry.py",
            "entryPointArguments": ["--config", "s3://a/c.json"],
            "sparkSubmitParameters": (
                "--conf spark.archives=s3://a/job.tar.gz#deps "
                f"--conf spark.jars={IMAGE_JARS}delta-spark.jar,s3://a/logstore.jar "
                "--conf spark.driver.memory=6G --conf 'spark.driver.extraJavaOptions=-Duser.timezone=UTC -Dx=y' "
                "--conf=spark.own=kept --conf spark.emr-serverless.driverEnv.PYTHONPATH=./deps"
            ),
        }
    },
    "configurationOverrides": {
        "monitoringConfiguration": {"cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": "/g"}}
    },
}


def test_a_job_request_is_parsed() -> None:
    request = read_request(RUN)
    assert request.archives == [("s3://a/job.tar.gz", "deps")]
    assert request.jars == [f"{IMAGE_JARS}delta-spark.jar", "s3://a/logstore.jar"]
    assert request.driver_variables == {"PYTHONPATH": "./deps"}
    assert (request.log_group, request.arguments) == ("/g", ("--config", "s3://a/c.json"))


def test_only_machine_specific_settings_replace_requested_ones() -> None:
    conf = local_conf(
        read_request(RUN),
        image=Path("/image"),
        class_path="/jars/a.jar:/jars/b.jar",
        delta_jars=[Path("/delta/d.jar")],
        downloaded={"s3://a/logstore.jar": Path("/run/logstore.jar")},
        java_options=["-Xmine"],
    )
    assert conf["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Xmine")
    assert conf["spark.own"] == "kept"
    assert conf["spark.jars"] == "/delta/d.jar,/run/logstore.jar"
    assert conf["spark.driver.extraJavaOptions"].startswith("-Duser.timezone=UTC -Dx=y ")
    assert (conf["spark.master"], conf["spark.driver.memory"]) == ("local[2]", "1g")
    assert "spark.archives" not in conf


def test_unsupported_parameters_of_spark_submit_are_refused() -> None:
    assert conf_of("") == {}
    with pytest.raises(ValueError, match="expected --conf"):
        conf_of("--py-files s3://a/x.zip")


def test_a_request_without_jars_sets_none() -> None:
    request = JobRequest("s3://a/e.py", (), {}, None, "")
    conf = local_conf(request, image=Path("/i"), class_path="/a.jar", delta_jars=[Path("/d.jar")], downloaded={})
    assert "spark.jars" not in conf
