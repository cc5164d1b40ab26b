"""How an entry is classified by the state, and what becomes of suspects."""

import pytest

from blizzard.manifest.segments import Entry
from blizzard.state.batch import (
    EntryClass,
    add_late_files,
    classify,
    next_checkpoint,
)
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.watermark import SourceProgress
from tests.unit.batches import NOW, OVERLAP, checkpoint, entry, manifest_of, plan, rules, taken
from tests.unit.strategies import dated_folder

OPEN, CLOSED = "date=5/m", "date=1/m"


@pytest.mark.parametrize(
    ("path", "state", "entry_class"),
    [
        (OPEN, checkpoint(), EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "l"}), EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}), EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + 9 * OVERLAP), EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "m"}, before_ledger_ts=NOW + OVERLAP), EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "m"}, before_ledger_ts=NOW + OVERLAP + 1), EntryClass.SETTLED),
        (OPEN, checkpoint({"date=5": "n"}, before_ledger_ts=NOW + OVERLAP + 1), EntryClass.SETTLED),
        (OPEN, checkpoint({"date=5": "l"}, before_ledger_ts=NOW + OVERLAP + 1), EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=4": "z"}, before_ledger_ts=NOW + OVERLAP + 1), EntryClass.SUSPECT),
        (OPEN, checkpoint(files={OPEN: FINISHED}), EntryClass.SUSPECT),
        (OPEN, checkpoint(files={OPEN: FINISHED}, before_ledger_ts=NOW + OVERLAP + 1), EntryClass.SETTLED),
        (OPEN, checkpoint(files={OPEN: 0}), EntryClass.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: 5}), EntryClass.DUPLICATE),
        (CLOSED, checkpoint(closed_through="date=1"), EntryClass.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=1", before_ledger_ts=NOW + 9 * OVERLAP), EntryClass.SUSPECT),
        ("m", checkpoint({"": "m"}), EntryClass.SUSPECT),
    ],
)
def test_the_class_of_an_entry_follows_from_the_state(path: str, state: Checkpoint, entry_class: EntryClass) -> None:
    progress = SourceProgress.from_checkpoint(state, dated_folder)
    assert classify(entry(path), progress, rules(), in_batch=False) is entry_class
    assert classify(entry(path), progress, rules(), in_batch=True) is EntryClass.DUPLICATE


def test_late_files_are_added_to_the_batch_and_other_suspects_are_dropped() -> None:
    state = checkpoint({"p": "b"})
    batch = plan(state, manifest_of([entry("p/a"), entry("p/b"), entry("p/c")]))
    planned = add_late_files(batch, [entry("p/b"), entry("p/c")], rules())
    assert (taken(planned), planned.suspects) == (["p/b", "p/c"], ())
    assert planned.position == batch.position


@pytest.mark.parametrize("around", [[], [entry("p/c")], [entry("p/x", 0)]], ids=["alone", "suspect", "new"])
def test_a_late_file_larger_than_a_batch_is_alone_in_it_and_stays_in_progress(around: list[Entry]) -> None:
    state = checkpoint({"p": "m"})
    batch = plan(state, manifest_of([entry("p/b", 5000), *around]))
    planned = add_late_files(batch, batch.suspects, rules())
    assert (taken(planned), planned.files[0].slice_bytes, planned.position.segment) == (["p/b"], 1000, not around)
    after = next_checkpoint(planned, {"p/b": 40})
    assert (after.in_progress, dict(after.partition_watermarks)) == ({"p/b": 40}, {"p": "m"})


def test_a_late_file_larger_than_a_batch_waits_until_the_batch_is_empty() -> None:
    batch = plan(checkpoint({"p": "m"}), manifest_of([entry("p/x"), entry("p/b", 5000)]))
    assert (taken(batch), batch.position.entry) == (["p/x"], 1)
