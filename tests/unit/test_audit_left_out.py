"""What a local listing leaves out is told by the audit, whatever divides its work."""

import json
import os
from pathlib import Path

import pytest

from blizzard.audit.listing import ListingPlan, ListRanges, parts_of
from blizzard.audit.ranges import Ranges
from blizzard.audit.report import Verdict
from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld

NO_LINKS, NO_FILE, NO_UTF8 = (
    "symbolic links are not followed",
    "it is not a regular file",
    "the name is not valid UTF-8",
)
LEFT_OUT = {
    ".first.ndjson.gz": NO_LINKS,
    "bad-\\udcff.ndjson.gz": NO_UTF8,
    "folder-\\udcff/": NO_UTF8,
    "linked": NO_LINKS,
    "many/0.link.ndjson.gz": NO_LINKS,
    "many/1\\udcff.ndjson.gz": NO_UTF8,
    "many/4.fifo.ndjson.gz": NO_FILE,
    "many/9.link.ndjson.gz": NO_LINKS,
    "zz-\\udcff": NO_UTF8,
}


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    made = OperatorWorld(tmp_path)
    for number in range(9):
        made.land(f"many/{number}.ndjson.gz", f"{number}")
    return made


def plant(world: OperatorWorld) -> None:
    incoming = world.folder / "incoming"
    (incoming / "linked").symlink_to(incoming / "many")
    for name in (".first", "many/0.link", "many/9.link"):
        (incoming / f"{name}.ndjson.gz").symlink_to(incoming / "many" / "0.ndjson.gz")
    os.mkfifo(incoming / "many" / "4.fifo.ndjson.gz")
    for name in (b"bad-\xff.ndjson.gz", b"many/1\xff.ndjson.gz", b"zz-\xff"):
        Path(os.fsdecode(os.fsencode(incoming) + b"/" + name)).write_bytes(b"")
    Path(os.fsdecode(os.fsencode(incoming) + b"/folder-\xff")).mkdir()


def test_the_audit_names_it(world: OperatorWorld) -> None:
    world.run()
    before = world.audit()
    plant(world)
    report = world.audit()
    assert (before.verdict, report.verdict, report.objects) == (Verdict.GOOD, Verdict.NOTES, before.objects)
    assert report.names["objects_not_listed"] == [{"path": path, "why": why} for path, why in LEFT_OUT.items()]
    (notice,) = report.notices
    assert notice.kind == "objects_not_listed"
    what, _, names = notice.text.partition(": ")
    assert what == "9 files or folders of the source are in none of the sums, and no run reads them"
    assert names.startswith(f".first.ndjson.gz ({NO_LINKS}), bad-\\udcff.ndjson.gz ({NO_UTF8}), ")
    assert "and 4 more. If they are wanted, " in notice.text
    assert report.digest not in (before.digest, "")
    (world.folder / "incoming" / "linked").unlink()
    assert world.audit().digest not in (before.digest, report.digest)


def test_of_a_folder(world: OperatorWorld) -> None:
    plant(world)
    names = world.audit(prefix="many/").names["objects_not_listed"]
    assert [each["path"] for each in names] == [path for path in LEFT_OUT if path.startswith("many/")]


@pytest.mark.parametrize("bounds", [(), ("many/4.ndjson.gz",), ("a", "many/0.ndjson.gz", "many/1.ndjson.gz", "many/8")])
def test_each_is_told_once_however_the_source_is_divided(
    world: OperatorWorld, tmp_path: Path, bounds: tuple[str, ...]
) -> None:
    plant(world)
    ranges = Ranges(bounds)
    listing = ListRanges(tmp_path, ListingPlan(world.source, ranges))
    answers = [json.loads(listing(part)) for part in parts_of(ranges)]
    assert sum(answer["objects"] for answer in answers) == 9
    assert sorted(tuple(each) for answer in answers for each in answer["left_out"]) == sorted(LEFT_OUT.items())


def test_for_people(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.run()
    plant(world)
    assert main(["audit", str(world.config_file)]) == 0
    said = capsys.readouterr().out
    assert " objects_not_listed: 9 files or folders " in said
    assert said.endswith(" verdict        notes\n")
