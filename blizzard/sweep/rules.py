"""The settings of a source that its sweeps need."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from blizzard.manifest.segments import Closing
from blizzard.state.watermark import SourceProgress

UNORDERED_REQUESTS = 60
QUIET_SECS = 86_400.0
LATE_INTERVAL_SECS = 3_600.0
MANY_FOLDERS = 1_000
LOCAL_OVERLAP_SECS = 5.0
"""The change time of a local file is never earlier than its arrival, so a late sweep need not look back a day."""


class Window(Protocol):
    """The dated folders of a source (its `prefix_template` and `lookback`)."""

    def folder_of(self, partition: str) -> str | None:
        """The dated folder of a partition; None if its path does not match the template."""
        ...

    def oldest_folder(self, now_ts: float, lookback: int) -> str:
        """The oldest of the last `lookback` folders, including today's."""
        ...


@dataclass(frozen=True, slots=True)
class SweepRules:
    """The settings of a source that sweeps need. `window` None: every partition stays open. `unordered_requests`: for
    how many LIST requests an ordinary sweep lists unordered partitions whole: active ones, and idle ones that had a new
    file within `quiet_secs`. In a source with more than `many_folders` folders, one without a new file for so long is
    looked at only once in this time. A late sweep comes every `late_interval_secs`, and looks back by
    `late_overlap_secs` before the one before it.

    `definition` is the text of the pattern and template behind `matches` and `window`, so that a late sweep detects a
    change.
    """

    matches: Callable[[str], bool]
    window: Window | None = None
    lookback: int = 1
    settle_delay_secs: float = 60.0
    late_overlap_secs: float = 86_400.0
    unordered_requests: int = UNORDERED_REQUESTS
    quiet_secs: float = QUIET_SECS
    many_folders: int = MANY_FOLDERS
    late_interval_secs: float = LATE_INTERVAL_SECS
    definition: str = field(default="", compare=False)

    @property
    def left_out_secs(self) -> float:
        """The longest time between two late sweeps that visit the same quiet folder."""
        return self.quiet_secs + self.late_interval_secs

    def folder_of(self, partition: str) -> str | None:
        return None if self.window is None else self.window.folder_of(partition)

    def before_window(self, now_ts: float) -> str | None:
        """The newest folder before the window at `now_ts`; None without a window."""
        return None if self.window is None else self.window.oldest_folder(now_ts, self.lookback + 1)


def cold_closing(progress: SourceProgress, rules: SweepRules, now_ts: float) -> Closing | None:
    """The closing with which the first sweep of a source with a window starts: folders before the last `lookback` ones
    count as closed. None if the source has no window, or if anything was settled or closed before."""
    through = rules.before_window(now_ts)
    closing = None if through is None else Closing(None, through, cold=True)
    return closing if closing is not None and progress.connects(closing) else None
