"""Late sweeps that read S3 Inventory reports."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import AccessDenied
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from blizzard.sweep import inventory
from blizzard.sweep.inventory import MAX_AGE_SECS, InventoryReader, UnusableInventory, newest_inventory
from blizzard.sweep.late_cursor import ListingPosition
from blizzard.sweep.report import SweepKind, SweepReport
from tests.unit import strategies
from tests.unit.fakes import Calls, Days, WatchedStore, World, settings
from tests.unit.inventories import FOLDER, folder_of, put_manifest, row_of, write_report

MINUTE_SECS = 60.0
"""Reports are named by the minute."""


class Reported:
    """A world whose watermark is above some names, and the bucket of its reports."""

    def __init__(self, **more: object) -> None:
        self.world = World(settings(settle_delay_secs=60.0, late_overlap_secs=100.0, **more))  # type: ignore[arg-type]
        self.world.clock.now_ts = 1_000_500_000.0
        self.calls = Calls()
        self.bucket = MemoryStore(self.world.clock, "memory://reports/landing/daily/")
        self.world.arrive("m.txt")
        self.world.settle()

    def lose(self, *paths: str) -> None:
        """These files have no event."""
        self.world.clock.advance(300.0)
        for path in paths:
            self.world.put(path, path)

    def report(self, parts: int = 1, **changes: object) -> str:
        """S3 writes a report of what the source has now."""
        self.world.clock.now_ts += MINUTE_SECS - self.world.clock.now_ts % MINUTE_SECS
        rows = [row_of(info) for info in self.world.source.list()]
        files = [rows[n::parts] for n in range(parts)]
        return write_report(self.bucket, files, self.world.clock.now_ts, **changes)  # type: ignore[arg-type]

    def late(self, *, looks: int | None = None) -> SweepReport:
        """`looks`: how many clock readings it has time for; None: no limit."""
        one = self.world.source_sweep(self.bucket)
        one.files = WatchedStore(self.world.source, self.calls)
        deadline_ts = self.world.clock.now_ts + (1e6 if looks is None else 0.001 * looks)
        return one.sweep(SweepKind.LATE, deadline_ts=deadline_ts)

    @property
    def listings(self) -> list[str]:
        """The LISTs of the source's folders."""
        return [name for name in self.calls.names if name.startswith("list_folders")]


@pytest.fixture
def reported() -> Reported:
    return Reported()


def test_a_late_sweep_finds_lost_files_in_the_report_without_listing_folders(reported: Reported) -> None:
    reported.lose("a.txt", "b c+d%20é.txt", "sub/e.txt", "x.tmp")
    name = reported.report()
    late = reported.late()
    assert (late.missed, late.listed, late.inventory, late.complete) == (3, 5, name, True)
    assert reported.listings == []
    reported.world.drain()
    assert set(reported.world.files()) == {"m.txt", "a.txt", "b c+d%20é.txt", "sub/e.txt"}


def test_a_report_is_read_once_and_what_is_newer_waits_for_the_next_one(reported: Reported) -> None:
    reported.lose("a.txt")
    reported.report()
    assert reported.late().missed == 1
    reported.world.drain()
    reported.lose("b.txt")
    again = reported.late()
    assert (again.missed, again.listed, again.complete) == (0, 0, True)
    reported.report()
    assert reported.late().missed == 1
    assert reported.listings == []


def test_a_late_sweep_records_the_time_of_the_report_not_its_own(reported: Reported) -> None:
    reported.lose("a.txt")
    reported.report()
    scanned_ts = reported.world.clock.now_ts // 1
    reported.world.clock.advance(4000.0)
    reported.late()
    assert reported.world.sweeper().late_swept_ts == scanned_ts


def test_files_that_are_gone_since_the_report_are_left_out_and_others_are_as_they_are_now(reported: Reported) -> None:
    reported.lose("a.txt", "b.txt", "b.txt.bak.txt")
    reported.report()
    reported.world.source.delete(["a.txt"])
    now = reported.world.put("b.txt", "overwritten")
    assert reported.late().missed == 2
    *_, last = reported.world.manifest().unconsumed(reported.world.source_sweep().checkpoint().position)
    assert next((e.path, e.etag) for e in last.segment.entries) == ("b.txt", now.etag)
    reported.world.drain()
    assert reported.world.dead_files() == {}
    assert reported.world.files()["b.txt"] == ["overwritten"]


