"""A `replay` of a source that reads topics does not bring back what an earlier one has put back and somebody has
deleted, also if nobody has marked its letter as settled, or the mark is lost."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.kafka.test_topic_audit import audit, counts, die_before_the_commit
from tests.kafka.test_topic_replay import (
    LENIENT,
    STRICT,
    Capsys,
    Replay,
    fates,
    ids,
    open_letters,
    replay,
    with_refused,
)
from tests.kafka.topic_lake import NewLake, TopicLake


def lose_marks(lake: TopicLake) -> None:
    marks = [*lake.table.glob("_blizzard/*/settled_letters/*.json")]
    assert marks
    for mark in marks:
        mark.unlink()


@pytest.mark.parametrize("given", [False, True])
def test_a_message_that_was_put_back_and_deleted_does_not_come_back_though_its_mark_is_lost(
    new_lake: NewLake, tmp_path: Path, capsys: Capsys, given: bool
) -> None:
    lake, options, code = new_lake(partitions=2), list[str](), 1
    with_refused(lake)
    if given:
        repaired = tmp_path / "repaired.ndjson"
        lines = [{"path": f"{lake.topic}/{n}", "row": row, "record": {"id": 7}} for n, row in ((0, 1), (1, 0))]
        repaired.write_text("\n".join(map(json.dumps, lines)))
        options, code = ["--records", str(repaired)], 0
    replay(lake, capsys, *options, code=code)
    lake.produce(b'{"id": 8}')
    lake.run(source=LENIENT)
    DeltaTable(lake.table).delete("id = 7 AND _source.row = 1")
    lose_marks(lake)
    version = DeltaTable(lake.table).version()
    found = replay(lake, capsys, *options, code=code)
    expected = "in_already" if given else "refused"  # another message of its partition is, again
    assert [one[:2] for one in fates(found)] == [("0", expected), ("1", "in_already")]
    assert ids(lake) == [(0, 0, 1), (0, 2, 2), (0, 4, 8), (1, 0, 7)]
    assert DeltaTable(lake.table).version() == version
    assert open_letters(lake, capsys) == 1
    found = audit(lake, capsys, LENIENT, code=1)  # as with the marks: it is no letter, and no row any more
    assert counts(found) == {"objects": 6, "committed": 4, "dead_lettered": 1, "missing": 1}


@pytest.mark.parametrize("died", ["batch_read", "messages_committed"])
def test_nor_does_it_if_the_replay_died_before_it_marked_anything(new_lake: NewLake, capsys: Capsys, died: str) -> None:
    """One that died before its commit has put nothing back."""
    lake = new_lake(partitions=2)
    with_refused(lake)

    def dies(event: str) -> None:
        if event == died:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Replay(lake, dies).run()
    DeltaTable(lake.table).delete("id = 7")
    replay(lake, capsys, code=1)
    back = [(0, 1, 7), (1, 0, 7)] if died == "batch_read" else []
    assert ids(lake) == sorted([(0, 0, 1), (0, 2, 2), *back])


def test_a_row_does_not_come_back_by_the_letter_of_an_attempt_without_a_commit(
    new_lake: NewLake, tmp_path: Path, capsys: Capsys
) -> None:
    """The attempt refused the message, and the next one, configured anew, took it."""
    lake = new_lake()
    lake.produce(b'{"id": 1}')
    lake.run(source=LENIENT)
    lake.produce(b"{}", b'{"id": 2}')
    die_before_the_commit(lake, STRICT)
    lake.run(source=LENIENT)
    DeltaTable(lake.table).delete("id IS NULL")
    found = replay(lake, capsys, code=1)
    assert fates(found) == [("0", "held", 1, 0)]
    assert "offsets 1: their letters are of attempts that made no commit" in found["files"][0]["reason"]
    assert ids(lake) == [(0, 0, 1), (0, 2, 2)]
    repaired = tmp_path / "repaired.ndjson"
    repaired.write_text(json.dumps({"path": f"{lake.topic}/0", "row": 1, "record": {"id": 7}}))
    assert fates(replay(lake, capsys, "--records", str(repaired))) == [("0", "done", 1, 1)]
    assert ids(lake) == [(0, 0, 1), (0, 1, 7), (0, 2, 2)]
