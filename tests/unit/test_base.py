"""Checkpoints with bases: what is stored gives the same checkpoint again, or nothing."""

import gzip
import json
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.state.base import BaseRef, Difference, Settled, decode_base, difference, digest, encode_base
from blizzard.state.checkpoint import FINISHED, BaseUnreadable, Checkpoint, decode, encode
from blizzard.state.checkpoint_codec import BaseSettings, CheckpointCodec
from blizzard.state.identity import SourceIdentity
from blizzard.storage.memory import MemoryStore
from tests.unit import strategies

IDENTITY = SourceIdentity("events", "landing", strategies.STATE_PREFIX)
settled = st.builds(
    Settled,
    watermarks=st.dictionaries(strategies.partitions, strategies.names),
    files=st.dictionaries(strategies.crowded_paths(), st.just(FINISHED) | st.integers(0, 3)),
)


class Job:
    """Commits checkpoints one after the other, as the job does. `clock` is that of its store."""

    def __init__(self, settings: BaseSettings | None = None) -> None:
        self.now_ts = 100_000.0
        self.store = MemoryStore(lambda: self.now_ts)
        self.codec = CheckpointCodec(self.store, IDENTITY, settings)
        self.checkpoint = Checkpoint("events", "landing")
        self.texts: list[str] = []
        self._ids = 0

    def commit(self, watermarks: dict[str, str], files: dict[str, int] | None = None) -> Checkpoint:
        after = replace(
            self.checkpoint,
            partition_watermarks=MappingProxyType(dict(watermarks)),
            files=MappingProxyType(files or {}),
        )
        sequence = self.checkpoint.sequence + 1
        based = self.codec.with_base(after, sequence=sequence, new_id=self._new_id)
        self.checkpoint = replace(based, sequence=sequence)
        self.texts.append(self.codec.encode(self.checkpoint))
        return self.checkpoint

    def read(self, text: str | None = None) -> Checkpoint:
        """As another process reads it."""
        return CheckpointCodec(self.store, IDENTITY).decode(text or self.texts[-1])

    def clean(self) -> None:
        self.codec.clean(self.checkpoint.bases, self.now_ts)

    def bases(self) -> list[str]:
        return [info.key for info in self.store.list(IDENTITY.bases_folder)]

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:06d}"


def folders(count: int, name: str = "a.txt") -> dict[str, str]:
    return {f"customer={n:05d}/date=2026-11-25": name for n in range(count)}


@given(settled, settled)
def test_a_difference_leads_from_one_state_to_the_other(before: Settled, after: Settled) -> None:
    assert difference(before, after).apply_to(before) == after
    assert len(difference(after, after)) == 0


@given(settled, settled)
def test_a_stored_base_is_read_as_it_was_written(before: Settled, after: Settled) -> None:
    change = difference(before, after)
    data = encode_base(change, "events:landing")
    assert decode_base(data, BaseRef("x", digest(data)), "events:landing") == change


@given(
    st.lists(settled, min_size=1, max_size=8),
    st.sampled_from([0, 120, 150, 200, 8_192]),
    st.sampled_from([1, 2, 16]),
    st.data(),
)
@hypothesis_settings(deadline=None)
def test_any_checkpoint_is_read_again_through_any_sequence_of_bases(
    states: list[Settled], max_commit_bytes: int, fraction: int, data: st.DataObject
) -> None:
    job = Job(BaseSettings(max_commit_bytes, fraction))
    for state in states:
        before = job.checkpoint
        committed = job.commit(dict(state.watermarks), dict(state.files))
        assert committed.settled == state
        if data.draw(st.booleans()):  # another job takes over
            job.codec = CheckpointCodec(job.store, IDENTITY, BaseSettings(max_commit_bytes, fraction))
            assert job.codec.decode(job.texts[-1]) == committed
        assert job.read() == committed
        assert job.codec.encode(committed) == job.texts[-1]
        if data.draw(st.booleans()):  # a lost race
            job.checkpoint = before
            job.texts.pop()


