"""Columns against partitions, and the sources and tables of a configuration against each other."""

import pytest

from tests.unit.config_files import FULL, config, problems, source_lines

# --- Partition columns ---


def partition_by(columns: str, *lines: str) -> list[str]:
    return problems(source_lines("uri: s3://landing", *lines, pipeline=f"    partition_by: {columns}\n"))


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (
            "[dat]",
            "partition_by[0]: found 'dat', which source s does not have; did you mean `date`? expected one of",
        ),
        ("[date, Date]", "partition_by[1]: found 'Date' twice"),
        ("[ID]", "partition_by[0]: found 'ID', which source s does not have"),
        ("[_source]", "partition_by[0]: found '_source'; a partition column cannot begin with `_`"),
        ("[tags]", "partition_by[0]: found 'tags' of type array<string>"),
        ("date", "partition_by: found 'date', expected a list, such as [date]"),
        ("[5]", "partition_by[0]: found 5, expected text"),
    ],
)
def test_a_partition_column_must_be_a_column_of_simple_type(columns: str, what: str) -> None:
    (found,) = partition_by(columns, "schema: id INT, tags ARRAY<STRING>", "partition_columns: {date: date}")
    assert found.startswith("f.yaml:4: pipelines.p.")
    assert what in found


def test_every_source_must_have_the_partition_columns_of_its_table() -> None:
    (found,) = problems(FULL + "      other: {uri: s3://other, schema: id STRING}\n")
    assert found.startswith(
        "f.yaml:4: pipelines.events.partition_by[0]: found 'date', which source other does not have"
    )


def test_partition_columns_may_come_from_the_schema() -> None:
    text = source_lines("uri: s3://landing", "schema: date DATE", pipeline="    partition_by: [date]\n")
    assert config(text).pipelines["p"].partition_by == ["date"]


# --- Sources and tables against each other ---


def places(*pipelines: tuple[str, list[str]]) -> str:
    """Pipelines a, b, … with a table and sources s0, s1, …: each on its own line from line 3."""
    text = "pipelines:\n"
    for name, (table, uris) in zip("abcdef", pipelines, strict=False):
        text += f"  {name}:\n    table_uri: {table}\n    sources:\n"
        text += "".join(f"      s{i}: {{uri: '{uri}', schema: id INT}}\n" for i, uri in enumerate(uris))
    return text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            places(("s3://lake/t", ["s3://landing/x", "s3a://landing/x/"])),
            "f.yaml:6: pipelines.a.sources.s1.uri: found s3://landing/x/, which is the same as pipelines.a",
        ),
        (
            places(("s3://lake/t", ["s3://landing/x/y/z"]), ("s3://lake/u", ["s3://landing/x"])),
            "f.yaml:5: pipelines.a.sources.s0.uri: found s3://landing/x/y/z/, which lies inside pipelines.b.sources.s0",
        ),
        (
            places(("s3://landing/x/t", ["s3://landing/x"])),
            "f.yaml:3: pipelines.a.table_uri: found s3://landing/x/t/, which lies inside pipelines.a.sources.s0",
        ),
        (
            places(("s3://landing/x", ["s3://landing/x"])),
            "f.yaml:3: pipelines.a.table_uri: found s3://landing/x/, which is the same as pipelines.a.sources.s0",
        ),
        (
            places(("s3://lake/t", ["s3://lake/t/in"])),
            "f.yaml:5: pipelines.a.sources.s0.uri: found s3://lake/t/in/, which lies inside the table of pipelines.a",
        ),
        (
            places(("s3://lake/t", ["s3://landing/x"]), ("s3://lake/t/u", ["s3://landing/y"])),
            "f.yaml:7: pipelines.b.table_uri: found s3://lake/t/u/, which lies inside the table of pipelines.a",
        ),
        (
            places(("out", ["/conf"])),
            "f.yaml:3: pipelines.a.table_uri: found file:///conf/out/, which lies inside pipelines.a.sources.s0",
        ),
    ],
)
def test_places_that_overlap_are_reported(text: str, what: str) -> None:
    (found,) = problems(text)
    assert found.startswith(what)


