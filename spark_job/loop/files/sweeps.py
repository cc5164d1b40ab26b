"""How a source of files finds those that no event announced: by sweeps."""

from collections.abc import Callable

from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.source_sweep import SourceSweep


class Sweeps:
    """The sweeps of one source, and when they are due (`InputDiscovery`). `clock` gives Unix seconds."""

    def __init__(
        self,
        source_sweep: SourceSweep,
        *,
        interval_secs: float,
        late_interval_secs: float,
        clock: Callable[[], float],
    ) -> None:
        self._source_sweep = source_sweep
        self._interval_secs = interval_secs
        self._late_interval_secs = late_interval_secs
        self._clock = clock
        self._next_ts = self._next_late_ts = float("-inf")
        """Seconds of the clock that `discover_due` gets its `now_ts` from."""

    def sweep(self, *, late: bool, record_if_empty: bool) -> SweepReport:
        """One sweep, which starts from the copy of the checkpoint. Afterwards the manifest has what it found."""
        return self._source_sweep.sweep(
            SweepKind.LATE if late else SweepKind.WATERMARK, record_if_empty=record_if_empty
        )

    def discover_due(self, now_ts: float) -> None:
        if now_ts < self._next_ts:
            return
        done = self.sweep(late=False, record_if_empty=True)
        self._next_ts = now_ts + self._interval_secs
        if done.counts_as_late:
            self._next_late_ts = now_ts + self._late_interval_secs
        elif now_ts >= self._next_late_ts and self._last_late_sweep_is_old():
            self.sweep(late=True, record_if_empty=True)
            self._next_late_ts = now_ts + self._late_interval_secs

    def discover_all(self) -> None:
        """Both sweeps; one if it lists the whole source. A late sweep that is not due and finds nothing leaves no
        trace."""
        late_is_due = self._last_late_sweep_is_old()
        if not self.sweep(late=False, record_if_empty=True).counts_as_late:
            self.sweep(late=True, record_if_empty=late_is_due)

    def _last_late_sweep_is_old(self) -> bool:
        """Whether the last late sweep in the copy of the checkpoint is older than the source's interval."""
        last_ts = self._source_sweep.checkpoint().late_swept_ts
        return last_ts is None or self._clock() - last_ts >= self._late_interval_secs
