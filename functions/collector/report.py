"""What the collector logs and counts."""

from blizzard.collect.collector import CollectResult
from functions.collector.composition import Collected
from functions.runtime import FunctionLog


def metrics_of(collected: Collected) -> dict[str, int]:
    """By the names of the metrics."""
    result = collected.result
    return {
        "EventsReceived": result.events,
        "FilesAppended": result.files_appended,
        "EventsMerged": result.merged,
        "EventsIgnored": len(result.ignored),
        "BadMessages": len(result.bad),
        "SegmentsAppended": len(result.appended),
        "AppendsFailed": len(result.failed),
        "WakesFailed": collected.wakes_failed,
    }


def log_result(log: FunctionLog, result: CollectResult) -> None:
    for ignored in result.ignored:
        log.info("event_ignored", reason=ignored.reason, detail=ignored.detail)
    for bad in result.bad:
        log.warning("message_bad", message_id=bad.message_id, error=str(bad.error))
    for failed in result.failed:
        draft = failed.draft
        log.error(
            "append_failed",
            source=draft.source_id,
            files=len(draft.entries),
            messages=len(draft.message_ids),
            error=str(failed.error),
            error_kind=type(failed.error).__name__,
        )
    for done in result.appended:
        log.info("segment_appended", source=done.draft.source_id, segment=done.segment, files=len(done.draft.entries))