def test_places_side_by_side_are_valid() -> None:
    text = places(("s3://lake/t", ["s3://landing/x", "s3://landing/x-y", "s3://landing/xy"]), ("s3://lake/t-2", ["/x"]))
    assert len(list(config(text).sources())) == 4


def test_each_of_many_overlaps_is_reported() -> None:
    uris = ["s3://landing/x", "s3://landing/x!", "s3://landing/x/a", "s3://landing/x/b", "s3://landing/x/b/c"]
    found = problems(places(("s3://lake/t", uris)))
    assert [line.split(".uri")[0][-2:] for line in found] == ["s2", "s3", "s4"]


def test_two_pipelines_may_feed_one_table() -> None:
    text = places(("s3://lake/t", ["s3://landing/x"]), ("s3a://lake/t/", ["s3://landing/y"]))
    assert {pipeline.table_uri for pipeline, _ in config(text).sources()} == {"s3://lake/t"}


def test_two_pipelines_of_one_table_must_partition_it_alike() -> None:
    text = places(("s3://lake/t", ["s3://landing/x"]), ("s3://lake/t", ["s3://landing/y"]))
    (found,) = problems(text + "    partition_by: [id]\n")
    assert found.startswith(
        "f.yaml:10: pipelines.b.partition_by: found ['id'], but pipeline a partitions the same table"
    )


@pytest.mark.parametrize("line", ["schema: ID BIGINT", "{schema: x INT, partition_columns: {id: bigint}}"])
def test_a_column_must_have_the_same_type_in_all_sources_of_a_table(line: str) -> None:
    other = line if line.startswith("{") else f"{{{line}}}"
    text = places(("s3://lake/t", ["s3://landing/x"])) + f"      other: {{uri: s3://other, {other[1:]}\n"
    (found,) = problems(text)
    assert "is bigint here and int in source a:s0 of the same table; give it one type, or another name" in found


def test_a_column_may_have_different_types_in_different_tables() -> None:
    text = places(("s3://lake/t", ["s3://landing/x"]), ("s3://lake/u", ["s3://landing/y"]))
    assert config(text.replace("landing/y', schema: id INT", "landing/y', schema: id STRING")).pipelines


def test_two_sources_of_a_table_cannot_share_a_state_prefix() -> None:
    text = places(("s3://lake/t", ["s3://x11"]), ("s3://lake/t", ["s3://y11"]))
    text = text.replace("  a:", "  a_b:").replace("  b:", "  a:").replace("s0:", "c:", 1).replace("s0:", "b_c:")
    (found,) = problems(text)
    assert found.startswith(
        "f.yaml:9: pipelines.a.sources.b_c: would keep its state in _blizzard/a_b_c, like pipelines.a_b.sources.c"
    )


def test_one_source_of_a_table_takes_an_app_id_over() -> None:
    def of_topics(*taken: str) -> str:
        kafka = "kafka: {bootstrap_servers: 'b:1', topics: [t], take_over: %s}"
        return "".join(f"      t{i}: {{{kafka % one}, format: envelope}}\n" for i, one in enumerate(taken))

    table = ("s3://lake/t", ["s3://landing/x"])
    (found,) = problems(places(table) + of_topics("kdi", "other", "nothing", "kdi", "nothing"))
    assert found.startswith(
        "f.yaml:9: pipelines.a.sources.t3.kafka.take_over: found kdi, which source a:t0 of the same table takes over"
    )
    beside = places(table, ("s3a://lake/t", ["s3://landing/y"]))
    (found,) = problems(beside.replace("  b:", of_topics("kdi") + "  b:") + of_topics("kdi"))
    assert "pipelines.b.sources.t0.kafka.take_over: found kdi" in found
    another = beside.replace("s3a://lake/t", "s3://lake/u")
    assert config(another.replace("  b:", of_topics("kdi") + "  b:") + of_topics("kdi")).pipelines