def test_files_in_closed_partitions_are_left_out() -> None:
    reported = Reported(window=Days())
    world = reported.world
    today = int(world.clock.now_ts // 1000)
    world.arrive(f"day={today}/m.txt")
    world.settle()
    reported.lose(f"day={today}/a.txt", f"day={today - 5}/a.txt")
    reported.report()
    assert world.source_sweep().checkpoint().closed_through is not None
    assert reported.late().missed == 1


def test_the_first_late_sweep_of_a_source_lists_it() -> None:
    world = World(settings())
    world.arrive("m.txt")
    bucket = MemoryStore(world.clock, "memory://reports/landing/daily/")
    write_report(bucket, [[]], world.clock.now_ts)
    assert world.source_sweep(bucket).sweep(SweepKind.LATE).inventory is None


def test_versions_that_are_not_the_latest_and_delete_markers_are_left_out(reported: Reported) -> None:
    reported.lose("a.txt")
    (info,) = [info for info in reported.world.source.list() if info.key == "a.txt"]
    rows = [row_of(info, IsLatest="false"), row_of(info, IsDeleteMarker="true", Size="")]
    reported.world.clock.now_ts += MINUTE_SECS - reported.world.clock.now_ts % MINUTE_SECS
    write_report(reported.bucket, [rows], reported.world.clock.now_ts)
    late = reported.late()
    assert (late.listed, late.missed) == (2, 0)


class TestUnusable:
    """Every report that cannot be used is in the log with its reason, and the late sweep lists the source."""

    def error(self, reported: Reported) -> str:
        late = reported.late()
        assert (late.missed, late.inventory) == (1, None)
        assert reported.listings != []
        (logged,) = reported.world.events_logged("inventory_unusable")
        reported.world.drain()
        assert "a.txt" in reported.world.files()
        return str(logged["error"])

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"fileFormat": "Parquet"}, "only CSV can be read"),
            ({"fileFormat": "ORC"}, "only CSV can be read"),
            ({"sourceBucket": "another"}, "expected one of landing"),
            ({"schema": "Bucket, Key, Size"}, "no column LastModifiedDate, ETag"),
            ({"files": [{"key": "elsewhere/x.csv.gz"}]}, "is not in a folder data"),
            ({"files": [{"key": f"{FOLDER}/data/gone.csv.gz"}]}, "data/gone.csv.gz cannot be read"),
            ({"files": None}, "cannot be read"),
        ],
    )
    def test_a_wrong_manifest(self, reported: Reported, changes: dict[str, object], expected: str) -> None:
        reported.lose("a.txt")
        reported.report(**changes)
        assert expected in self.error(reported)

    def test_a_manifest_that_does_not_have_its_checksum(self, reported: Reported) -> None:
        reported.lose("a.txt")
        name = reported.report()
        reported.bucket.put(f"{name}/manifest.json", b"{}")
        assert "does not have the MD5" in self.error(reported)

    def test_no_report_at_all(self, reported: Reported) -> None:
        reported.lose("a.txt")
        assert "has no complete inventory report" in self.error(reported)

    def test_an_old_report(self, reported: Reported) -> None:
        reported.lose("a.txt")
        reported.report()
        reported.world.clock.advance(MAX_AGE_SECS + 1)
        assert "older than 8 days" in self.error(reported)

    @pytest.mark.parametrize("harm", [lambda data: data[:-9], lambda data: b"?" + data, lambda data: b""])
    def test_a_torn_data_file(self, reported: Reported, harm: Callable[[bytes], bytes]) -> None:
        reported.lose("a.txt")
        name = reported.report()
        key = f"data/{name}-0.csv.gz"
        reported.bucket.put(key, harm(reported.bucket.get(key)))
        assert f"{key} cannot be read" in self.error(reported)

    def test_a_data_file_of_another_report(self, reported: Reported) -> None:
        first = reported.report()
        other = reported.bucket.get(f"data/{first}-0.csv.gz")
        reported.lose("a.txt")
        name = reported.report()
        reported.bucket.put(f"data/{name}-0.csv.gz", other)
        assert "expected MD5" in self.error(reported)

    def test_rows_that_are_not_rows(self, reported: Reported) -> None:
        reported.lose("a.txt")
        (info, *_) = reported.world.source.list()
        reported.world.clock.now_ts += MINUTE_SECS - reported.world.clock.now_ts % MINUTE_SECS
        write_report(reported.bucket, [[row_of(info, LastModifiedDate="yesterday")]], reported.world.clock.now_ts)
        assert "Invalid isoformat" in self.error(reported)

    def test_a_bucket_that_may_not_be_read(self, reported: Reported, monkeypatch: pytest.MonkeyPatch) -> None:
        def deny(key: str) -> bytes:
            raise AccessDenied("get s3://reports: 403")

        reported.lose("a.txt")
        reported.report()
        monkeypatch.setattr(reported.bucket, "get", deny)
        assert "403" in self.error(reported)


