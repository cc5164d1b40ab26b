"""The stored report of a source's sweeps."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from blizzard.errors import NotFound
from blizzard.state.identity import SourceIdentity
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.sweep.late_cursor import decode_cursor, decode_position, encode_cursor
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.unordered import UnorderedReport


@dataclass(frozen=True, slots=True)
class SweepReports:
    """The content of the report file: the last sweep of each kind.

    `watched_since_ts`: start of the source's first sweep. Events of older files cannot be called lost.
    `sweeping_until_ts`: a sweep is running and ends by then at the latest; None: no running sweep has said so.
    `counted`: the sequence of the newest commit that metrics have counted; None: they begin with the next sweep.
    """

    watched_since_ts: float | None = None
    watermark: SweepReport | None = None
    late: SweepReport | None = None
    sweeping_until_ts: float | None = None
    counted: int | None = None

    def report_of(self, kind: SweepKind) -> SweepReport | None:
        return self.watermark if kind is SweepKind.WATERMARK else self.late

    def with_report(self, report: SweepReport) -> "SweepReports":
        """Also removes the claim of a running sweep, `sweeping_until_ts`."""
        since_ts = report.started_ts if self.watched_since_ts is None else self.watched_since_ts
        begun = replace(self, watched_since_ts=since_ts, sweeping_until_ts=None)
        if report.kind is SweepKind.WATERMARK:
            return replace(begun, watermark=report)
        return replace(begun, late=report)

    def to_json(self) -> str:
        document = {
            "watched_since_ts": self.watched_since_ts,
            "watermark": _encode_report(self.watermark),
            "late": _encode_report(self.late),
            "sweeping_until_ts": self.sweeping_until_ts,
            "counted": self.counted,
        }
        return json.dumps(document, separators=(",", ":"))


def read_reports(store: ObjectStore, identity: SourceIdentity) -> SweepReports:
    """Empty if the file is missing or unreadable: the source is then swept at once, and no event counts as lost."""
    try:
        return _decode_reports(json_fields.mapping(json.loads(store.get(identity.report_key))))
    except (NotFound, *json_fields.MALFORMED):
        return SweepReports()


def _encode_report(report: SweepReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    cursor = None if report.cursor is None else encode_cursor(report.cursor)
    return {**asdict(replace(report, cursor=None)), "cursor": cursor}


def _decode_reports(document: dict[str, Any]) -> SweepReports:
    if "kind" in document:  # written by an earlier version: only the last sweep, of either kind
        return SweepReports().with_report(_decode_report(document))
    watermark, late = (
        None if document[kind] is None else _decode_report(json_fields.mapping(document[kind])) for kind in SweepKind
    )
    return SweepReports(
        json_fields.optional_number(document["watched_since_ts"]),
        watermark,
        late,
        json_fields.optional_number(document.get("sweeping_until_ts")),
        None if document.get("counted") is None else json_fields.integer(document["counted"]),
    )


def _decode_report(document: dict[str, Any]) -> SweepReport:
    cursor = document.get("cursor")
    return SweepReport(
        kind=SweepKind(document["kind"]),
        started_ts=json_fields.number(document["started_ts"]),
        listed=json_fields.natural(document["listed"]),
        missed=json_fields.natural(document["missed"]),
        missed_bytes=json_fields.natural(document["missed_bytes"]),
        partitions=json_fields.natural(document["partitions"]),
        segments=tuple(json_fields.natural(number) for number in json_fields.array(document["segments"])),
        complete=document["complete"] is True,
        unannounced=json_fields.natural(document.get("unannounced", 0)),
        cursor=None if cursor is None else decode_cursor(json_fields.mapping(cursor)),
        unordered=_decode_unordered(document.get("unordered")),
        quiet=json_fields.natural(document.get("quiet", 0)),
        inventory=json_fields.optional_text(document.get("inventory")),
        counts_as_late=document.get("counts_as_late") is True,
        unordered_idle=_decode_unordered(document.get("unordered_idle")),
    )


def _decode_unordered(stored: object) -> UnorderedReport | None:
    if stored is None:
        return None
    document = json_fields.mapping(stored)
    place = document["next"]
    return UnorderedReport(
        json_fields.natural(document["partitions"]),
        json_fields.natural(document["listed"]),
        json_fields.natural(document["requests"]),
        None if place is None else decode_position(json_fields.mapping(place)),
    )
