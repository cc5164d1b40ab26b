"""docs/deploy.md and docs/operate.md against the template and against arithmetic."""

import json
import re
from pathlib import Path

import pytest

from blizzard.prices.price_list import read_prices
from infra.package.build import ROOT
from infra.package.contents import EMR_RELEASE
from infra.package.manifest import Artifact, BuildManifest
from infra.prices.__main__ import bills
from infra.prices.bills import as_markdown, total
from infra.probe.log_lines import Found
from infra.probe.report import Report
from infra.probe.run import ProbeRun
from infra.publish.release import make_release
from infra.publish.stack_config import Buckets, Landing
from infra.template.evaluated import as_list, as_text
from infra.template.references import references
from infra.template.translate import parse
from tests.unit.documents import calls, first_texts, section, words

PAGE = "\n".join((ROOT / "docs" / name).read_text() for name in ("deploy.md", "operate.md"))
TEMPLATE = (ROOT / "template.yaml").read_text()


def parameters() -> dict[str, str]:
    """Of the template, each with its text."""
    section = re.search(r"^Parameters:\n(.*?)^\w", TEMPLATE, re.MULTILINE | re.DOTALL)
    assert section is not None
    found = re.split(r"^  (\w+):\n", section[1], flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]


def test_every_parameter_of_the_template_is_explained() -> None:
    explained = {name for row in rows("What is created") for name in re.findall(r"`([A-Z]\w+)`", row[0])}
    assert explained == set(parameters())


def test_the_documented_defaults_are_the_templates() -> None:
    texts = parameters()
    shown = 0
    for row in rows("What is created"):
        names = re.findall(r"`([A-Z]\w+)`", row[0])
        values = [value.strip(" `") for value in row[1].split(",")]
        if names and len(values) == len(names) and re.fullmatch(r"[\w.-]*\d[\w.-]*|create", values[0]):
            defaults = [re.search(r"^    Default: \"?([^\"\n]*)", texts[name], re.MULTILINE) for name in names]
            assert [default and default[1] for default in defaults] == values
            shown += len(names)
    assert shown >= 15


def test_published_parameters_exist_in_the_template_and_match_its_patterns() -> None:
    names = {"job_entry": "entry-0a1b.py", "job_archive": "job-0a1b.tar.gz", "log_store": "logstore-0a1b.jar"}
    build = BuildManifest("ARM64", "", {name: Artifact(name, "", key, "", 0) for name, key in names.items()})
    buckets = Buckets((Landing("landing", "raw-events/"), Landing("other", "in/"), Landing("third")), "lake")
    release = make_release(build, config_key="config-0a1b.json", buckets=buckets, location=("arts", "some/prefix/"))
    texts = parameters()
    assert set(release.parameters) <= set(texts)
    for name, value in release.parameters.items():
        pattern = re.search(r"^    AllowedPattern: (.+)$", texts[name], re.MULTILINE)
        allowed = re.search(r"^    AllowedValues: \[(.+)\]$", texts[name], re.MULTILINE)
        assert pattern is None or re.fullmatch(pattern[1], value)
        assert allowed is None or value in allowed[1].split(", ")


def test_a_release_and_the_template_agree_on_the_emr_release() -> None:
    names = {"job_entry": "entry-0a1b.py", "job_archive": "job-0a1b.tar.gz", "log_store": "logstore-0a1b.jar"}
    build = BuildManifest("ARM64", "", {name: Artifact(name, "", key, "", 0) for name, key in names.items()})
    release = make_release(build, config_key="c", buckets=Buckets((Landing("landing"),), "lake"), location=("arts", ""))
    assert release.parameters["ReleaseLabel"] == EMR_RELEASE
    assert f"Default: {EMR_RELEASE}\n" in parameters()["ReleaseLabel"]


def test_settings_that_need_a_stopped_application_are_listed() -> None:
    """All other settings of the application never change between deployments of a stack."""
    section = PAGE.split("\n### What only a stopped application takes\n")[1].split("\n## ")[0]
    listed_here = {
        name
        for row in section.splitlines()
        if row[:2] == "| "
        for name in re.findall(r"`([A-Z]\w+)`", row.split("|")[1])
    }
    application = parse(TEMPLATE)["Resources"]["JobApplication"]["Properties"]
    assert listed_here == {name for name in references(application) if not name.startswith("AWS::")}


def test_the_documented_policy_of_an_existing_lake_is_the_templates() -> None:
    section = PAGE.split("\n## A lake that exists already\n")[1].split("\n## ")[0]
    (shown,) = re.findall(r"<<'END'\n(.*?)^END$", section, re.DOTALL | re.MULTILINE)
    document = parse(TEMPLATE)["Resources"]["LakeBucketPolicy"]["Properties"]["PolicyDocument"]
    for statement in document["Statement"]:
        texts = [as_text(resource) for resource in as_list(statement["Resource"])]
        names = {"${AWS::Partition}": "aws", "${LakeBucketName}": "my-lake"}
        for name, value in names.items():
            texts = [text.replace(name, value) for text in texts]
        statement["Resource"] = texts
    assert json.loads(shown) == document