def test_few_watermarks_are_in_the_commit_itself_and_older_programs_can_read_it() -> None:
    job = Job()
    job.commit(folders(100), {f"{n}.txt": FINISHED for n in range(1000)})
    document = json.loads(job.texts[-1])
    assert document["schema_version"] == 4
    assert document["partition_watermarks"] == folders(100)
    assert not {"bases", "removed_partitions", "removed_files"} & document.keys()
    assert job.bases() == []


def test_many_watermarks_are_in_a_base_and_older_programs_refuse_the_commit() -> None:
    job = Job()
    job.commit(folders(1000))
    job.commit(folders(1000) | {"new": "a.txt"})
    document = json.loads(job.texts[-1])
    assert document["schema_version"] == 5
    assert document["partition_watermarks"] == {"new": "a.txt"}
    assert len(job.bases()) == 1
    assert job.read().partition_watermarks == folders(1000) | {"new": "a.txt"}


def test_many_tracked_files_of_a_source_with_many_partitions_are_in_a_base_too() -> None:
    job = Job()
    for turn in range(20):
        job.commit(folders(10_000), {f"{path}/{turn}.txt": FINISHED for path in folders(500)})
    assert max(map(len, job.texts)) < 10_000
    assert len(job.read().files) == 500


def test_a_commit_is_small_however_many_partitions_there_are_and_however_many_change() -> None:
    job, watermarks = Job(), folders(20_000)
    job.commit(watermarks)
    written = 0
    for turn in range(60):
        for n in range(0, 1000, 2):
            watermarks[f"customer={(37 * turn + n) % 20_000:05d}/date=2026-11-25"] = f"{turn:04d}.txt"
        kept = {*job.bases()}
        job.commit(dict(watermarks))
        written += sum(len(job.store.get(key)) for key in {*job.bases()} - kept)
    assert max(map(len, job.texts)) < 10_000
    assert job.read().partition_watermarks == watermarks
    whole = len(job.store.get(job.bases()[0]))
    assert written < 60 * whole / 3


def test_a_source_whose_partitions_were_closed_does_without_a_base_again() -> None:
    job = Job()
    job.commit(folders(1000))
    job.commit(folders(10))
    assert json.loads(job.texts[-1])["schema_version"] == 4
    assert job.read().partition_watermarks == folders(10)


# What cannot be read


def _torn(job: Job, key: str) -> None:
    job.store.put(key, job.store.get(key)[:-10])


def _missing(job: Job, key: str) -> None:
    job.store.delete([key])


def _another(job: Job, key: str) -> None:
    job.store.put(key, encode_base(Difference(Settled({"p": "x"})), "events:landing"))


def _empty(job: Job, key: str) -> None:
    job.store.put(key, b"")


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("harm", [_torn, _missing, _another, _empty])
def test_a_checkpoint_whose_base_is_lost_cannot_be_read(harm: object, layer: int) -> None:
    job = Job()
    job.commit(folders(10_000))
    job.commit(folders(10_000) | folders(300, "b.txt"))
    refs = job.checkpoint.bases
    assert len(refs) == 2
    assert callable(harm)
    harm(job, IDENTITY.bases_folder + refs[layer].name)
    with pytest.raises(BaseUnreadable, match=refs[layer].name) as found:
        job.read()
    assert found.value.rest.sequence == 1


def test_a_base_of_another_source_is_refused() -> None:
    data = encode_base(Difference(Settled({"p": "x"})), "events:other")
    with pytest.raises(UnreadableState, match="belongs to 'events:other'"):
        decode_base(data, BaseRef("x", digest(data)), "events:landing")


@given(strategies.any_json | st.fixed_dictionaries({"format": st.just(1), "source": st.just("events:landing")}))
def test_any_json_is_no_base_or_one(document: object) -> None:
    data = gzip.compress(json.dumps(document).encode())
    with suppress(UnreadableState):
        assert isinstance(decode_base(data, BaseRef("x", digest(data)), "events:landing"), Difference)


@pytest.mark.parametrize(
    "bases", [[], [["../x.json.gz", "d"]], [["0" * 20 + "-a-all.json.gz"]], "x", None, [["a", "b"]] * 3]
)
def test_names_that_are_no_bases_are_refused_before_anything_is_read(bases: object) -> None:
    job = Job()
    job.commit(folders(1000))
    with pytest.raises(UnreadableState, match="cannot be read"):
        job.read(json.dumps({**json.loads(job.texts[-1]), "bases": bases}))


