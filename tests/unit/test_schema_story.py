"""The story that docs/schemas.md tells: each of its commands, word by word, and what it shows is what is printed."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.unit.documents import ROOT, fences, text

PAGE = "docs/schemas.md"
BLIZZARD = Path(sys.executable).with_name("blizzard")
SHOWN_FOLDER, SHOWN_DAY, SHOWN_TIME = "file:///data", "2026-11-15", "2026-11-26 09:53:56"
CHAPTERS: dict[str, Callable[[Path], None]] = {}
"""By heading: what is there before its first command."""


def chapter(heading: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def known(prepare: Callable[[Path], None]) -> Callable[[Path], None]:
        CHAPTERS[heading] = prepare
        return prepare

    return known


def oldest_day() -> str:
    return (datetime.now(UTC) - timedelta(days=11)).strftime("%Y-%m-%d")


@chapter("## A first table without writing a schema")
def orders_of_a_shop(folder: Path) -> None:
    begin = datetime.fromisoformat(oldest_day())
    records = [json.dumps(order(number)) + "\n" for number in range(1, 1205)]
    for at, part in enumerate((records[:400], records[400:800], records[800:])):
        day = folder / "landing" / "shop" / f"date={begin + timedelta(days=5 * at):%Y-%m-%d}"
        day.mkdir(parents=True)
        (day / "part-0.ndjson").write_text("".join(part))
    (folder / "landing" / "shop" / f"date={oldest_day()}" / "_SUCCESS").touch()


def order(number: int) -> dict[str, object]:
    placed = f"2026-11-21T10:{number // 60 % 60:02d}:{number % 60:02d}Z"
    customer = {"customer": {"name": f"customer {number % 97}", "zip": f"{10000 + number % 90000:05d}"}}
    reference = "2026-11-21" if number % 300 == 7 else f"R-{number:05d}"
    return {"id": number, "placed": placed, **(customer if number % 200 else {}), "reference": reference}


@chapter("## A schema that changes by itself")
def a_table_of_one_order(folder: Path) -> None:
    (config,) = [one for one in fences("yaml") if one.document == PAGE and "new_fields: add " in one.body]
    (folder / "pipelines.yaml").write_text(config.body)
    (folder / "landing").mkdir()
    (folder / "landing" / "0001.ndjson").write_text('{"id":"1","address":{"city":"Bern"},"quantity":2}\n')
    printed(folder, "blizzard run --once pipelines.yaml")


def check_orders(folder: Path) -> None:
    """What the chapter says of the rows."""
    rows = DeltaTable(str(folder / "lake" / "orders")).to_pyarrow_table().sort_by("id").drop(["_source"]).to_pylist()
    nothing = {"_rescued": None, "coupon": None}
    assert rows == [
        {"id": "1", "address": {"city": "Bern", "zip": None}, "quantity": 2, **nothing},
        {"id": "2", "address": {"city": "Ulm", "zip": None}, "quantity": 1, **nothing},
        {"id": "3", "address": {"city": "Ulm", "zip": "89073"}, "quantity": 1, **nothing, "coupon": "SPRING"},
    ]


@chapter("## Expressions")
def examples(folder: Path) -> None:
    (folder / "examples").symlink_to(ROOT / "examples")


@chapter("## A configuration that changes")
def a_place_for_orders(folder: Path) -> None:
    (folder / "landing").mkdir()


def check_rescued(folder: Path) -> None:
    """What the chapter says of the rows."""
    rows = DeltaTable(str(folder / "lake" / "orders")).to_pyarrow_table().sort_by("id").drop(["_source"]).to_pylist()
    assert rows == [
        {"id": "1", "quantity": 2, "placed": date(2026, 11, 21), "_rescued": None},
        {"id": "2", "quantity": 1, "placed": None, "_rescued": '{"price":1.10,"placed":"yesterday"}'},
    ]
    assert len([one for one in folder.glob("lake/orders/_blizzard/*/dead_letters/**/*") if one.is_file()]) == 1


def printed(folder: Path, command: str) -> str:
    """By a process of its own, in this folder, as the page shows it."""
    words = shlex.split(command)
    assert words[0] == "blizzard"
    environment = {**os.environ, "COLUMNS": "400", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(BLIZZARD), *words[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = done.stdout.replace(f"file://{folder}", SHOWN_FOLDER).replace(oldest_day(), SHOWN_DAY)
    return as_shown(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", SHOWN_TIME, found))


def as_shown(printed: str) -> str:
    return "\n".join(line.rstrip() for line in printed.splitlines())


def chapter_of(heading: str) -> str:
    """Of the page, with comments in its configurations, which look like headings."""
    return text(PAGE).partition(f"\n{heading}\n")[2].partition("\n## ")[0] + "\n"


def steps(heading: str) -> Iterator[tuple[str, str]]:
    """Each command, and what it prints."""
    for block in re.findall(r"^```console\n(.*?)^```$", chapter_of(heading), re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            yield command, as_shown(shown)


def is_shown(found: str, shown: str) -> bool:
    """`…` in the page is anything."""
    return re.fullmatch(re.escape(shown).replace("…", "(?s:.*)"), found) is not None


def files_after(heading: str) -> Mapping[str, str]:
    """What the page shows of files that a command has written, by their names."""
    shown = re.findall(r"`(\S+)` then is:\n\n```\w+\n(.*?)^```$", chapter_of(heading), re.MULTILINE | re.DOTALL)
    return dict(shown)


def test_each_command_of_the_page_belongs_to_a_chapter_here() -> None:
    commands = [line for one in fences("console") if one.document == PAGE for line in one.body.splitlines()]
    told = [f"$ {command}" for heading in CHAPTERS for command, _ in steps(heading)]
    assert [line for line in commands if line.startswith("$ ")] == told


@pytest.mark.parametrize("heading", CHAPTERS)
def test_a_chapter_happens_word_by_word(heading: str, tmp_path: Path) -> None:
    CHAPTERS[heading](tmp_path)
    for command, shown in steps(heading):
        if command.startswith("cat "):
            (tmp_path / command.removeprefix("cat ")).write_text(shown + "\n")
            continue
        found = printed(tmp_path, command)
        assert is_shown(found, shown), f"$ {command}\n{found}\n--- the page:\n{shown}"
        if "init" in command:
            for name, body in files_after(heading).items():
                written = (tmp_path / name).read_text()
                written = written.replace(f"file://{tmp_path}", SHOWN_FOLDER).replace(oldest_day(), SHOWN_DAY)
                assert written == body
    checks = {"## A schema that changes by itself": check_orders, "## A configuration that changes": check_rescued}
    if heading in checks:
        checks[heading](tmp_path)
