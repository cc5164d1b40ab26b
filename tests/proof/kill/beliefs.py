"""What jobs believe to have committed, by what they logged, against what is in the table's log. A sweep may make good
what a lost commit held, so rows alone do not tell."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.proof.places import LoggedCommits, state_of

Promise = tuple[str, str]
"""Source id, and the receipt that the commit's state names."""


def believed(events: Iterable[Mapping[str, Any]]) -> Iterator[Promise]:
    """Of one life: for each commit that it believes in the receipt of the batch that it read last."""
    receipts: dict[str, str] = {}
    for event in events:
        if event["event"] == "batch_read":
            receipts[event["source"]] = event["receipt"]
        elif event["event"] == "batch_committed":
            yield event["source"], receipts[event["source"]]


def lost(promised: Iterable[Promise], log: LoggedCommits) -> str | None:
    """What is wrong, if anything."""
    states = (state_of(actions) for _, actions in log)
    committed = {(f"{state.get('pipeline')}:{state.get('source')}", state.get("receipt")) for state in states}
    gone = sorted({*promised} - committed)
    return f"a job believes to have committed what is not in the log: {gone[:3]}" if gone else None
