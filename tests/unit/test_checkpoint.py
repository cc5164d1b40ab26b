"""The checkpoint's codec: what is encoded decodes, old schemas are taken over, everything else is refused."""

import base64
import json
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.manifest.segments import Position
from blizzard.state.base import BaseRef, difference
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState, decode, decode_app_id, encode
from tests.unit import strategies

DAY = "date=2024-01-28"
FILE = "1706450400-01926abc.ndjson.gz"

# What the first Blizzard wrote, oldest first; the last two are Penguin's, which committed for it.
WITH_READ_STATES = {
    "schema_version": 1,
    "source_state": {"files": {f"{DAY}/a.gz": "Finished", f"{DAY}/b.gz": {"RecordsRead": 5000}}},
    "delta_version": 7,
}
WITH_PARTITION_WATERMARKS = {
    "schema_version": 1,
    "watermark": {"state": "Active", "value": f"{DAY}/{FILE}"},
    "partition_watermarks": {DAY: FILE, "date=2024-01-29": "1706536800-uuid.ndjson.gz"},
    "last_update_ts": 1706450500,
}
WITH_ONE_WATERMARK = {
    "schema_version": 2,
    "source_state": {"files": {f"{DAY}/a.parquet": None, f"{DAY}/b.parquet": None}},
    "delta_version": 10,
    "watermark": {"state": "Idle", "value": f"{DAY}/{FILE}"},
}
EARLIER_WITH_ONE_WATERMARK = WITH_ONE_WATERMARK | {"watermark": f"{DAY}/{FILE}"}


def read(document: Any) -> Checkpoint:
    return decode(json.dumps(document), pipeline="events", source="landing")


def read_app_id(app_id: str) -> Checkpoint | None:
    return decode_app_id(app_id, pipeline="events", source="landing")


def app_id_of(document: Any) -> str:
    return "blizzard:" + base64.b64encode(json.dumps(document).encode()).decode()


def current(**changes: Any) -> dict[str, Any]:
    state = Checkpoint("events", "landing", 42, 117, Position(90, 3, "e", 12, ">e0"), WatermarkState.ACTIVE, "p/f")
    document: dict[str, Any] = json.loads(encode(state))
    return document | changes


@given(strategies.checkpoints)
def test_an_encoded_checkpoint_decodes_to_the_same(checkpoint: Checkpoint) -> None:
    assert decode(encode(checkpoint), pipeline="events", source="landing") == checkpoint


@given(strategies.checkpoints)
def test_equal_states_give_equal_texts_whatever_the_order_of_their_maps(checkpoint: Checkpoint) -> None:
    backwards = MappingProxyType(dict(reversed(list(checkpoint.files.items()))))
    marks = MappingProxyType(dict(reversed(list(checkpoint.partition_watermarks.items()))))
    fields = {name: getattr(checkpoint, name) for name in Checkpoint.__slots__}
    assert encode(Checkpoint(**fields | {"files": backwards, "partition_watermarks": marks})) == encode(checkpoint)


@given(strategies.checkpoints)
def test_the_text_is_one_line_of_ascii(checkpoint: Checkpoint) -> None:
    text = encode(checkpoint)
    assert text.isascii()
    assert len(text.splitlines()) == 1


def test_the_documented_json_decodes() -> None:
    state = read(
        {
            "schema_version": 3,
            "pipeline": "events",
            "source": "landing",
            "sequence": 42,
            "delta_version": 117,
            "manifest": {"segment": 90, "entry": 0},
            "watermark": {"state": "Active", "value": f"{DAY}/{FILE}"},
            "partition_watermarks": {DAY: FILE},
            "closed_through": "date=2024-01-20",
            "late_swept_ts": 1706446800,
            "receipt": "00000000000000000042-7f3a.json.gz",
            "source_state": {"files": {f"{DAY}/x.gz": "Finished", f"{DAY}/y.gz": {"RecordsRead": 5000}}},
            "last_update_ts": 1706450500,
        }
    )
    assert (state.sequence, state.delta_version, state.position.segment) == (42, 117, 90)
    assert dict(state.partition_watermarks) == {DAY: FILE}
    assert (state.closed_through, state.late_swept_ts) == ("date=2024-01-20", 1706446800.0)
    assert dict(state.files) == {f"{DAY}/x.gz": FINISHED, f"{DAY}/y.gz": 5000}
    assert state.in_progress == {f"{DAY}/y.gz": 5000}


