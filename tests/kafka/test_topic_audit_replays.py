"""`blizzard audit` of a source that reads topics, at each moment of a replay: a message is a row or a letter, and never
both or neither."""

import json
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from blizzard.cli import audit_topics, main
from blizzard.storage.local import LocalStore
from tests.kafka.test_topic_audit import Capsys, audit, counts
from tests.kafka.test_topic_replay import LENIENT, Replay, with_refused
from tests.kafka.test_topic_replay_deleted import lose_marks
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.unit.watched_calls import Calls, WatchedStore

BEFORE = {"objects": 5, "committed": 2, "dead_lettered": 3}
AFTER = {"objects": 5, "committed": 4, "dead_lettered": 1}
"""The long messages are rows by now."""


@pytest.fixture
def lake(new_lake: NewLake) -> TopicLake:
    made = new_lake(partitions=2)
    with_refused(made)
    return made


def one_audit(lake: TopicLake, capsys: Capsys) -> dict[str, Any]:
    file = str(lake.config_file(LENIENT))
    capsys.readouterr()
    assert main(["audit", "--json", file]) in (0, 1)
    [found] = json.loads(capsys.readouterr().out)
    return dict(found)


@pytest.mark.parametrize(
    ("step", "expected"), [("replay_planned", BEFORE), ("batch_read", BEFORE), ("messages_committed", AFTER)]
)
def test_at_each_step_of_a_replay(lake: TopicLake, capsys: Capsys, step: str, expected: dict[str, int]) -> None:
    found = []

    def look(event: str) -> None:
        if event == step:
            found.append(one_audit(lake, capsys))

    Replay(lake, look).run()
    assert [(counts(one), one["verdict"]) for one in found] == [(expected, "good")]
    assert counts(audit(lake, capsys, LENIENT)) == AFTER


def test_after_a_replay_whose_marks_are_lost(lake: TopicLake, capsys: Capsys) -> None:
    Replay(lake).run()
    lose_marks(lake)
    lake.produce(b'{"id": 8}')
    lake.run(source=LENIENT)
    found = audit(lake, capsys, LENIENT)
    assert (counts(found), found["verdict"]) == ({"objects": 6, "committed": 5, "dead_lettered": 1}, "good")


@pytest.mark.parametrize("dies", [False, True])
def test_a_replay_between_two_reads_of_an_audit(
    lake: TopicLake, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """Just before each call to the table's storage, one after the other. `dies`: before it marks anything, and another
    one, which finds that all is in, does that: its marks name no commit."""
    saved, calls, seen, replays = tmp_path / "saved", Calls(), list[dict[str, int]](), list[Replay]()
    copytree(lake.table, saved)
    monkeypatch.setattr(audit_topics, "open_store", lambda *_, **__: WatchedStore(LocalStore(lake.table), calls))

    def replay() -> None:
        replays.append(Replay(lake, die if dies else lambda event: None))
        if dies:
            with pytest.raises(KeyboardInterrupt):
                replays[-1].run()
            Replay(lake).run()
        else:
            replays[-1].run()

    def die(event: str) -> None:
        if event == "messages_committed":
            raise KeyboardInterrupt

    while len(seen) == len(replays):
        rmtree(lake.table)
        copytree(saved, lake.table)
        calls.before(len(seen) + 1, replay)
        found = one_audit(lake, capsys)
        calls.forget()
        seen.append(counts(found))
        assert (seen[-1] in (BEFORE, AFTER), found["verdict"]) == (True, "good"), (seen, calls.names)
    assert ([one for one in seen if one not in (BEFORE, AFTER)], seen[0], seen[-1]) == ([], AFTER, BEFORE)
    assert len(seen) > 10
