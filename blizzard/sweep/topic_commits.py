"""Counts the commits of a source of topics, for metrics. There is nothing else to sweep: a run sees all messages."""

from dataclasses import dataclass, replace

from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.state.topic_state import readable_copy
from blizzard.storage.base import ObjectStore
from blizzard.sweep.commit_counts import CommitCounts, count_commits
from blizzard.sweep.reports import SweepReports, read_reports


@dataclass(frozen=True, slots=True)
class TopicCommits:
    """`state`: the table's store."""

    identity: SourceIdentity
    state: ObjectStore
    log: Log

    def count(self) -> tuple[CommitCounts, SweepReports, bool]:
        """What was committed since the last count; the report that says so, for `write`; and whether it says anything
        new. Raises BlizzardError."""
        reports = read_reports(self.state, self.identity)
        known = readable_copy(self.identity, self.state)
        checkpoint = known or TopicCheckpoint(self.identity.pipeline, self.identity.source)
        if known is None and reports.counted is not None:
            return CommitCounts(), reports, False
        counts = count_commits(self.state, self.identity, checkpoint, reports.counted, self.log)
        return counts, replace(reports, counted=checkpoint.sequence), reports.counted != checkpoint.sequence

    def write(self, reports: SweepReports) -> None:
        self.state.put(self.identity.report_key, reports.to_json().encode())
