"""Checks of the runs that a dispatcher starts for a pipeline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blizzard.dispatch.run_records import Phase, RunLog
from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.doctor.state import HOUR_SECS, age
from blizzard.errors import UnreadableState
from blizzard.storage.base import ObjectStore

STARTING_SECS = HOUR_SECS


@dataclass(frozen=True, slots=True)
class RunsOfPipeline:
    name: str
    store: ObjectStore
    clock: Callable[[], float]


def _runs(pipeline: RunsOfPipeline) -> Finding:
    try:
        record = RunLog(pipeline.store, pipeline.name, str).latest()
    except UnreadableState as error:
        return problem(str(error), expected="a readable record", advice="see docs/runbook.md#the-dispatcher-fails")
    if record is None:
        return skipped("no dispatcher has started a run")
    failed = f"{record.failures:,} runs failed in a row, the last: {record.reason}"
    if record.phase is Phase.OPEN:
        return problem(
            f"the circuit is open: {failed}",
            expected="runs that succeed",
            advice="docs/runbook.md#the-circuit-is-open; then `blizzard resume`",
        )
    if record.phase is Phase.FAILED:
        return warning(failed, expected="runs that succeed", advice="docs/runbook.md#a-run-failed")
    secs = pipeline.clock() - record.written_ts
    if record.phase is Phase.STARTING and secs > STARTING_SECS:
        return warning(
            f"a start was announced {age(secs)} ago, and what became of it is not known",
            expected="an answer at the dispatcher's next invocation",
            advice="docs/runbook.md#the-dispatcher-fails",
        )
    return ok(f"the last run is {record.phase}")


CHECKS: Sequence[Check[RunsOfPipeline]] = (Check("state.runs", _runs),)