def test_without_storage_a_checkpoint_with_bases_is_not_taken_for_a_whole_one() -> None:
    job = Job()
    job.commit(folders(1000))
    with pytest.raises(BaseUnreadable, match="not complete without base"):
        decode(job.texts[-1], pipeline="events", source="landing")
    with pytest.raises(ValueError, match="difference"):
        encode(job.checkpoint)


# What is deleted, and when


def test_a_base_is_deleted_an_hour_after_another_one_took_its_place() -> None:
    job = Job()
    job.commit(folders(1000))
    (first,) = job.bases()
    job.now_ts += 1_000_000
    job.commit(folders(1000, "b.txt"))
    job.clean()
    assert len(job.bases()) == 2
    job.now_ts += 3_599
    job.clean()
    assert first in job.bases()
    job.now_ts += 602
    job.clean()
    assert job.bases() == [IDENTITY.bases_folder + ref.name for ref in job.checkpoint.bases]


def test_bases_of_a_source_all_of_whose_partitions_change_do_not_pile_up() -> None:
    job = Job()
    for turn in range(200):
        job.now_ts += 60
        job.commit(folders(200, f"{turn:04d}.txt"))
        job.clean()
        assert job.read() == job.checkpoint
    assert len(job.bases()) < 75


def test_bases_of_changes_do_not_pile_up_and_what_the_checkpoint_names_stays() -> None:
    job, watermarks = Job(), folders(5_000)
    job.commit(watermarks)
    for turn in range(100):
        job.now_ts += 60
        job.commit(watermarks | folders(200, f"{turn:04d}.txt"))
        job.clean()
        assert job.read() == job.checkpoint
        hour_ago = job.texts[max(0, turn - 58)]
        assert job.read(hour_ago).partition_watermarks
    assert len(job.bases()) < 75


def test_a_base_of_everything_stays_for_an_hour_even_if_bases_of_changes_are_much_older() -> None:
    job = Job()
    job.commit(folders(5_000))
    for name in ("b.txt", "c.txt"):
        job.now_ts += 10_000
        job.commit(folders(5_000) | folders(200, name))
    before = job.texts[-1]
    job.now_ts += 10_000
    job.commit(folders(5_000, "d.txt"))
    job.clean()
    assert job.read(before).partition_watermarks == folders(5_000) | folders(200, "c.txt")
    assert len(job.bases()) == 3


def test_the_base_that_is_named_stays_however_many_lost_attempts_came_after_it() -> None:
    job = Job()
    job.commit(folders(1000))
    for n in range(3):
        job.now_ts += 4_000
        job.store.put(f"{IDENTITY.bases_folder}{1:020d}-lost{n}-all.json.gz", b"x")
    job.now_ts += 4_000
    job.clean()
    assert job.read() == job.checkpoint


def test_a_base_that_is_back_is_read_after_the_next_recovery_began() -> None:
    job = Job()
    job.commit(folders(1000))
    (key,) = job.bases()
    data, reader = job.store.get(key), CheckpointCodec(job.store, IDENTITY)
    job.store.delete([key])
    with pytest.raises(BaseUnreadable):
        reader.decode(job.texts[-1])
    job.store.put(key, data)
    reader.forget()
    assert reader.decode(job.texts[-1]) == job.checkpoint


def test_the_base_of_an_attempt_that_was_lost_is_deleted_in_the_end() -> None:
    job = Job()
    job.commit(folders(1000))
    job.store.put(f"{IDENTITY.bases_folder}{1:020d}-lost-all.json.gz", b"x")
    for name in ("b.txt", "c.txt", "d.txt"):
        job.now_ts += 4_000
        job.commit(folders(1000, name))
        job.clean()
    assert not [key for key in job.bases() if "lost" in key]


def test_a_base_that_is_gone_while_the_job_has_it_in_memory_is_replaced_by_the_next_commit() -> None:
    job = Job()
    job.commit(folders(1000))
    job.store.delete(job.bases())
    job.clean()
    job.commit(folders(1000))
    assert job.read() == job.checkpoint