# The first Blizzard


def test_version_1_with_read_states_keeps_finished_files_and_records_read() -> None:
    state = read(WITH_READ_STATES)
    assert dict(state.files) == {f"{DAY}/a.gz": FINISHED, f"{DAY}/b.gz": 5000}
    assert (state.sequence, state.state, state.has_files) == (-1, WatermarkState.INITIAL, True)


def test_version_1_with_partition_watermarks_keeps_them() -> None:
    state = read(WITH_PARTITION_WATERMARKS)
    assert dict(state.partition_watermarks) == WITH_PARTITION_WATERMARKS["partition_watermarks"]
    assert (state.watermark, state.state) == (f"{DAY}/{FILE}", WatermarkState.ACTIVE)
    assert (state.files, state.last_update_ts) == ({}, 1706450500.0)


@pytest.mark.parametrize("document", [WITH_ONE_WATERMARK, EARLIER_WITH_ONE_WATERMARK], ids=["object", "text"])
def test_version_2_has_files_of_the_table_and_is_refused(document: dict[str, Any]) -> None:
    assert read_app_id(app_id_of(document)) == Checkpoint("events", "landing", delta_version=10)
    with pytest.raises(UnreadableState, match="the table's files, not the source's"):
        read(document)


@pytest.mark.parametrize("watermark", [f"{DAY}/{FILE}", {"state": "Idle", "value": f"{DAY}/{FILE}"}], ids=str)
def test_a_single_watermark_settles_no_partition(watermark: object) -> None:
    state = read({"schema_version": 1, "watermark": watermark, "last_update_ts": 5})
    assert (state.watermark, state.has_files) == (f"{DAY}/{FILE}", False)


def test_a_null_watermark_is_none() -> None:
    state = read({"schema_version": 1, "watermark": None, "last_update_ts": 0})
    assert (state.state, state.watermark, state.has_files) == (WatermarkState.INITIAL, None, False)


@pytest.mark.parametrize("app_id", ["penguin-events", "penguin-events-backfill"])
def test_a_penguin_app_id_is_a_state_without_files(app_id: str) -> None:
    assert read_app_id(app_id) == Checkpoint("events", "landing")


@pytest.mark.parametrize("version", [0, 1])
def test_a_watermark_without_folders_is_the_watermark_of_the_root(version: int) -> None:
    state = read(
        {"schema_version": version, "watermark": {"state": "Active", "value": FILE}, "partition_watermarks": {}}
    )
    assert dict(state.partition_watermarks) == {"": FILE}


def test_the_single_watermark_never_replaces_that_of_its_partition() -> None:
    document = WITH_PARTITION_WATERMARKS | {"watermark": {"state": "Active", "value": f"{DAY}/older"}}
    assert read(document).partition_watermarks[DAY] == FILE


@pytest.mark.parametrize("document", [WITH_READ_STATES, WITH_PARTITION_WATERMARKS])
def test_a_state_in_an_app_id_is_the_same_state(document: dict[str, Any]) -> None:
    assert read_app_id(app_id_of(document)) == replace(read(document), delta_version=document.get("delta_version", -1))


@pytest.mark.parametrize(
    "app_id",
    [
        "blizzard:events:landing",
        "blizzard:events",
        "blizzard:",
        "blizzard:12345678",
        "blizzard:é",
        app_id_of([1, 2]),
        app_id_of("text"),
        app_id_of({"somebody": "else's"}),
        "blizzard:" + base64.b64encode(b"no json").decode(),
        app_id_of(WITH_ONE_WATERMARK).replace("blizzard:", "blizzard::"),
        app_id_of(WITH_ONE_WATERMARK).removeprefix("blizzard:"),
        "other:" + app_id_of(WITH_ONE_WATERMARK),
        "penguin-other",
        "penguin-eventsfeed",
        "",
    ],
)
def test_an_app_id_without_a_state_is_none(app_id: str) -> None:
    assert read_app_id(app_id) is None


@given(st.text().map("blizzard:".__add__) | st.binary().map(lambda b: "blizzard:" + base64.b64encode(b).decode()))
def test_any_app_id_is_none_unless_it_holds_a_state(app_id: str) -> None:
    assert read_app_id(app_id) is None


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 4}, {"source_state": {"files": {"a": "Started"}}}, {"delta_version": "10"}],
    ids=str,
)
def test_an_app_id_with_an_unreadable_state_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(UnreadableState):
        read_app_id(app_id_of(WITH_READ_STATES | change))


