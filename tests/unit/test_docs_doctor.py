"""Every check of `blizzard doctor` is documented and tested, and what it advises to read exists."""

import ast
import re
from collections import Counter
from pathlib import Path

from blizzard.cli import COMMANDS
from blizzard.doctor import configuration, leftovers, runs, state, storage, table, topics
from blizzard.doctor.aws import checks as aws
from blizzard.doctor.check import Result, ok
from blizzard.doctor.report import AREAS, Report
from tests.unit.doctor_world import ingested
from tests.unit.documents import ROOT, anchors, python_files, section, text, words

IDS = [
    *(
        check.id
        for checks in (
            configuration.CHECKS,
            storage.BUCKET_CHECKS,
            storage.SOURCE_CHECKS,
            storage.TABLE_CHECKS,
            table.CHECKS,
            leftovers.TABLE_CHECKS,
            state.CHECKS,
            leftovers.SOURCE_CHECKS,
            runs.CHECKS,
            topics.CHECKS,
        )
        for check in checks
    ),
    *aws.IDS,
]
HEADINGS = {
    "configuration": "Configuration",
    "storage": "Storage",
    "table": "Tables",
    "state": "State",
    "topics": "Topics",
    "aws": "AWS",
}


def documented() -> Counter[str]:
    """The ids in the first cells of the page's tables."""
    rows = re.findall(r"^\| (`[a-z]+\.[^|]+) \|", text("docs/doctor.md"), re.MULTILINE)
    return Counter(name for row in rows for name in re.findall(r"`([^`]+)`", row))


def test_there_are_many_checks_each_with_an_id_of_its_own() -> None:
    assert len(IDS) == len({*IDS}) >= 30
    assert {each.partition(".")[0] for each in IDS} == {*AREAS} == {*HEADINGS}


def test_every_check_is_documented_once_and_in_its_section() -> None:
    assert documented() == Counter(IDS)
    for each in IDS:
        assert each in words(section("docs/doctor.md", f"## {HEADINGS[each.partition('.')[0]]}")), each


def test_every_check_is_named_by_a_test() -> None:
    tests = "".join(file.read_text() for file in python_files("tests") if "doctor" in file.name)
    assert [each for each in IDS if f'"{each}"' not in tests] == []


def test_sections_and_commands_that_checks_advise_exist() -> None:
    said = [
        node.value
        for file in python_files("blizzard/doctor")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = [match for each in said for match in re.findall(r"(docs/[a-z0-9-]+\.md)(?:#([a-z0-9_-]+))?", each)]
    assert len(named) > 20
    for page, anchor in named:
        assert not anchor or anchor in anchors(ROOT / page), (page, anchor)
    commands = {command for each in said for command in re.findall(r"`blizzard ([a-z]+)", each)}
    assert commands <= {*COMMANDS}


def test_every_field_of_the_json_is_documented() -> None:
    document = Report("f", None, 0.0, [Result("a.b", "f", ok(""))]).as_document()
    fields = {*document, *document["checks"][0], *document["counts"]}
    assert fields <= words(section("docs/cli.md", "## `blizzard doctor`"))


def test_the_examples_have_as_many_checks_as_there_are_for_one_source(tmp_path: Path) -> None:
    count = len(ingested(tmp_path).examine())
    page, counts = text("docs/doctor.md"), section("docs/cli.md", "## `blizzard doctor`").partition('"counts"')[2]
    (line,) = re.findall(r"^(\d+) ok, (\d+) warning, (\d+) problems, (\d+) skipped", page, re.MULTILINE)
    in_json = re.findall(r'"(?:ok|warning|problem|skipped)": (\d+)', counts.partition("}")[0])
    assert [sum(map(int, line)), sum(map(int, in_json))] == [count, count]
