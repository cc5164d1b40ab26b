"""A rebuilt table has the types that the configuration has now."""

from pathlib import Path

from deltalake import DeltaTable

from tests.unit.rebuild_lake import CONFIG, RebuildLake


def test_a_type_that_the_old_table_cannot_take_is_in_the_new_one(tmp_path: Path) -> None:
    """It is the way out that the refusal names."""
    lake = RebuildLake(tmp_path)
    for name in ("a", "b", "deep/c"):
        lake.land(f"{name}.ndjson")
    assert lake.run() == 0
    lake.file.write_text(CONFIG.replace("amount BIGINT", "amount STRING"))
    lake.land("d.ndjson")
    said = list[str]()
    assert lake.run(log=lambda event, **fields: said.append(f"{event} {fields}")) == 1
    [refusal] = [each for each in said if "column amount: expected string, found bigint" in each]
    assert "blizzard rebuild FILE --to URI" in refusal
    for path in (lake.folder / "incoming").rglob("*.ndjson"):
        path.write_text(path.read_text().replace('"amount": ', '"amount": "').replace("}", '"}'))
    assert lake.rebuild_table(swap=False) == 0
    rows = DeltaTable(str(lake.folder / "new")).to_pyarrow_table().to_pylist()
    assert {row["amount"] for row in rows} == {"0", "1", "2"}
    assert len(rows) == 12
