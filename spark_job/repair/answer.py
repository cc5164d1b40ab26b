"""What `blizzard replay` and `blizzard replace` answer about one source."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from spark_job.repair.wishes import Wish
from spark_job.repair.work import Fate, Item, Result, Work

_BAD = (Fate.REFUSED, Fate.HELD)


def answer_of(
    source_id: str, wish: Wish, work: Work, *, kind: str, dry_run: bool, error: str | None
) -> Mapping[str, Any]:
    """`kind`: of the source, `files` or `topics`."""
    results = sorted([*wish.results, *work.results], key=lambda result: result.item.path)
    fates = Counter(result.fate for result in results)
    left = [_of_item(item) for item in work.left]
    return {
        "source": source_id,
        "source_kind": kind,
        "dry_run": dry_run,
        "counts": {**{str(fate): fates[fate] for fate in Fate}, "bad": sum(fates[fate] for fate in _BAD)},
        "rows": sum(result.rows for result in results),
        "files": [_of_result(result) for result in results],
        "planned": left if dry_run else [],
        "left": [] if dry_run else left,
        "deleted": None if wish.deleted is None else _deleted(wish.deleted),
        "unreadable": wish.unreadable,
        "error": error,
    }


def _deleted(rows: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"path": path, "rows": count} for path, count in sorted(rows.items())]


def _of_item(item: Item) -> dict[str, Any]:
    return {"path": item.path, "etag": item.etag or None, "kind": item.kind, "records": len(item.records) or None}


def _of_result(result: Result) -> dict[str, Any]:
    refused = [{"row": row, "reason": reason} for row, reason in sorted(result.refused.items())]
    return {
        **_of_item(result.item),
        "fate": result.fate,
        "reason": result.reason,
        "rows": result.rows,
        "refused": refused,
        "sequence": result.sequence,
        "table_version": result.version,
    }
