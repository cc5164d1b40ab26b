"""The JSON of a stored segment: encoding and decoding."""

import json
from typing import Any

from blizzard.errors import UnreadableState
from blizzard.manifest.segments import Closing, Entry, FoundBy, Segment, SegmentRef, SettleMark, Sweep
from blizzard.storage import json_fields

FORMAT = 1


def encode_segment(segment: Segment, source_id: str) -> bytes:
    """The stored JSON. Deterministic: equal segments give equal bytes."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "source": source_id,
        "segment": segment.number,
        "previous": segment.previous,
        "writer": segment.writer_id,
        "written_ts": segment.written_ts,
        "entries": [_encode_entry(entry) for entry in segment.entries],
    }
    if segment.sweep is not None:
        document["sweep"] = _encode_sweep(segment.sweep)
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def _encode_entry(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": entry.path,
        "size": entry.size,
        "etag": entry.etag,
        "event_ts": entry.event_ts,
        "found_by": str(entry.found_by),
    }
    if entry.version_id is not None:
        document["version_id"] = entry.version_id
    if entry.sequencer is not None:
        document["sequencer"] = entry.sequencer
    return document


def _encode_sweep(sweep: Sweep) -> dict[str, Any]:
    document: dict[str, Any] = {
        "relies_on": sweep.relies_on,
        "settled": [{"partition": m.partition, "after": m.after, "through": m.through} for m in sweep.marks],
    }
    if sweep.chain is not None:
        document["chain"] = sweep.chain
    if sweep.closing is not None:
        closing = sweep.closing
        document["closing"] = {"after": closing.after, "through": closing.through, "cold": closing.cold}
    if sweep.late_swept_ts is not None:
        document["late_swept_ts"] = sweep.late_swept_ts
    return document


def decode_segment(data: bytes, source_id: str, ref: SegmentRef) -> Segment:
    """Raises UnreadableState unless `data` is segment `ref.number` of source `source_id`."""
    try:
        document = json.loads(data)
        found = (document["format"], document["source"], document["segment"])
        if found != (FORMAT, source_id, ref.number):
            raise UnreadableState(
                f"segment {ref.number} of {source_id}: expected format, source and number "
                f"{(FORMAT, source_id, ref.number)}, found {found!r:.200}. The segment is skipped; the "
                "next sweep lists its files again."
            )
        return Segment(
            number=ref.number,
            entries=tuple(_decode_entry(entry) for entry in json_fields.array(document["entries"])),
            sweep=_decode_sweep(document["sweep"]) if "sweep" in document else None,
            previous=json_fields.optional_text(document["previous"]),
            writer_id=json_fields.text(document["writer"]),
            written_ts=json_fields.number(document["written_ts"]),
            etag=ref.etag,
        )
    except json_fields.MALFORMED as error:
        raise UnreadableState(
            f"segment {ref.number} of {source_id} cannot be read ({type(error).__name__}: {error!s:.200}). "
            "The segment is skipped; the next sweep lists its files again."
        ) from error


def _decode_entry(document: dict[str, Any]) -> Entry:
    return Entry(
        path=json_fields.text(document["path"]),
        size=json_fields.natural(document["size"]),
        etag=json_fields.text(document["etag"]),
        event_ts=json_fields.number(document["event_ts"]),
        found_by=FoundBy(document["found_by"]),
        version_id=json_fields.optional_text(document.get("version_id")),
        sequencer=json_fields.optional_text(document.get("sequencer")),
    )


def _decode_sweep(document: dict[str, Any]) -> Sweep:
    closing, late_swept_ts = document.get("closing"), document.get("late_swept_ts")
    return Sweep(
        marks=tuple(_decode_mark(mark) for mark in json_fields.array(document["settled"])),
        closing=None if closing is None else _decode_closing(closing),
        late_swept_ts=json_fields.optional_number(late_swept_ts),
        relies_on=json_fields.natural(document["relies_on"]),
        chain=json_fields.optional_text(document.get("chain")),
    )


def _decode_mark(document: dict[str, Any]) -> SettleMark:
    return SettleMark(
        json_fields.text(document["partition"]),
        json_fields.optional_text(document["after"]),
        json_fields.text(document["through"]),
    )


def _decode_closing(document: dict[str, Any]) -> Closing:
    after, through = json_fields.optional_text(document["after"]), json_fields.text(document["through"])
    return Closing(after, through, document["cold"] is True)
