"""The pages of the formats: each difference from Spark has its reason, and a test that names it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [file for file in sorted((ROOT / "docs").glob("format-*.md")) if "| Blizzard |" in file.read_text()]
COLUMNS = re.compile(r"^\| \| Spark(?: alone)? \| Blizzard \| why \|$")
MODULES = re.compile(r"`(tests/spark/test_[a-z_]+\.py)`")


def rows_of(page: Path) -> list[list[str]]:
    """The cells of each row of the table about Spark."""
    lines = page.read_text().splitlines()
    [start] = [number for number, line in enumerate(lines) if COLUMNS.match(line)]
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def said(module: str) -> str:
    """Its text as one line, without marks of comments and backslashes before quotes."""
    text = re.sub(r"\n\s*(# )?", " ", (ROOT / module).read_text())
    return text.replace('\\"', '"')


def without_links(cell: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)


def test_the_formats_that_spark_reads_have_such_a_table() -> None:
    names = {page.stem.removeprefix("format-") for page in PAGES}
    assert names == {"ndjson", "json", "csv", "parquet", "avro", "orc", "xml", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_difference_has_its_reason(page: Path) -> None:
    rows = rows_of(page)
    assert len(rows) > 2
    assert [row[0] for row in rows if len(row) != 4 or not row[2] or len(row[3]) < 8] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_difference_is_named_by_its_test(page: Path) -> None:
    modules = "\n".join(map(said, MODULES.findall(page.read_text())))
    assert [label for row in rows_of(page) if (label := without_links(row[0])) not in modules] == []
