"""What a table requires of its rows: a record that violates it is a dead letter, and the batch goes on."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StructField, StructType

from blizzard.errors import PermanentError
from spark_job.engines.local.schema_commit import schema_actions
from spark_job.engines.local.transaction import describe
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.columns import SOURCE_COLUMN
from spark_job.table.file_layout import TableDescription
from spark_job.table.row_rules import row_rules
from spark_job.table.schema import columns_of
from tests.spark.engine_lake import EngineLake
from tests.unit.table_lake import change_metadata, lake, newest, reasons, set_properties, told

__all__ = ["lake"]

CHECKS = {"minReaderVersion": 1, "minWriterVersion": 3}
GENERATES = {"minReaderVersion": 1, "minWriterVersion": 4}


def test_a_record_that_violates_a_constraint_is_a_dead_letter_and_the_batch_goes_on(lake: EngineLake) -> None:
    lake.table_settings = {"constraints": {"Positive": "n >= 0"}}
    texts = ['{"id": "a", "n": 1}', '{"n": -1, "id": "b"}', '{"id": "c"}', '{"id": "d", "n": 0, "x": 7}']
    lake.put("f.ndjson", *texts)
    assert lake.run().commits == 1
    assert lake.ids() == ["a", "d"]
    label = "constraint positive (n >= 0): it is not true for the record"
    assert reasons(lake) == {("f.ndjson", 1): label, ("f.ndjson", 2): label}
    assert [letter["raw"] for letter in lake.letters()] == texts[1:3]
    assert [letter["stage"] for letter in lake.letters()] == ["parse"] * 2
    assert newest(lake, "metaData")["configuration"]["delta.constraints.positive"] == "n >= 0"
    assert newest(lake, "protocol") == CHECKS
    [committed] = lake.logged("batch_committed")
    assert (committed["rows"], committed["dead_records"]) == (2, 2)


def test_a_constraint_that_another_program_has_added_is_checked(lake: EngineLake) -> None:
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    set_properties(lake, CHECKS, delta__constraints__short="length(id) < 3")
    lake.put("2.ndjson", {"id": "long", "n": 1}, {"id": "b", "n": 1})
    lake.run()
    assert lake.ids() == ["a", "b"]
    assert "constraint short (length(id) < 3)" in reasons(lake)["2.ndjson", 0]


def test_a_constraint_added_while_the_batch_is_read_makes_it_read_again(lake: EngineLake) -> None:
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    lake.put("2.ndjson", {"id": "long", "n": 1}, {"id": "b", "n": 1})
    lake.meanwhile["batch_read"] = lambda: set_properties(lake, CHECKS, delta__constraints__short="length(id) < 3")
    lake.run()
    assert lake.ids() == ["a", "b"]
    assert [*reasons(lake)] == [("2.ndjson", 0)]


def test_a_column_that_is_not_null_in_the_table_alone(lake: EngineLake) -> None:
    lake.settings = {"schema": "id STRING, n BIGINT, s STRUCT<a: INT>"}
    lake.put("1.ndjson", {"id": "a", "n": 1, "s": {"a": 1}})
    lake.run()
    inner = {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": False, "metadata": {}}]}
    change_metadata(lake, n={"nullable": False}, s={"type": inner})
    good = {"id": "b", "n": 1, "s": {"a": 1}}
    lake.put("2.ndjson", good, {"id": "c", "s": {"a": 1}}, {**good, "s": None}, {**good, "s": {"a": None}})
    lake.run()
    assert lake.ids() == ["a", "b"]
    assert reasons(lake) == {
        ("2.ndjson", 1): "n: NOT NULL, but it is missing or null (the table requires it)",
        ("2.ndjson", 2): "s.a: NOT NULL, but it is missing or null (the table requires it)",
        ("2.ndjson", 3): "s.a: NOT NULL, but it is missing or null (the table requires it)",
    }


def test_a_column_that_the_table_requires_and_no_record_can_have_is_refused_before_reading(lake: EngineLake) -> None:
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    change_metadata(lake, n={"nullable": False})
    lake.settings = {"schema": "id STRING NOT NULL"}
    lake.put("2.ndjson", {"id": "b", "n": 1})
    with pytest.raises(PermanentError, match="column n: NOT NULL in the table, and the source does not have it"):
        lake.run()
    assert lake.letters() == []


def test_a_field_that_the_table_requires_in_a_struct_that_no_record_can_have_is_refused_too(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """A null struct violates NOT NULL of its fields: every record would become a dead letter."""
    lake.settings = {"schema": "id STRING, s STRUCT<t: STRUCT<a: INT, b: INT>>"}
    lake.put("1.ndjson", {"id": "a", "s": {"t": {"a": 1}}})
    lake.run()
    required = {"name": "a", "type": "integer", "nullable": False, "metadata": {}}
    inner = {"type": "struct", "fields": [required, {**required, "name": "b", "nullable": True}]}
    middle = {"type": "struct", "fields": [{"name": "t", "type": inner, "nullable": True, "metadata": {}}]}
    change_metadata(lake, s={"type": middle})
    lake.settings = {"schema": "id STRING"}
    lake.put("2.ndjson", {"id": "b"})
    refused = "column s.t.a: NOT NULL in the table, and the source does not have it"
    assert told(lake, capsys)[1]["refused"] == [refused]
    with pytest.raises(PermanentError, match=refused):
        lake.run()
    assert lake.letters() == []


def test_generated_columns_get_their_values_and_others_are_refused(lake: EngineLake) -> None:
    lake.settings = {"schema": "id STRING, n BIGINT, d STRING, t STRING"}
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    change_metadata(
        lake,
        protocol=GENERATES,
        d={"metadata": {"delta.generationExpression": "substring(id, 1, 1)"}},
        t={"metadata": {"delta.generationExpression": "lower(id)"}},
    )
    lake.settings = {"schema": "id STRING, n BIGINT, t STRING"}
    lake.put("2.ndjson", {"id": "BC", "n": 1, "t": "bc"}, {"id": "D", "n": 1, "t": "D"}, {"n": 1})
    lake.run()
    assert [(row["id"], row["d"], row["t"]) for row in lake.rows()[1:]] == [("BC", "B", "bc"), (None, None, None)]
    label = "column t, which the table generates as lower(id): the record has another value"
    assert reasons(lake) == {("2.ndjson", 1): label}


def test_the_empty_text_of_a_partition_column_is_null_as_the_table_stores_it(lake: EngineLake) -> None:
    lake.table_settings = {"partition_by": ["id"], "constraints": {"named": "id IS NOT NULL"}}
    lake.settings = {"schema": "id STRING, n BIGINT"}
    lake.put("1.ndjson", {"id": "", "n": 1}, {"id": "a", "n": 1})
    lake.run()
    assert lake.ids() == ["a"]


def test_what_sparks_writer_fills_is_checked_by_it_and_the_rest_before() -> None:
    """A column with a default has no value yet; a constraint that only has a word like it does not wait for it."""
    schema = StructType([*columns_of("id STRING").fields, StructField("n", LongType(), True, {"CURRENT_DEFAULT": "7"})])
    properties = {"delta.constraints.a": "length(id) < 3", "delta.constraints.b": "n > 0 AND `id` <> ''"}
    table = TableDescription(schema, (), properties, 7, frozenset())
    rules = row_rules(table, [*columns_of("id STRING").fields, SOURCE_COLUMN], {})
    assert [check.sql for check in rules.checks] == ["length(id) < 3"]
    both = row_rules(table, [*columns_of("id STRING, n BIGINT").fields, SOURCE_COLUMN], {})
    assert len(both.checks) == 2


def test_a_constraint_that_only_spark_evaluates_is_left_to_it_with_nothing_committed(lake: EngineLake) -> None:
    lake.table_settings = {"constraints": {"even": "n % 2 = 0"}}
    lake.put("1.ndjson", {"id": "a", "n": 1})
    with pytest.raises(NeedsSpark, match=r"constraint even \(n % 2 = 0\)"):
        lake.run()
    assert lake.versions() == []
    assert [*lake.table.rglob("*.parquet")] == []


def test_a_constraint_is_added_to_a_table_by_spark_alone(lake: EngineLake) -> None:
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    lake.table_settings = {"constraints": {"positive": "n > 0"}}
    lake.put("2.ndjson", {"id": "b", "n": 1})
    with pytest.raises(NeedsSpark, match="adding constraint positive"):
        lake.run()


def test_a_protocol_that_names_its_features_still_has_constraints(lake: EngineLake) -> None:
    """With a first TIMESTAMP_NTZ that files bring, the table names what its version stood for before."""
    lake.table_settings = {"constraints": {"positive": "n > 0"}}
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    schema = columns_of("id STRING, n BIGINT, t TIMESTAMP_NTZ")
    table = DeltaTable(str(lake.table))
    actions = schema_actions(table, replace(describe(table), schema=schema), 0, "", {"app": 1})
    [protocol] = [action["protocol"] for action in actions if "protocol" in action]
    assert "checkConstraints" in protocol["writerFeatures"]


def test_a_constraint_of_the_same_name_with_another_condition_is_refused(lake: EngineLake) -> None:
    lake.table_settings = {"constraints": {"positive": "n >= 0"}}
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    lake.table_settings = {"constraints": {"positive": "n > 0"}}
    lake.put("2.ndjson", {"id": "b", "n": 1})
    with pytest.raises(PermanentError, match=r"constraint positive: expected n > 0, found n >= 0 .* DROP CONSTRAINT"):
        lake.run()


@pytest.mark.parametrize(
    ("settings", "file", "body", "raw"),
    [
        ({"format": "csv"}, "f.csv", b"id,n\na,1\nb,-1\n", "b,-1"),
        ({"format": "json"}, "f.json", b'[{"id": "a", "n": 1}, {"n": -1, "id": "b"}]', '{"n": -1, "id": "b"}'),
    ],
)
def test_the_letter_of_any_format_shows_the_record(
    lake: EngineLake, settings: dict[str, str], file: str, body: bytes, raw: str
) -> None:
    lake.settings, lake.table_settings = settings, {"constraints": {"positive": "n >= 0"}}
    lake.put_bytes(file, body)
    lake.run()
    assert lake.ids() == ["a"]
    assert [letter["raw"] for letter in lake.letters()] == [raw]
