"""How an entry is classified by the state, and how the table resolves suspects."""

from dataclasses import replace

import pytest

from blizzard.manifest.segments import Entry, FoundBy
from blizzard.state.batch import (
    EntryClass,
    OnOverwrite,
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
    ("path", "state", "on_overwrite", "entry_class"),
    [
        (OPEN, checkpoint(), "ignore", EntryClass.INGEST),
        (OPEN, checkpoint({"date=5": "l"}), "ignore", EntryClass.INGEST),
        (OPEN, checkpoint({"date=4": "z"}), "ignore", EntryClass.INGEST),
        (OPEN, checkpoint({"date=5": "m"}), "ignore", EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}), "ignore", EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + OVERLAP), "ignore", EntryClass.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + OVERLAP + 1), "ignore", EntryClass.SETTLED),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + OVERLAP + 1), "replace", EntryClass.SETTLED),
        (OPEN, checkpoint({"date=5": "l"}, late_swept_ts=NOW + OVERLAP + 1), "ignore", EntryClass.INGEST),
        (OPEN, checkpoint(files={OPEN: FINISHED}), "ignore", EntryClass.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: FINISHED}), "dead_letter", EntryClass.SUSPECT),
        (OPEN, checkpoint(files={OPEN: FINISHED}), "replace", EntryClass.SUSPECT),
        (OPEN, checkpoint(files={OPEN: 0}), "ignore", EntryClass.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: 5}), "dead_letter", EntryClass.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: 5}), "replace", EntryClass.DUPLICATE),
        (CLOSED, checkpoint(closed_through="date=1"), "ignore", EntryClass.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=1", late_swept_ts=NOW + 9 * OVERLAP), "ignore", EntryClass.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=1", files={CLOSED: FINISHED}), "ignore", EntryClass.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=0"), "ignore", EntryClass.INGEST),
        ("date=1/hour=2/m", checkpoint(closed_through="date=1"), "ignore", EntryClass.SUSPECT),
        ("undated/m", checkpoint(closed_through="date=1"), "ignore", EntryClass.SUSPECT),
        ("undated/m", checkpoint({"undated": "l"}, closed_through="date=1"), "ignore", EntryClass.INGEST),
        ("m", checkpoint({"": "m"}), "ignore", EntryClass.SUSPECT),
        ("m", checkpoint({"": "l"}), "ignore", EntryClass.INGEST),
    ],
)
def test_the_class_of_an_entry_follows_from_the_state(
    path: str, state: Checkpoint, on_overwrite: str, entry_class: EntryClass
) -> None:
    by = rules(on_overwrite=OnOverwrite(on_overwrite))
    progress = SourceProgress.from_checkpoint(state, dated_folder)
    assert classify(entry(path), progress, by, in_batch=False) is entry_class
    assert classify(entry(path), progress, by, in_batch=True) is EntryClass.DUPLICATE


def test_a_tracked_file_that_a_late_sweep_appended_is_a_suspect() -> None:
    progress = SourceProgress.from_checkpoint(checkpoint(files={OPEN: FINISHED}), dated_folder)
    late = replace(entry(OPEN), found_by=FoundBy.LATE)
    assert classify(late, progress, rules(), in_batch=False) is EntryClass.SUSPECT


def test_a_tracked_file_that_a_watermark_has_passed_is_a_suspect() -> None:
    progress = SourceProgress.from_checkpoint(checkpoint({"": "m"}, files={"m": FINISHED}), dated_folder)
    assert classify(entry("m"), progress, rules(), in_batch=False) is EntryClass.SUSPECT


def test_late_files_are_added_to_the_batch_and_other_suspects_are_dropped() -> None:
    state = checkpoint({"p": "b"})
    batch = plan(state, manifest_of([entry("p/a"), entry("p/b"), entry("p/c")]))
    planned = add_late_files(batch, [entry("p/b")], rules())
    assert (taken(planned), planned.suspects) == (["p/c", "p/b"], ())
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
    assert (taken(batch), batch.suspects, batch.position.entry) == (["p/x"], (), 1)
