"""The ledger in a running job: whatever is lost, damaged or raced, it has exactly the committed files."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.keeper import KEPT_SECS
from blizzard.ledger.ledger import RunUnreadable, open_ledger
from blizzard.ledger.merge import LedgerSettings, Merge
from blizzard.ledger.settled_files import SettledFiles
from blizzard.ledger.tiers import FACTOR
from blizzard.log import silent
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectInfo
from tests.unit.ledger_world import FOLDER, RECEIPTS, SMALL, LedgerWorld, filled

files = st.dictionaries(
    st.sampled_from([f"{p}{n}" for p in ("", "a/") for n in range(6)]), st.sampled_from("12"), max_size=4
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["commit", "lose race", "restart", "look", "lose run", "tear run", "lose receipt"]), files
    ),
    max_size=25,
)


def disturb(world: LedgerWorld, step: str, number: int) -> None:
    kept = [*world.store.list(RECEIPTS if step == "lose receipt" else FOLDER)]
    if not kept:
        return
    key = kept[number % len(kept)].key
    if step == "tear run":
        data = world.store.get(key)
        at = number * 7 % len(data)
        world.store.put(key, data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
    else:
        world.store.delete([key])


@given(steps)
@settings(max_examples=300)
def test_it_has_the_committed_files_whatever_happens(drawn: list[tuple[str, dict[str, str]]]) -> None:
    world = LedgerWorld()
    keeper = world.keeper()
    for number, (step, drawn_files) in enumerate(drawn):
        if step in ("commit", "lose race"):
            world.commit(keeper, drawn_files, wins=step == "commit")
        elif step == "restart":
            keeper = world.keeper()
        elif step == "look":
            assert world.found(keeper, *drawn_files) == world.expected
        else:
            disturb(world, step, number)
            keeper = world.keeper()  # a running job has its runs in memory, and would not notice
    assert world.found(world.keeper(), "other") == world.expected
    ledger = open_ledger(world.store, world.identity, world.checkpoint, with_filters=False, parallel=1)
    try:
        known = {entry.path: entry.etag for entry in ledger.scan()} if not ledger.gaps else world.expected
    except RunUnreadable:  # no commit names the one that was written in its place yet
        assert "tear run" in [step for step, _ in drawn]
        return
    assert known == world.expected


def test_commits_become_runs_and_the_table_is_never_asked() -> None:
    world = filled(40)
    assert world.checkpoint.ledger[0].first == 0
    assert world.checkpoint.ledger[-1].last >= 36
    assert len(world.checkpoint.ledger) < 8
    assert world.found(world.keeper()) == world.expected
    assert world.asked == []


def test_a_run_in_memory_answers_without_requests() -> None:
    world = filled(10)
    keeper = world.keeper()
    keeper.find(world.checkpoint, ["x"])
    world.store.delete([info.key for info in world.store.list(FOLDER)])
    assert keeper.find(world.checkpoint, ["new1", "new2"]) == {}
    assert len(world.events("ledger_opened")) == 2


def test_a_lost_ledger_is_rebuilt_from_receipts_and_the_next_commit_names_it() -> None:
    world = filled(12)
    world.store.delete([info.key for info in world.store.list(FOLDER)])
    keeper = world.keeper()
    assert world.found(keeper) == world.expected
    assert (world.asked, keeper.owes_commit(world.checkpoint)) == ([], True)
    assert {fields["from_table"] for fields in world.events("ledger_rebuilding")} == {False}
    world.commit(keeper, {"new": "1"})
    if keeper.owes_commit(world.checkpoint):  # the rebuilt runs have been merged with others
        world.commit(keeper, {})
    assert not keeper.owes_commit(world.checkpoint)
    assert world.found(world.keeper()) == world.expected
    assert len(world.events("ledger_rebuilding")) == 1


def test_without_receipts_only_the_sequences_in_question_are_asked_of_the_table() -> None:
    world = filled(12)
    lost = world.checkpoint.ledger[-1]
    world.store.delete([FOLDER + lost.name])
    world.store.delete(
        [i.key for i in world.store.list(RECEIPTS) if int(i.key.removeprefix(RECEIPTS)[:20]) <= lost.last]
    )
    assert world.found(world.keeper()) == world.expected
    assert [n for asked in reversed(world.asked) for n in range(asked.first, asked.last + 1)] == [
        *range(lost.first, lost.last + 1)
    ]
    progress = world.events("ledger_rebuilding")
    assert ({event["from_table"] for event in progress}, progress[-1]["missing_commits"]) == ({True}, 0)


def test_a_foreign_file_in_the_ledgers_folder_stays_and_does_no_harm() -> None:
    world = filled(12)
    foreign = [FOLDER + name for name in ("README", ".DS_Store", "0-1.run", "a-b-c", "copy-of-a-run.tmp")]
    for key in foreign:
        world.store.put(key, b"x")
    world.now_ts += 2 * KEPT_SECS
    world.keeper().clean(world.checkpoint)
    assert {*foreign} <= {info.key for info in world.store.list(FOLDER)}


def test_many_commits_without_receipts_are_asked_in_growing_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.ledger.rebuild.RUN_FILES", 400)
    world = filled(200, LedgerWorld(LedgerSettings(commits=1000, in_background=False)))
    world.store.delete([info.key for info in world.store.list(RECEIPTS)])
    assert world.found(world.keeper()) == world.expected
    assert world.asked == [SequenceRange(*r) for r in ((192, 199), (160, 191), (32, 159), (0, 31))]
    assert [fields["missing_commits"] for fields in world.events("ledger_rebuilding")] == [192, 160, 32, 0]


def test_rows_that_a_user_deleted_stay_settled_after_their_receipts_and_runs_were_kept() -> None:
    world = filled(12)
    world.table.clear()
    assert world.found(world.keeper()) == world.expected


def test_a_merge_in_the_background_is_adopted_by_a_later_commit() -> None:
    world = LedgerWorld(replace(SMALL, in_background=True))
    keeper = world.keeper()
    for n in range(30):
        world.commit(keeper, {f"f{n}": "1"})
        while keeper._merge is not None and not keeper._merge.ended:
            time.sleep(0.001)
    assert world.checkpoint.ledger
    assert world.found(keeper) == world.found(world.keeper()) == world.expected


def test_two_keepers_that_merge_the_same_runs_do_not_harm_each_other() -> None:
    world = filled(9)
    one, two = world.keeper(), world.keeper()
    assert one.find(world.checkpoint, ["f0"]) == two.find(world.checkpoint, ["f0"])
    before = world.checkpoint
    world.commit(one, {"x": "1"})
    world.commit(one, {"y": "1"})
    two.refs(before)
    two.forget()
    world.commit(two, {"z": "1"})
    one.forget()
    assert world.found(one) == world.found(two) == world.found(world.keeper()) == world.expected


def test_a_failed_merge_is_logged_and_tried_again() -> None:
    world = filled(1)
    keeper = world.keeper()
    put = world.store.put

    def failing(key: str, data: bytes) -> ObjectInfo:
        if key.startswith(FOLDER):
            from blizzard.errors import StorageUnavailable

            raise StorageUnavailable(key)
        return put(key, data)

    world.store.put = failing  # type: ignore[method-assign]
    for n in range(4):
        world.commit(keeper, {f"g{n}": "1"})
    assert world.events("ledger_merge_failed")
    assert world.checkpoint.ledger == ()
    world.store.put = put  # type: ignore[method-assign]
    for n in range(4):
        world.commit(keeper, {f"h{n}": "1"})
    assert world.checkpoint.ledger
    assert world.found(world.keeper()) == world.expected


# -- broken variants: each must be noticed by what the tests above compare


def test_a_run_that_claims_commits_that_it_has_not_would_be_noticed() -> None:
    world = filled(12)
    *others, last = world.checkpoint.ledger
    claims = replace(last, last=world.checkpoint.sequence)
    world.store.put(FOLDER + claims.name, world.store.get(FOLDER + last.name))
    world.checkpoint = replace(world.checkpoint, ledger=(*others, claims))
    assert world.found(world.keeper()) != world.expected


def test_a_filter_with_false_negatives_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = filled(12)
    monkeypatch.setattr("blizzard.ledger.path_filter.PathFilter.may_contain", lambda self, digest: digest % 2 == 0)
    assert world.found(world.keeper()) != world.expected


def test_the_runs_of_another_table_do_not_count() -> None:
    world, other = filled(12), filled(12)
    for info in [*world.store.list(FOLDER)]:
        world.store.delete([info.key])
    keeper = other.keeper()
    other.commit(keeper, {"only there": "1"})
    for info in other.store.list(FOLDER):
        world.store.put(info.key, other.store.get(info.key))
    assert world.found(world.keeper(), "only there") == world.expected


# -- what sweeps see


def listed(path: str, etag: str = "1", modified_ts: float = 0.5) -> ObjectInfo:
    return ObjectInfo(path, 10, etag, modified_ts)


def test_a_sweep_leaves_out_files_whose_content_is_settled() -> None:
    world = filled(12)
    settled = SettledFiles(world.store, world.identity, world.checkpoint, silent, parallel=1)
    infos = [listed("f1"), listed("f2", "2"), listed("new"), listed("again", "11")]
    assert [info.key for info in settled.unsettled(infos)] == ["f2", "new"]


def test_what_a_sweep_cannot_read_settles_nothing_and_it_asks_no_table() -> None:
    world = filled(12)
    store_keys = [info.key for info in world.store.list(FOLDER)]
    world.store.delete(store_keys)
    settled = SettledFiles(world.store, world.identity, world.checkpoint, silent, parallel=1)
    infos = [listed(path, etag) for path, etag in world.expected.items()]
    recent = {info.key for info in infos} - {info.key for info in settled.unsettled(infos)}
    assert recent == {"f11", "again"} or recent == {"again"} | {
        f"f{n}" for n in range(world.checkpoint.ledger[-1].last + 1, 12)
    }
    assert world.asked == []


@pytest.mark.parametrize(
    ("state", "modified_ts", "left"),
    [
        (FileState.FAILED, 9.0, True),
        (FileState.FAILED, 0.5, False),
        (FileState.DONE, 9.0, False),
    ],
)
def test_a_failed_file_that_was_copied_onto_itself_is_not_settled(
    state: FileState, modified_ts: float, left: bool
) -> None:
    world = LedgerWorld()
    world.table = [LedgerEntry("x", 0, "1", 10, 1000, 0, 0, state)]
    world.checkpoint = replace(world.checkpoint, sequence=0, receipt=None)
    keeper = world.keeper()
    keeper.find(world.checkpoint, ["x"])
    world.commit(keeper, {})
    settled = SettledFiles(world.store, world.identity, world.checkpoint, silent, parallel=1)
    assert bool(settled.unsettled([listed("x", "1", modified_ts)])) is left


def test_processes_that_end_after_one_commit_merge_the_ledger_all_the_same() -> None:
    """As a run that is started for each batch: only what a commit names is left to the next one."""
    world = LedgerWorld(LedgerSettings(parallel_reads=1))
    most_runs = most_receipts = 0
    for number in range(300):
        keeper = world.keeper()
        keeper.find(world.checkpoint, [f"{number}-{n}" for n in range(3)])
        world.commit(keeper, {f"{number}-{n}": "1" for n in range(3)})
        while keeper.is_merging_runs():
            time.sleep(0.001)
        if keeper.owes_commit(world.checkpoint):
            world.commit(keeper, {})
        most_runs = max(most_runs, len(world.checkpoint.ledger))
        most_receipts = max(most_receipts, int(str(world.events("ledger_opened")[-1]["receipts"])))
    assert most_runs <= 2 * FACTOR
    assert most_receipts <= 33
    assert (world.found(world.keeper()), world.asked) == (world.expected, [])


def test_the_files_since_a_commit_are_those_of_later_ones_and_older_runs_are_not_read() -> None:
    world = LedgerWorld(LedgerSettings(commits=4, factor=100, in_background=False, parallel_reads=1))
    keeper = world.keeper()
    for number in range(22):
        world.commit(keeper, {f"{number}": "1", "again": f"{number}"})
    ledger = open_ledger(world.store, world.identity, world.checkpoint, with_filters=False, parallel=1)
    assert len(ledger.runs) > 3
    for sequence in range(-1, 22):
        found = [*ledger.since(sequence)]
        later = {f"{number}": "1" for number in range(sequence + 1, 22)} | ({"again": "21"} if sequence < 21 else {})
        assert {entry.path: entry.etag for entry in found} == later
        assert found == sorted(found)
    world.store.delete([FOLDER + ledger.runs[0].ref.name])
    with pytest.raises(RunUnreadable):
        [*ledger.since(-1)]
    assert len([*ledger.since(20)]) == 2


def test_commits_that_come_faster_than_merges_end_do_not_leave_ever_more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each merge lasts for four commits, so there are always recent ones to merge: without end, if they came first."""
    world = LedgerWorld(replace(SMALL, in_background=True))
    keeper, slow = world.keeper(), [True]
    whole = Merge.ended.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Merge, "ended", property(lambda merge: not slow[0] and whole(merge)))
    most = []
    for n in range(400):
        slow[0] = n % 4 > 0
        while not slow[0] and keeper._merge is not None and not keeper._merge.ended:
            time.sleep(0.001)
        world.commit(keeper, {f"f{n}": "1"})
        most.append(len(world.checkpoint.ledger))
    assert max(most[200:]) <= max(most[:200]) + 3 < 20
    slow[0] = False
    assert world.found(keeper) == world.expected


def test_a_run_that_is_gone_when_it_is_to_be_merged_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its filter and its index are in memory, so nothing else has missed it."""
    monkeypatch.setattr("blizzard.ledger.run._SMALL_RUN_FILES", 0)
    world = filled(4)
    keeper = world.keeper()
    keeper.find(world.checkpoint, ["new"])
    (gone,) = world.checkpoint.ledger[:1]
    world.store.delete([FOLDER + gone.name])
    for n in range(12):
        world.commit(keeper, {f"g{n}": "1"})
    assert gone.name not in {ref.name for ref in world.checkpoint.ledger}
    assert {ref.name for ref in world.checkpoint.ledger} <= {*world.runs()}
    assert len(world.events("ledger_merge_failed")) <= 1
    assert [event["run"] for event in world.events("ledger_run_unreadable")] == [gone.name]
    assert world.found(keeper) == world.found(world.keeper()) == world.expected
