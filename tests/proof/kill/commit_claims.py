"""Compares the commits that jobs logged as made with the commits in the table's log.

Rows alone are not enough: after a lost commit, a sweep may ingest its files again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.proof.places import LoggedCommits, state_of

CommitClaim = tuple[str, str]
"""Source id, and the receipt that the state of the commit names."""


TOLD = {"swept", "recovered", "state_repaired", "batch_planned", "batch_committed", "ledger_opened"}


def told(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """What a job did, for the report of a failure."""
    return [f"  which logged {json.dumps(event)}" for event in events if event["event"] in TOLD]


def claimed_commits(events: Iterable[Mapping[str, Any]]) -> Iterator[CommitClaim]:
    """From the log events of one process: for each commit, the receipt of the batch that was read last before it."""
    receipts: dict[str, str] = {}
    for event in events:
        if event["event"] == "batch_read":
            receipts[event["source"]] = event["receipt"]
        elif event["event"] == "batch_committed":
            yield event["source"], receipts[event["source"]]


def missing_from_log(claims: Iterable[CommitClaim], log: LoggedCommits) -> str | None:
    """A description of the missing commits; None if there are none."""
    states = (state_of(actions) for _, actions in log)
    committed = {(f"{state.get('pipeline')}:{state.get('source')}", state.get("receipt")) for state in states}
    gone = sorted({*claims} - committed)
    return f"a job believes to have committed what is not in the log: {gone[:3]}" if gone else None
