"""Stored objects on the pages are what the code reads and writes."""

import gzip
import json
from collections.abc import Callable

import pytest
from pyspark.sql.types import StructType

from blizzard.dispatch.run_records import decode as decode_run
from blizzard.dispatch.run_records import encode as encode_run
from blizzard.history.pack_file import SCHEMA
from blizzard.history.packs import digest_of, get_packs, history_folder, put_packs
from blizzard.manifest.segment_codec import decode_segment, encode_segment
from blizzard.manifest.segments import SegmentRef
from blizzard.state import base
from blizzard.state.checkpoint import decode, encode
from blizzard.state.dead_letters import DeadLetter, Stage
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts
from blizzard.state.schema_changes import ChangeRecords
from blizzard.state.settled_letters import SettledLetters
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.reports import read_reports
from spark_job.table.columns import source_column
from tests.unit.documents import Fence, fences, first_cells, section, words


def rewritten_segment(body: str) -> str:
    number = json.loads(body)["segment"]
    return encode_segment(
        decode_segment(body.encode(), "orders:shop", SegmentRef(number, "etag", 0)), "orders:shop"
    ).decode()


def rewritten_checkpoint(body: str) -> str:
    """Its bases hold what the example of a base shows."""
    shown = json.loads(body)
    refs = base.decode_refs(shown["bases"]) if "bases" in shown else ()
    (example,) = fences("json", kind="base")
    held = base.decode_difference(json.loads(example.body)).added if refs else base.Settled()
    checkpoint = decode(body, pipeline="orders", source="shop", base_of=lambda named: held)
    assert checkpoint.bases == refs
    return encode(checkpoint, base.difference(held, checkpoint.settled))


def rewritten_base(body: str) -> str:
    data = gzip.compress(body.encode())
    read = base.decode_base(data, base.BaseRef("shown", base.digest(data)), "orders:shop")
    return gzip.decompress(base.encode_base(read, "orders:shop")).decode()


def rewritten_receipt(body: str) -> str:
    store, shown_name = MemoryStore(lambda: 0.0), f"{0:020d}-shown.json.gz"
    store.put(f"state/receipts/{shown_name}", gzip.compress(body.encode()))
    receipts = Receipts(store, "state")
    shown = receipts.get(shown_name)
    name = receipts.put(
        sequence=shown.sequence,
        attempt="a",
        previous=shown.previous,
        now_ts=shown.written_ts,
        lines=shown.lines,
        unknown_fields=shown.unknown_fields,
        misfits=shown.misfits,
    ).name
    return gzip.decompress(store.get(f"state/receipts/{name}")).decode()


def rewritten_history(body: str) -> str:
    store, shown = MemoryStore(lambda: 0.0), SourceIdentity("orders", "shop", "state")
    data = gzip.compress(body.encode())
    name = f"{0:020d}-{digest_of(data)}.json.gz"
    store.put(history_folder(shown) + name, data)
    again = put_packs(store, shown, get_packs(store, shown, name))
    return gzip.decompress(store.get(history_folder(shown) + again)).decode()


def rewritten_sweep(body: str) -> str:
    store, shown = MemoryStore(lambda: 0.0), SourceIdentity("orders", "shop", "state")
    store.put(shown.report_key, body.encode())
    return read_reports(store, shown).to_json()


def rewritten_dead_letter(body: str) -> str:
    shown = json.loads(body)
    letter = DeadLetter(
        shown["path"], shown["etag"], Stage(shown["stage"]), shown["error"], shown.get("row"), shown.get("raw")
    )
    return json.dumps({**json.loads(letter.to_json(shown["source"], 0.0)), "timestamp": shown["timestamp"]})


def rewritten_run(body: str) -> str:
    shown = json.loads(body)
    record = decode_run(body.encode(), pipeline=shown["pipeline"], number=shown["number"])
    return encode_run(record, shown["writer"]).decode()


def rewritten_schema_change(body: str) -> str:
    store, name = MemoryStore(lambda: 0.0), f"{7:020d}-shown.json"
    records = ChangeRecords(store, "state", "orders:shop")
    shown = json.loads(body)
    unconfirmed = json.dumps({**shown, "landed": False, "version": None, "previous": None})
    store.put(f"state/schema_changes/{name}", unconfirmed.encode())
    records.confirm(name, lambda record: shown["version"])
    return json.dumps({**json.loads(store.get(f"state/schema_changes/{name}")), "previous": shown["previous"]})


def rewritten_settled_letters(body: str) -> str:
    store = MemoryStore(lambda: 0.0)
    store.put("state/settled_letters/shown.json", body.encode())
    settled = SettledLetters(store, "state").read()
    assert settled.unreadable == []
    ((_, settlement),) = [marked for marks in settled.by_path.values() for marked in marks]
    store.delete(["state/settled_letters/shown.json"])
    SettledLetters(store, "state").put(settlement, "shown")
    (written,) = store.list("state/settled_letters/")
    return store.get(written.key).decode()


REWRITTEN: dict[str, Callable[[str], str]] = {
    "segment": rewritten_segment,
    "checkpoint": rewritten_checkpoint,
    "base": rewritten_base,
    "receipt": rewritten_receipt,
    "history": rewritten_history,
    "sweep": rewritten_sweep,
    "dead letter": rewritten_dead_letter,
    "run": rewritten_run,
    "schema change": rewritten_schema_change,
    "settled letters": rewritten_settled_letters,
}


def test_each_kind_of_stored_object_has_an_example() -> None:
    assert {fence.kind for fence in fences("json")} == set(REWRITTEN)


@pytest.mark.parametrize("fence", fences("json"), ids=str)
def test_documented_stored_objects_are_as_the_code_reads_and_writes_them(fence: Fence) -> None:
    rewritten = json.loads(REWRITTEN[fence.kind](fence.body))
    shown = json.loads(fence.body)
    assert rewritten == shown
    assert list(rewritten) == list(shown)


def test_every_field_of_a_segment_and_of_the_checkpoint_is_explained() -> None:
    on_manifest = words(section("docs/storage-formats.md", "## The pending manifest"))
    assert {"previous", "event_ts", "version_id", "sweep.closing", "sweep.chain", "sweep.late_swept_ts"} <= on_manifest
    checkpoint = {name for fence in fences("json", kind="checkpoint") for name in json.loads(fence.body)}
    explained = words(section("docs/storage-formats.md", "## The checkpoint"))
    assert checkpoint - {"schema_version", "pipeline", "source", "last_update_ts", "source_state"} <= explained


def test_every_column_of_a_pack_is_explained() -> None:
    assert {*SCHEMA.names} <= words(section("docs/storage-formats.md", "## The packed history"))


def test_every_stage_of_a_dead_letter_is_explained() -> None:
    heading, *explained = first_cells(section("docs/storage-formats.md", "## Dead letters"))
    assert heading == "stage"
    assert set(explained) == {str(stage) for stage in Stage}


def test_the_columns_of_provenance_are_explained() -> None:
    of_source = source_column(members=True).dataType
    assert isinstance(of_source, StructType)
    assert list(first_cells(section("docs/storage-formats.md", "## Provenance"))) == of_source.names
