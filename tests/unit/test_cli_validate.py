"""The `blizzard` command, `blizzard validate` and `blizzard schema`, as their user sees them."""

import json
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

import blizzard.cli
from blizzard.cli import COMMANDS, main
from blizzard.config.json_schema import json_schema
from blizzard.errors import BlizzardError, ConfigError
from blizzard.setup import spark_here
from blizzard.setup.java import find_java

ROOT = Path(__file__).parents[2]
GOOD = """\
pipelines:
  events:
    table_uri: s3://lake/events
    sources:
      landing: {uri: s3://landing/raw, schema: id STRING, pattern: "**/*.gz"}
      logs: {uri: s3://landing/logs, format: text}
"""
BAD = GOOD.replace("pattern:", "patern:").replace("s3://lake", "${LAKE}")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pipelines.yaml"


def test_a_valid_file_gives_a_line_for_each_source(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD)
    assert main(["validate", "pipelines.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "events:landing: ndjson from s3://landing/raw/ (**/*.gz) into s3://lake/events",
        "events:logs: text from s3://landing/logs/ (**) into s3://lake/events",
    ]


def test_topics_are_named_with_their_brokers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = {"one": "topics: [a]", "two": "topics: [a, b]", "any": 'topic_pattern: "a-.*"'}
    lines = [
        f'      {name}: {{kafka: {{bootstrap_servers: "b:9092", {each}}}, format: text}}'
        for name, each in topics.items()
    ]
    file.write_text("\n".join(["pipelines:", "  p:", "    table_uri: s3://lake/t", "    sources:", *lines]))
    assert main(["validate", "pipelines.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "p:one: text from topic a of b:9092 into s3://lake/t",
        "p:two: text from topics a, b of b:9092 into s3://lake/t",
        "p:any: text from topics that match a-.* of b:9092 into s3://lake/t",
    ]
    assert main(["validate", "--json", "pipelines.yaml"]) == 0
    shown = json.loads(capsys.readouterr().out)["sources"][0]["kafka"]
    assert shown == {"bootstrap_servers": "b:9092", "topics": ["a"], "topic_pattern": None}


def test_an_invalid_file_gives_every_problem_and_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(BAD)
    assert main(["validate", "pipelines.yaml"]) == 2
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.startswith("pipelines.yaml:3: pipelines.events.table_uri: variable LAKE is not set; set it")
    assert second.startswith("pipelines.yaml:5: pipelines.events.sources.landing.patern: unknown key")
    assert total == "pipelines.yaml: 2 problems"


LEFT = """\
    cluster_by: [id]
    constraints: {odd: id2 % 2 = 1}
    sources:
      landing:
        uri: s3://landing/raw
        schema: id STRING, id2 INT
        on_overwrite: replace
        derive: {low: lower(id), twice: id2 * 2}
"""


@pytest.fixture
def with_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has what Spark needs. Returns the folder of jars."""
    java, jars = tmp_path / "java", tmp_path / "jars"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch()
    (java / "release").write_text('JAVA_VERSION="17.0.1"\n')
    jars.mkdir()
    (jars / "delta.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(java))
    monkeypatch.setenv("BLIZZARD_JARS", str(jars))
    return jars


@pytest.mark.usefixtures("with_spark")
def test_what_the_local_engine_refuses_is_a_warning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = GOOD[: GOOD.index("    sources:")]
    for engine in ("auto", "spark", "local"):
        file.write_text(f"{start}    engine: {engine}\n{LEFT}")
        assert main(["validate", "pipelines.yaml"]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
        assert main(["validate", "pipelines.yaml", "--json"]) == 0
        warnings = json.loads(capsys.readouterr().out)["warnings"]
        assert lines == [f"events: warning: {one['text']}" for one in warnings]
        if engine != "local":
            assert warnings == []
            continue
        assert [line.partition("refuses ")[2].partition(",")[0] for line in lines] == [
            "making a table with `cluster_by`: Spark is needed for it",
            "`on_overwrite: replace` of source landing",
            "column twice of source landing",
            "constraint odd",
        ]


@pytest.fixture(params=["jars", "Java"])
def lacking(request: pytest.FixtureRequest, tmp_path: Path, with_spark: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a machine without Spark says that it lacks."""
    if request.param == "jars":
        (with_spark / "delta.jar").unlink()
        return f"Spark needs Delta's jars, and found no jar in {with_spark}; run `"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(spark_here, "find_java", partial(find_java, tmp_path / "jvm"))
    return "Blizzard needs Java 17 or 21 for Spark, and found no Java at all: "


def test_what_only_spark_does_is_a_warning_on_a_machine_without_it(
    file: Path, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    start = GOOD[: GOOD.index("    sources:")]
    for engine, count in (("auto", 4), ("spark", 0)):
        file.write_text(f"{start}    engine: {engine}\n{LEFT}")
        assert main(["validate", "pipelines.yaml", "--json"]) == 0
        warnings = [one["text"] for one in json.loads(capsys.readouterr().out)["warnings"]]
        assert len(warnings) == count
        if warnings:
            assert warnings[1].startswith(
                "Spark is needed for `on_overwrite: replace` of source landing, once one of its files is overwritten, "
                f"and a run on this machine ends with an error then: {lacking}"
            )
    file.write_text(GOOD)
    assert main(["validate", "pipelines.yaml"]) == 0
    assert "warning" not in capsys.readouterr().out


def test_variables_come_from_the_environment(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", "s3://sea")
    file.write_text(GOOD.replace("s3://lake", "${LAKE}"))
    assert main(["validate", str(file)]) == 0
    assert "into s3://sea/events" in capsys.readouterr().out


def test_a_missing_file_is_an_input_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "pipelines.yaml"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("pipelines.yaml: cannot be read: No such file or directory; expected the path")
    assert out.endswith("pipelines.yaml: 1 problem\n")


def answer(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> Any:
    file.write_text(text)
    code = main(["validate", "--json", "pipelines.yaml"])
    found = json.loads(capsys.readouterr().out)
    assert code == (0 if found["valid"] else 2)
    return found


def test_validate_prints_json_for_programs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(file, GOOD, capsys)
    assert (found["valid"], found["problems"], len(found["sources"])) == (True, [], 2)
    assert found["sources"][0] == {
        "id": "events:landing",
        "uri": "s3://landing/raw/",
        "pattern": "**/*.gz",
        "kafka": None,
        "format": "ndjson",
        "table_uri": "s3://lake/events",
        "derive": [],
        "constraints": [],
    }


def test_validate_prints_each_problem_as_json_fields(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(file, BAD, capsys)
    assert (found["valid"], found["sources"]) == (False, [])
    problem = found["problems"][0]
    assert (problem["file"], problem["line"], problem["path"]) == ("pipelines.yaml", 3, "pipelines.events.table_uri")
    assert problem["message"] == f"pipelines.yaml:3: pipelines.events.table_uri: {problem['text']}"


# --- The schema ---


def plain(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def fits(text: str) -> bool:
    return jsonschema.Draft202012Validator(json_schema()).is_valid(plain(text))


def test_the_json_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Blizzard pipelines"


def test_each_field_of_the_json_schema_has_a_description() -> None:
    schema = json_schema()
    models = [schema, *schema["$defs"].values()]
    unexplained = [name for model in models for name, field in model["properties"].items() if not field["description"]]
    assert unexplained == []


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda example: example.name)
def test_each_example_is_valid_by_the_json_schema(example: Path) -> None:
    jsonschema.validate(plain(example.read_text()), json_schema(), jsonschema.Draft202012Validator)


@pytest.mark.parametrize("limit", ["5", "1GiB", "'512 MB'", "'${SIZE}'", "1.5KiB"])
def test_sizes_are_valid_by_the_json_schema_as_numbers_texts_and_variables(limit: str) -> None:
    assert fits(GOOD.replace("pattern:", f"limits: {{max_file_bytes: {limit}}}, pattern:"))


@pytest.mark.parametrize(
    "wrong",
    [
        GOOD.replace("pattern:", "patern:"),
        GOOD.replace("format: text", "format: jsonl"),
        GOOD.replace("uri: s3://landing/raw, ", ""),
        GOOD.replace("  events:", "  a b:"),
        GOOD.replace("pattern:", "settle_delay_secs: -1, pattern:"),
        GOOD.replace("pattern:", "limits: {max_file_bytes: 1G}, pattern:"),
        GOOD.replace("pattern:", "limits: {max_file_bytes: 0}, pattern:"),
        GOOD.replace("pattern:", "partition_columns: {d: double}, pattern:"),
    ],
)
def test_a_wrong_value_is_invalid_by_the_json_schema(wrong: str) -> None:
    assert fits(GOOD)
    assert not fits(wrong)


# --- The command itself ---


def test_each_command_is_a_module_and_listed_in_help() -> None:
    names = [path.stem for path in Path(blizzard.cli.__file__).parent.glob("[!_]*.py")]
    commands = {name for name in names if hasattr(import_module(f"blizzard.cli.{name}"), "command")}
    assert {name.replace("_", "-") for name in commands} == set(COMMANDS)


def test_help_lists_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {summary}" in out for name, summary in COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"Usage: blizzard {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["valdate", "x"], ["validate"], ["validate", "--jsn", "x"], ["--nothing"]])
def test_a_wrong_call_is_an_input_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert "Usage: blizzard" in captured.out + captured.err


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError(["line one", "line two"]), 2), (BlizzardError("the table is on fire"), 1)]
)
def test_an_error_is_printed_without_a_traceback(
    error: BlizzardError, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr("blizzard.cli.schema.command", fails)
    assert main(["schema"]) == code
    assert capsys.readouterr().err == f"blizzard: {error}\n"


def test_help_imports_no_command() -> None:
    code = "import sys; from blizzard.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(run.stderr.split())
    assert "blizzard.cli" in loaded
    assert not {f"blizzard.cli.{name}" for name in COMMANDS} & loaded
    assert not {"pydantic", "boto3", "pyspark", "pyarrow"} & loaded


def test_expressions_that_only_spark_knows_are_said_not_to_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipelines.yaml"
    source = {"uri": "landing", "schema": "id STRING, n INT", "derive": {"low": "lower(id)", "odd": "foo(n)"}}
    pipeline = {"table_uri": "lake", "sources": {"s": source}, "constraints": {"k": "n % 2 = 1", "plain": "n > 0"}}
    file.write_text(json.dumps({"pipelines": {"p": pipeline}}))
    assert main(["validate", str(file)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    asks = f"`blizzard validate {file} --ask-spark` starts Spark and asks it"
    assert last == f"2 expressions by Spark were not checked: {asks}"
    assert main(["validate", str(file), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["sources"]
    shown = [(one["name"], one["type"], one["checked"]) for one in (*found["derive"], *found["constraints"])]
    assert shown == [("low", "string", True), ("odd", None, False), ("k", None, False), ("plain", "boolean", True)]


def test_without_an_expression_of_spark_it_is_not_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    file = tmp_path / "pipelines.yaml"
    source = {"uri": "landing", "schema": "id STRING, n INT", "derive": {"low": "lower(id)"}}
    file.write_text(json.dumps({"pipelines": {"p": {"table_uri": "lake", "sources": {"s": source}}}}))
    assert main(["validate", str(file), "--ask-spark"]) == 0
    assert "not checked" not in capsys.readouterr().out


def test_what_waits_for_an_inferred_schema_is_not_left_to_the_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipelines.yaml"
    source = {"uri": "landing", "schema": "infer", "derive": {"odd": "foo(_source.file)"}}
    file.write_text(json.dumps({"pipelines": {"p": {"table_uri": "lake", "sources": {"s": source}}}}))
    assert main(["validate", str(file)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    said = "by Spark, because it has the function foo; checked when `schema: infer` has found the columns"
    assert last == f"p:s: column odd: foo(_source.file): {said}"