@pytest.mark.parametrize("bases", [(), (BaseRef(f"{1:020d}-x-all.json.gz", "d"),)])
def test_the_last_checkpoint_of_a_table_that_was_moved_names_the_other_one(bases: tuple[BaseRef, ...]) -> None:
    """Programs that know only version 5 do not take it for one to continue from."""
    state = replace(read(current()), moved_to="s3://lake/new", bases=bases)
    text = encode(state, difference(state.settled, state.settled) if bases else None)
    assert json.loads(text)["schema_version"] == 6
    assert decode(text, pipeline="events", source="landing", base_of=lambda _: state.settled) == state
    assert "moved_to" not in json.loads(encode(replace(state, moved_to=None, bases=())))


# What is refused


def test_a_newer_schema_version_is_refused_and_the_error_says_to_upgrade() -> None:
    with pytest.raises(UnreadableState, match=r"version 7; this program reads up to 6\. Upgrade blizzard"):
        read(current(schema_version=7))


@pytest.mark.parametrize("change", [{"pipeline": "other"}, {"source": "other"}], ids=str)
def test_the_state_of_another_source_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(UnreadableState, match=r"belongs to .*other.*expected .*events.*landing"):
        read(current(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": -1},
        {"schema_version": "3"},
        {"schema_version": True},
        {"sequence": None},
        {"sequence": 1.5},
        {"manifest": {"segment": -1, "entry": 0}},
        {"manifest": {"segment": 1}},
        {"manifest": []},
        {"watermark": {"state": "Busy"}},
        {"watermark": {"state": []}},
        {"watermark": "p/f"},
        {"partition_watermarks": {"p": 1}},
        {"partition_watermarks": ["p"]},
        {"source_state": {"files": {"p/f": "Started"}}},
        {"source_state": {"files": {"p/f": {"RecordsRead": -1}}}},
        {"source_state": {"files": {"p/f": {"RecordsRead": True}}}},
        {"source_state": {"files": {"p/f": {"RecordsRead": 1, "more": 2}}}},
        {"source_state": None},
        {"late_swept_ts": "yesterday"},
        {"late_swept_ts": float("inf")},
        {"last_update_ts": float("nan")},
        {"last_update_ts": 10**400},
        {"closed_through": 20240128},
    ],
    ids=str,
)
def test_a_checkpoint_with_a_malformed_part_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UnreadableState):
        read(current(**change))


@pytest.mark.parametrize(
    "document", [{}, {"rows": 5}, {"schema_version": 1}, {"schema_version": 2, "sequence": 4}], ids=str
)
def test_an_object_without_any_known_part_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(UnreadableState):
        read(document)


@given(strategies.checkpoints, st.data())
def test_a_truncated_checkpoint_is_refused(checkpoint: Checkpoint, data: st.DataObject) -> None:
    text = encode(checkpoint)
    torn = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(UnreadableState):
        decode(torn, pipeline="events", source="landing")


@given(strategies.any_json | st.dictionaries(st.sampled_from(sorted(current())), strategies.any_json))
def test_any_json_is_unreadable_or_a_checkpoint(document: object) -> None:
    with suppress(UnreadableState):
        assert isinstance(read(document), Checkpoint)


@given(st.sampled_from(sorted(current())), strategies.any_json)
def test_a_checkpoint_with_one_replaced_part_is_unreadable_or_decodes(part: str, value: object) -> None:
    with suppress(UnreadableState):
        assert isinstance(read(current(**{part: value})), Checkpoint)


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe\x00", b"[" * 100_000, b"1" * 10_000, "nul\0", '{"a":' * 50_000], ids=len
)
def test_bytes_other_than_json_are_refused(text: str | bytes) -> None:
    with pytest.raises(UnreadableState, match="not JSON"):
        decode(text, pipeline="events", source="landing")


def test_a_checkpoint_with_a_thousand_tracked_files_is_smaller_than_64_kb() -> None:
    files = {f"{DAY}/17064{n:05d}-01926abc{n:04x}.ndjson.gz": FINISHED for n in range(1000)}
    assert {len(path) for path in files} == {49}
    watermarks = {f"date=2024-01-{day:02d}": FILE for day in range(21, 29)}
    state = Checkpoint(
        "events", "landing", 42, 117, partition_watermarks=MappingProxyType(watermarks), files=MappingProxyType(files)
    )
    assert len(encode(state).encode()) < 64 * 1024