def test_the_documented_policy_of_a_key_admits_the_services_that_send_to_queues() -> None:
    section = PAGE.split("\n## KMS keys and Lake Formation\n")[1].split("\n## ")[0]
    (shown,) = re.findall(r"<<'END'\n(.*?)^END$", section, re.DOTALL | re.MULTILINE)
    statements = {statement["Sid"]: statement for statement in json.loads(shown)["Statement"]}
    policies = [r["Properties"] for r in parse(TEMPLATE)["Resources"].values() if r["Type"] == "AWS::SQS::QueuePolicy"]
    senders = set(re.findall(r"\w+\.amazonaws\.com", json.dumps(policies)))
    assert set(statements["ServicesSendToEncryptedQueues"]["Principal"]["Service"]) == senders
    (group,) = statements["LogGroupsOfTheStack"]["Condition"]["ArnLike"].values()
    assert group.endswith(":log-group:/blizzard/*")


def tables_of_costs() -> list[list[list[str]]]:
    """Tables of costs, each with its sum in the last row."""
    tables: list[list[list[str]]] = [[]]
    for row in rows("What it costs"):
        if row[0] == "what":
            tables.append([])
        elif not row[0].startswith("-"):
            tables[-1].append(row)
    return tables[1:]


def number(text: str) -> float:
    return float(text.replace(",", "").replace("*", ""))


def test_the_documented_costs_are_those_of_the_price_list() -> None:
    """For another quantity or price, take over the output of `python -m infra.prices`."""
    computed = [[cells(line) for line in as_markdown(items)][2:] for items in bills(read_prices()).values()]
    assert tables_of_costs() == computed


MORE = "What a month with files adds"


def test_the_readme_and_the_first_hour_say_what_an_idle_month_costs() -> None:
    idle, more = (total(bills(read_prices())[title]) for title in ("A month without files", MORE))
    dollars = f"about {idle:.0f} dollars a month"
    assert f"{dollars} while idle and {idle + more:.0f} in use" in (ROOT / "README.md").read_text()
    assert f"the idle stack costs {dollars}, and one in use {more:.0f} more" in PAGE


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("table", tables_of_costs())
def test_the_costs_are_added_up_correctly(table: list[list[str]]) -> None:
    *items, total = table
    for what, quantity, price, amount in items:
        assert number(amount) == pytest.approx(number(quantity) * number(price), abs=0.00501), what
    assert number(total[3]) == pytest.approx(sum(number(item[3]) for item in items), abs=0.001)


def test_the_documented_number_of_alarms_is_the_templates() -> None:
    (alarms,) = [row[1] for row in rows("What is created") if row[0] == "CloudWatch"]
    assert alarms.startswith(f"{TEMPLATE.count('Type: AWS::CloudWatch::Alarm')} alarms")


def test_the_template_refers_to_the_packed_files() -> None:
    shipped = set(re.findall(r"CodeUri: build/functions/(\w+)\.zip", TEMPLATE))
    assert shipped == {file.parent.name for file in Path(ROOT / "functions").glob("*/handler.py")}
    assert TEMPLATE.count("SkipBuild: true") == len(shipped)


def test_the_costs_of_the_first_hour_are_those_of_the_tables() -> None:
    idle, _, _, thousand_probes, thousand_runs = (number(table[-1][3]) for table in tables_of_costs())
    costs = {row[1]: row[2] for row in ([c.strip() for c in line.split("|")[1:]] for line in first_hour())}
    assert f"{idle / 730 * 100:.1f} cents an hour" in costs["[`sam build && sam deploy --guided`](#5-deploy)"]
    assert costs["`make probe STACK=blizzard`"].startswith(f"{thousand_probes / 10:.1f} cents")
    assert costs["[drop one file](#does-it-work)"].startswith(f"{thousand_runs / 10:.1f} cents")


def first_hour() -> list[str]:
    return [
        line for line in section("docs/deploy.md", "## The first hour").splitlines() if re.match(r"\| \d+ \|", line)
    ]


def test_every_field_of_a_probe_is_explained() -> None:
    shown = words(section("docs/deploy.md", "### What each field means"))
    (logged,) = [call for call in calls("spark_job/probe") if first_texts(call) == ["probed"]]
    fields_of_line = {keyword.arg for keyword in logged.keywords}
    report = Report("s", "a", "g", ProbeRun("r", "SUCCESS", "", 1.0, None), Found(), []).to_dict()
    in_report = {*report["run"], *report["log"]} - {"group"}
    assert {"written", "check_secs", "billed", "last_lines"} <= fields_of_line | in_report
    assert fields_of_line | in_report <= shown
    assert {*report} <= words(section("docs/deploy.md", "### The probe"))
