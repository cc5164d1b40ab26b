"""What folders say: columns, and the time of their files."""

from datetime import UTC, datetime

import pytest

from blizzard.infer.folders import lookback, partition_columns, time_template
from blizzard.paths.partition import TimeTemplate, partition_values

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("paths", "types"),
    [
        (["date=2026-11-21/a", "date=2026-11-22/a"], {"date": "date"}),
        (["date=2026-11-21/a", "date=2026-02-30/a"], {"date": "string"}),
        (["year=2026/month=07/day=1/a"], {"year": "int", "month": "int", "day": "int"}),
        (["device=07/a", "device=12/a"], {"device": "string"}),
        (["device=7/a", "device=-12/a"], {"device": "int"}),
        (["id=3000000000/a"], {"id": "bigint"}),
        (["id=9223372036854775808/a"], {"id": "string"}),
        (["id=7/a", "id=__HIVE_DEFAULT_PARTITION__/a"], {"id": "int"}),
        (["id=__HIVE_DEFAULT_PARTITION__/a"], {"id": "string"}),
        (["city=K%C3%B6ln/a"], {"city": "string"}),
        (["a/b"], {}),
    ],
)
def test_columns_have_the_type_that_all_folders_fit(paths: list[str], types: dict[str, str]) -> None:
    found = partition_columns(paths)
    assert found.types == types
    for path in paths:
        partition_values(path, found.types)  # raises if a file were a dead letter


def test_a_folder_that_only_some_files_have_is_no_column() -> None:
    found = partition_columns(["a=1/b=2/x", "a=1/x"])
    assert (found.types, found.incomplete) == ({"a": "int"}, ("b",))


@pytest.mark.parametrize(
    ("paths", "template"),
    [
        (["date=2026-11-21/a", "date=2026-11-22/b"], "date=%Y-%m-%d"),
        (["2026/11/21/07/a"], "%Y/%m/%d/%H"),
        (["year=2026/month=11/day=21/hour=07/a"], "year=%Y/month=%m/day=%d/hour=%H"),
        (["dt=20261121/a"], "dt=%Y%m%d"),
        (["dt=2026112107/a"], "dt=%Y%m%d%H"),
        (["2026-11/a"], "%Y-%m"),
        (["logs/eu/2026/11/a", "logs/eu/2026/12/a"], "logs/eu/%Y/%m"),
        (["100%/2026/11/a"], "100%%/%Y/%m"),
        (["dt=2026-11-21/device=07/a"], "dt=%Y-%m-%d"),
        (["eu/2026/11/a", "us/2026/11/a"], None),
        (["2026/11/a", "other/a"], None),
        (["2026/13/a"], None),
        (["a"], None),
        ([], None),
    ],
)
def test_dated_folders_become_a_template_if_all_files_have_them(paths: list[str], template: str | None) -> None:
    assert time_template(paths) == template


def test_lookback_reaches_the_oldest_folder_and_no_further() -> None:
    steps = lookback("%Y/%m/%d", ["2026/11/20/a", "2026/11/25/b"], NOW)
    assert steps == 7
    dated = TimeTemplate("%Y/%m/%d")
    assert dated.oldest_folder(NOW, steps) == "2026/11/20"
    assert lookback("%Y/%m/%d", ["2027/01/01/a"], NOW) == 1
