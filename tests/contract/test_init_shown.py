"""What `blizzard init` shows to a person: what it found in a real folder, and what says so, on the terminal and in the
comments of the configuration."""

import gzip
import os
import re
from pathlib import Path

import pytest

from blizzard.cli import main
from tests.contract.landings import LANDINGS

pytestmark = pytest.mark.usefixtures("signals_as_before")

Out = pytest.CaptureFixture[str]
LATER = 2_000_000_000.0
"""In the future: of a local file the later one of its modification and its creation counts."""


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def shown(capfd: Out) -> str:
    assert main(["init", "landing", "--table-uri", "lake/t"]) == 0
    return capfd.readouterr().out


def cells(text: str, first: str) -> list[str]:
    """Of the row of a table that begins with this cell."""
    lines = (line for line in text.splitlines() if line.startswith(("│", "┃")))
    rows = [[cell.strip() for cell in line.replace("┃", "│").strip("│").split("│")] for line in lines]
    [found] = [row for row in rows if row[0] == first]
    return found[1:]


def line_of(name: str) -> str:
    """Of the configuration."""
    lines = map(str.strip, Path("pipelines.yaml").read_text().splitlines())
    [found] = [line for line in lines if line.startswith(name)]
    return found


def put(name: str, text: str = '{"id": 1}\n', *, at: float = LATER, size: int | None = None) -> None:
    file = Path("landing", name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if size is not None:
        os.truncate(file, size)
    os.utime(file, (at, at))


# -- the table of columns


def test_each_column_has_its_type_how_often_it_was_seen_examples_and_conflicts(capfd: Out) -> None:
    put("a.ndjson", '{"id": 1, "ref": "R-1", "at": "2026-11-21"}\n{"id": 2, "ref": 7}\n{"id": 3, "ref": "R-3"}\n')
    text = shown(capfd)
    assert cells(text, "column") == ["type", "seen in", "examples", "conflicts"]
    assert cells(text, "id") == ["BIGINT", "3 of 3", "1, 2, 3", ""]
    assert cells(text, "ref") == ["STRING", "3 of 3", "R-1, 7, R-3", "STRING 2, BIGINT 1"]
    assert cells(text, "at") == ["DATE", "1 of 3", "2026-11-21", ""]


def test_conflicts_inside_of_a_column_are_named_at_their_place(capfd: Out) -> None:
    put("a.ndjson", '{"s": {"x": 1}, "l": [1, "a"]}\n{"s": {"x": "one"}, "l": []}\n')
    text = shown(capfd)
    assert cells(text, "s") == ["STRUCT<x: STRING>", "2 of 2", '{"x": 1}, {"x": "one"}', "s.x BIGINT 1, s.x STRING 1"]
    assert cells(text, "l") == ["ARRAY<STRING>", "2 of 2", '[1, "a"], []', "l[] BIGINT 1, l[] STRING 1"]


def test_of_many_columns_each_is_shown(capfd: Out) -> None:
    names = [f"c{number:03d}" for number in range(250)]
    put("a.csv", ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n" + ",".join("2" for _ in names) + "\n")
    text = shown(capfd)
    assert [cells(text, name)[:3] for name in names] == [["BIGINT", "2 of 2", "1, 2"]] * 250


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_narrow_terminal_no_line_is_longer_and_nothing_is_lost(
    width: int, capfd: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    LANDINGS["github_events"](Path("landing"))
    text = shown(capfd)
    tables = [line for line in text.splitlines() if line[:1] in [*"┏┃┡│└"]]
    assert max(map(len, tables)) <= width
    rows = [line.strip("│┃").replace("┃", "│").split("│") for line in tables if line[0] in "│┃"]
    settings = ["".join(row[at] for row in rows if len(row) == 3) for at in range(3)]
    columns = ["".join(row[at] for row in rows if len(row) == 5) for at in range(5)]
    settings, columns = ([cell.replace(" ", "") for cell in some] for some in (settings, columns))
    assert settings[0] == "settingpatternformatcompressionNOTNULLsettle_delay_secscheckpointpartition_by"
    assert "bythecontentofall4filesthatwereopened" in settings[2]
    assert columns[0] == "columnidtypeactorrepopayloadpubliccreated_atorg"
    assert columns[1].endswith("BOOLEANTIMESTAMPSTRUCT<id:BIGINT>")
    assert columns[2] == "seenin" + "120of120" * 7 + "24of120"


def test_on_a_narrow_terminal_a_long_word_is_not_cut(capfd: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    LANDINGS["cloudtrail"](Path("landing"))
    rows = [line.strip("│").split("│") for line in shown(capfd).splitlines() if line.startswith("│")]
    found = "".join(row[1].strip() for row in rows if len(row) == 3)
    assert "AWSLogs/007000000001/CloudTrail/eu-west-1/%Y/%m/%d," in found


# -- how files are read


def test_format_and_compression_are_shown_with_how_many_files_say_so(capfd: Out) -> None:
    LANDINGS["github_events"](Path("landing"))
    text = shown(capfd)
    assert cells(text, "pattern")[0] == "**/*.json.gz"
    assert cells(text, "format") == ["ndjson", "by the content of all 4 files that were opened"]
    assert cells(text, "compression") == ["auto, by extension", "the names say what the content is"]
    assert line_of("format:") == "format: ndjson  # by the content of all 4 files that were opened"


def test_a_compression_that_the_names_do_not_say_is_shown(capfd: Out) -> None:
    for number in range(2):
        put(f"{number}.ndjson")
        Path("landing", f"{number}.ndjson").write_bytes(gzip.compress(b'{"id": 1}\n{"id": 2}\n'))
    assert cells(shown(capfd), "compression") == ["gzip", "by content; the names say another one"]
    assert line_of("compression:") == "compression: gzip  # by content; the names say another one"


def test_files_of_another_kind_are_in_the_count(capfd: Out) -> None:
    for number in range(3):
        put(f"{number}.json", '{"id": 1}\n{"id": 2}\n')
    put("3.json", "<html><body></body></html>")
    assert cells(shown(capfd), "format") == ["ndjson", "by the content of 3 of the 4 files that were opened"]


def test_each_option_of_csv_is_shown_with_its_reason(capfd: Out) -> None:
    LANDINGS["european_csv"](Path("landing"))
    text = shown(capfd)
    options = {
        "delimiter": (";", "divides 100% of the lines alike, in 3 of 3 files"),
        "decimal_point": (",", "20 different numbers have a comma, and 0 a point"),
        "date_format": ("%d.%m.%Y", "fits all values of Datum"),
        "timestamp_format": ("%d.%m.%Y %H:%M", "fits all values of Bezahlt am"),
        "encoding": ("cp1252", "a guess: the bytes are not UTF-8"),
    }
    for name, (value, why) in options.items():
        assert cells(text, f"csv.{name}") == [value, why]
        assert line_of(f"{name}:").endswith(f"  # {why}")
    assert cells(text, "fields") == [
        "Rechnungs_Nr: Rechnungs Nr, Bezahlt_am: Bezahlt am",
        "a table cannot have the names of these keys, or only by column mapping",
    ]


def test_names_in_place_of_those_in_the_files_are_shown_with_their_reason(capfd: Out) -> None:
    put("a.csv", "id,name,name\n1,Ana,Bern\n2,Bob,Ulm\n")
    text = shown(capfd)
    assert cells(text, "csv.header") == ['["id", "name", "name_2"]', "in place of the names in the files"]
    assert cells(text, "csv.skip_rows") == ["1", "the names in the files"]


def test_where_the_records_are_is_shown(capfd: Out) -> None:
    LANDINGS["cloudtrail"](Path("landing"))
    text = shown(capfd)
    assert cells(text, "json.records") == ["Records", "the array in 3 of 3 files"]
    template, why = cells(text, "partition_filter")
    assert template.startswith("AWSLogs/007000000001/CloudTrail/eu-west-1/%Y/%m/%d, lookback ")
    assert why == "lookback reaches back to the oldest file; lower it after the first run"


# -- folders, times, sizes


def test_columns_of_folders_have_their_types(capfd: Out) -> None:
    LANDINGS["parquet_exports"](Path("landing"))
    text = shown(capfd)
    assert cells(text, "partition_columns") == ["year int, month int, day int", "from the names of the folders"]
    [none, why] = cells(text, "partition_by")
    assert none == "none"
    assert re.fullmatch(r"[0-9,]+ bytes are faster to read in one piece", why)


def test_the_delay_is_found_in_the_times_of_the_files_of_a_folder(capfd: Out) -> None:
    for number in range(60):
        put(f"{number:03d}.ndjson", at=LATER + 10 * number)
    put("030.ndjson", at=LATER + 10 * 31 + 390)
    text = shown(capfd)
    late = "a file came up to 390 seconds after one that sorts behind it; this is twice as long"
    assert cells(text, "settle_delay_secs") == ["780", late]
    assert line_of("settle_delay_secs:") == f"settle_delay_secs: 780  # {late}"
    assert main(["validate", "pipelines.yaml"]) == 0


def test_the_default_delay_is_shown_with_what_the_times_say(capfd: Out) -> None:
    for number in range(3):
        put(f"{number:03d}.ndjson", at=LATER + 10 * number)
    assert cells(shown(capfd), "settle_delay_secs") == ["60, the default", "no file came late"]
    assert "settle_delay_secs" not in Path("pipelines.yaml").read_text()


def test_many_small_files_of_a_folder_become_large_batches(capfd: Out) -> None:
    for number in range(1_001):
        put(f"{number:04d}.ndjson")
    assert cells(shown(capfd), "checkpoint") == ["interval_files 10,000", "a file has 10 bytes on average"]
    assert line_of("checkpoint:") == "checkpoint: {interval_files: 10000}  # a file has 10 bytes on average"
    assert main(["validate", "pipelines.yaml"]) == 0


def test_large_files_of_a_folder_become_batches_of_some(capfd: Out) -> None:
    for number in range(2):
        put(f"{number}.ndjson", '{"id": 1}\n' * 10_000, size=300 << 20)
    assert main(["init", "landing", "--table-uri", "lake/t", "--sample-bytes", "65536"]) == 0
    text = capfd.readouterr().out
    why = "a file has 314,572,800 bytes on average"
    assert cells(text, "checkpoint") == ["interval_bytes 4,294,967,296", why]
    assert line_of("checkpoint:") == f"checkpoint: {{interval_bytes: 4294967296}}  # {why}"


def test_columns_that_all_records_have_are_shown_and_left_to_the_reader(capfd: Out) -> None:
    put("a.ndjson", '{"id": 1}\n' * 119 + '{"id": 2, "label": "x"}\n')
    assert cells(shown(capfd), "NOT NULL") == ["left to you", "all of the 120 records have id"]


def test_a_proposal_to_cluster_is_shown(capfd: Out) -> None:
    for number in range(2):
        put(f"{number}.ndjson", '{"at": "2026-11-21T10:00:00Z"}\n' * 4_000, size=6 << 30)
    assert main(["init", "landing", "--table-uri", "lake/t", "--sample-bytes", "65536"]) == 0
    why = "no partition_by: no folder says the date of its files; all records have this time"
    assert cells(capfd.readouterr().out, "cluster_by") == ["perhaps at", why]


def test_each_pattern_of_mixed_files_has_its_own_rows(capfd: Out) -> None:
    LANDINGS["mixed_junk"](Path("landing"))
    text = shown(capfd)
    assert cells(text, "format of **/*.ndjson") == ["ndjson", "by the content of the file that was opened"]
    assert cells(text, "format of **/*.csv") == ["csv", "by the content of the file that was opened"]
