"""The verdict on a probe: what is wrong, and what to do."""

import copy
import shlex
from dataclasses import replace
from typing import Any

import pytest

from blizzard.doctor.aws.probe_line import Problem, line_problems
from functions.dispatcher.job_request import JobSettings, pipeline_of, start_job_run
from infra.probe.log_lines import Found
from infra.probe.report import Report
from infra.probe.run import ProbeRun, probe_request
from infra.probe.verdict import problems_of
from tests.unit.emr_client import ENVIRONMENT, complaints

SETTINGS = JobSettings.from_environment(ENVIRONMENT)
RUN = ProbeRun("run-1", "SUCCESS", "", 71.0, {"vCPUHour": 0.03, "memoryGBHour": 0.1, "storageGBHour": 0.0})
PROCESS = {
    "python": "3.11.9",
    "executable": "/usr/bin/python3.11",
    "architecture": "aarch64",
    "os": "Amazon Linux 2023",
    "packages": {"pyarrow": "26.0.1"},
    "missing": {},
}
GOOD: dict[str, Any] = {
    "ts": "2026-11-25T10:00:00.000+00:00",
    "event": "probed",
    "id": "abc",
    "driver": PROCESS,
    "executor": {**PROCESS, "missing": {}},
    "jvm": {"spark": "4.1.1-amzn-0", "delta": "4.2.0-amzn-0", "hadoop": "3.4.2-amzn-0", "java": "17.0.15"},
    "jars": {"delta-spark": ["delta-spark.jar"], "blizzard-logstore": ["logstore-0.jar"], "hadoop-aws": ["a", "b"]},
    "log_store": {"s3": "io.github.blizzard.logstore.ConditionalS3LogStore"},
    "written": {
        "table_uri": "s3://lake/events",
        "second_put_refused": True,
        "second_commit_refused": True,
        "winners_of_race": 1,
        "numbers_fenced": True,
        "left_behind": [],
    },
    "rights": {"tried": 10, "denied": []},
    "failed": {},
    "check_secs": {"spark": 9.1},
}


def line(path: str, value: object) -> dict[str, Any]:
    """GOOD with another value at `a.b`."""
    changed = copy.deepcopy(GOOD)
    *folders, name = path.split(".")
    place: Any = changed
    for folder in folders:
        place = place[folder]
    place[name] = value
    return changed


def judged(run: ProbeRun, log: Found) -> list[Problem]:
    return problems_of(run, log, log_group="/blizzard/job", application_id="app", log_secs=120)


def test_a_good_line_of_a_run_that_succeeded_is_no_problem() -> None:
    assert judged(RUN, Found(GOOD, 1.0)) == []


@pytest.mark.parametrize(
    ("path", "value", "check", "said"),
    [
        ("driver.python", "3.9.16", "driver", "Python 3.9.16 (/usr/bin/python3.11), expected 3.11"),
        ("executor.python", "3.12.1", "executor", "expected 3.11"),
        ("executor.missing", {"pyarrow": "ImportError: wrong ELF class"}, "executor", "pyarrow cannot be imported on"),
        ("jvm.spark", "3.5.6", "jvm", "spark 3.5.6, expected 4.1"),
        ("jvm.spark", "4.10.0", "jvm", "spark 4.10.0, expected 4.1"),
        ("jvm.delta", None, "jvm", "delta unknown, expected 4.2"),
        ("jvm.hadoop", "3.4.1-amzn-2", "jvm", "hadoop 3.4.1-amzn-2, expected 3.4.2 or later"),
        ("jars.delta-spark", [], "jars", "delta-spark is not on the class path"),
        ("jars.delta-spark", ["a.jar", "b.jar"], "jars", "more than once: a.jar, b.jar"),
        ("log_store.s3", "io.delta.storage.S3SingleDriverLogStore", "log_store", "expected io.github.blizzard"),
        ("written.second_put_refused", False, "written", "If-None-Match overwrote an object below s3://lake/events"),
        ("written.second_commit_refused", False, "written", "wrote a log entry below s3://lake/events twice"),
        ("written.winners_of_race", 3, "written", "3 of several writers"),
        ("written.winners_of_race", 0, "written", "0 of several writers"),
        ("written.numbers_fenced", False, "written", "without a condition overwrote a numbered object"),
        ("written.left_behind", ["s3://lake/x"], "written", "could not be deleted: s3://lake/x"),
        (
            "rights.denied",
            [{"action": "s3:GetObject", "resource": "s3://landing/*", "error": "S3 answered 403"}],
            "rights",
            "s3:GetObject on s3://landing/* failed: S3 answered 403",
        ),
        ("failed", {"spark": "no JVM"}, "spark", "the check failed: no JVM"),
    ],
)
def test_each_finding_that_is_wrong_is_one_problem_with_advice(path: str, value: object, check: str, said: str) -> None:
    (problem,) = line_problems(line(path, value))
    assert problem.check == check
    assert said in problem.found
    assert problem.advice