def test_a_report_that_s3_is_still_writing_is_not_used(reported: Reported) -> None:
    reported.lose("a.txt")
    name = reported.report()
    put_manifest(reported.bucket, folder_of(reported.world.clock.now_ts + 60), b"{}")
    reported.bucket.delete([f"{folder_of(reported.world.clock.now_ts + 60)}/manifest.checksum"])
    assert newest_inventory(reported.bucket, "memory://landing/", reported.world.clock.now_ts).name == name


class TestParts:
    @pytest.fixture(autouse=True)
    def _small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inventory, "PAGE_ROWS", 2)

    def test_a_late_sweep_out_of_time_continues_in_the_report(self, reported: Reported) -> None:
        paths = [f"a{n}.txt" for n in range(20)]
        reported.lose(*paths)
        reported.report(parts=3)
        parts = [reported.late(looks=7)]
        while not parts[-1].complete:
            assert len(parts) < 50
            reported.world.drain()
            parts.append(reported.late(looks=7))
        assert len(parts) > 3
        assert sum(part.listed for part in parts) == 21
        assert sum(part.missed for part in parts) == 20
        reported.world.drain()
        assert set(paths) <= set(reported.world.files())
        assert reported.world.doubled() == []

    def test_a_newer_report_starts_over(self, reported: Reported) -> None:
        reported.lose("a.txt", "b.txt", "c.txt")
        reported.report()
        assert not reported.late(looks=5).complete
        reported.lose("d.txt")
        reported.report()
        late = reported.late()
        assert (late.complete, late.listed) == (True, 5)
        assert reported.world.sweeper().late_swept_ts == reported.world.clock.now_ts // MINUTE_SECS * MINUTE_SECS
        reported.world.drain()
        assert set(reported.world.files()) == {"a.txt", "b.txt", "c.txt", "d.txt", "m.txt"}


def reader_of(rows: Sequence[dict[str, str]], source_uri: str) -> InventoryReader:
    store = MemoryStore(lambda: 0.0, "s3://reports/landing/daily/")
    write_report(store, [rows], 1_000_000_020.0)
    return InventoryReader(store, newest_inventory(store, source_uri, 1_000_000_020.0), source_uri)


@given(st.lists(strategies.any_path, max_size=5), st.sampled_from(["", "raw/", "a b+/"]))
def test_keys_are_decoded_and_become_relative_to_the_source(keys: list[str], prefix: str) -> None:
    infos = [ObjectInfo(key, 5, "e", 1_000_000_000.0) for key in keys if not key.endswith("/")]
    infos = [info for info in infos if encodable(info.key)]
    outside = ObjectInfo("elsewhere", 5, "e", 1_000_000_000.0)
    rows = [*(row_of(info, prefix) for info in infos), *([row_of(outside)] if prefix else [])]
    pages = [*reader_of(rows, f"s3://landing/{prefix}").pages(ListingPosition(), None)]
    assert [info for page in pages for info in page.files] == infos


def encodable(key: str) -> bool:
    """S3's keys are UTF-8."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def test_only_files_that_are_young_enough_are_returned() -> None:
    rows = [row_of(ObjectInfo(f"{ts}", 1, "e", ts)) for ts in (1000.0, 2000.0)]
    (page,) = reader_of(rows, "s3://landing/").pages(ListingPosition(), 1500.0)
    assert (page.rows, [info.key for info in page.files]) == (2, ["2000.0"])


def test_a_reader_needs_a_report() -> None:
    with pytest.raises(UnusableInventory):
        newest_inventory(MemoryStore(lambda: 0.0), "s3://landing/", 0.0)