def test_a_section_whose_check_failed_is_named_once() -> None:
    empty = dict.fromkeys(("executor", "jvm", "jars", "log_store", "written", "rights"))
    (problem,) = line_problems({**GOOD, **empty, "failed": {"spark": "no JVM"}})
    assert problem.check == "spark"


def test_a_failed_run_shows_its_details_and_the_last_lines() -> None:
    run = replace(RUN, state="FAILED", details="Job failed, please check complete logs.")
    (problem,) = judged(run, Found(last_lines=("blizzard: expected Python 3.11, found 3.9",)))
    assert problem.found.startswith("FAILED: Job failed, please check complete logs. The log's last lines: blizzard: ")
    (problem,) = judged(run, Found())
    assert problem.found.endswith("No log line has arrived.")


def test_a_line_that_never_arrives_says_where_else_to_look() -> None:
    for log, said in ((Found(), "no line of it"), (Found(last_lines=("x",)), "other lines of the run")):
        (problem,) = judged(RUN, log)
        assert problem.found == f"the run succeeded, but within 120 s {problem.found.split('120 s ')[1]}"
        assert said in problem.found
        assert "get-dashboard-for-job-run --application-id app --job-run-id run-1" in problem.advice


@pytest.mark.parametrize(("state", "said"), [("QUEUED", "MaxConcurrentRuns"), ("RUNNING", "EMR Studio")])
def test_a_run_that_does_not_end_says_why_that_may_be(state: str, said: str) -> None:
    (problem,) = judged(replace(RUN, state=state, secs=1200.0), Found())
    assert problem.found == f"still {state} after 1200 s"
    assert said in problem.advice
    assert "cancel-job-run --application-id app --job-run-id run-1" in problem.advice


# --- The request ---


def test_the_run_is_the_dispatchers_except_for_size_name_and_arguments() -> None:
    probe = probe_request(SETTINGS, stack="blizzard", probe_id="abc")
    usual = start_job_run(SETTINGS, pipeline="events", client_token="abc")
    assert complaints("StartJobRun", probe) == ""
    assert pipeline_of(probe["name"]) is None
    submit, usual_submit = (one["jobDriver"]["sparkSubmit"] for one in (probe, usual))
    assert submit["entryPoint"] == usual_submit["entryPoint"]
    assert submit["entryPointArguments"] == ["--probe", "abc", "--config", ENVIRONMENT["BLIZZARD_CONFIG"]]
    conf, usual_conf = (set(shlex.split(one["sparkSubmitParameters"])) for one in (submit, usual_submit))
    assert {one.partition("=")[0] for one in conf ^ usual_conf} == {
        "spark.driver.cores",
        "spark.driver.memory",
        "spark.executor.cores",
        "spark.executor.memory",
        "spark.executor.memoryOverhead",
        "spark.dynamicAllocation.maxExecutors",
    }
    assert "spark.dynamicAllocation.maxExecutors=1" in conf
    assert {name for name in usual if probe[name] != usual[name]} == {
        "name", "executionTimeoutMinutes", "jobDriver", "configurationOverrides",
    }  # fmt: skip


# --- The report ---


def report(log: Found, *problems: Problem) -> Report:
    return Report("blizzard", "app", "/blizzard/job", RUN, log, problems)


def test_the_report_for_people_has_every_finding() -> None:
    text = "\n".join(report(Found(GOOD, 1.5)).lines())
    for said in ("71 s", "arrived after 1.5 s", "4.2.0-amzn-0", "one winner", "10 tried, 0 denied", "0.03 vCPU-hours"):
        assert said in text
    assert text.endswith("all is well")


def test_the_report_for_people_shows_each_problem_and_forges_no_line() -> None:
    text = "\n".join(report(Found(last_lines=("x",)), Problem("run", "FAILED:\nall is well", "Do this.")).lines())
    assert "wrong: run: FAILED:\\nall is well\n  do:  Do this." in text
    assert text.endswith("1 problem")


def test_the_report_for_programs_says_ok_only_without_problems() -> None:
    good = report(Found(GOOD, 1.5)).to_dict()
    assert (good["ok"], good["problems"], good["log"]["arrived"]) == (True, [], True)
    bad = report(Found(last_lines=("x",)), Problem("run", "failed", "Do this.")).to_dict()
    assert (bad["ok"], bad["log"]["arrived"], bad["probe"]) == (False, False, None)
    assert bad["problems"] == [{"check": "run", "found": "failed", "advice": "Do this."}]
