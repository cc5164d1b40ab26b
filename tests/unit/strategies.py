"""Values that the property tests draw: paths, entries, sweeps, segments, checkpoints, and any JSON at all."""

from types import MappingProxyType

from hypothesis import strategies as st

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Closing, Entry, FoundBy, Position, Segment, SettleMark, Sweep
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState
from blizzard.storage.memory import MemoryStore

SOURCE_ID = "events:landing"
STATE_PREFIX = "_blizzard/events_landing"
PENDING = f"{STATE_PREFIX}/pending/"


def memory_store() -> MemoryStore:
    return MemoryStore(clock=lambda: 1_706_450_400.0)


def manifest_on(store: MemoryStore) -> Manifest:
    return Manifest(store, STATE_PREFIX, SOURCE_ID)


def dated_folder(partition: str) -> str | None:
    """`date=…` at the front of a partition is its dated folder; anything else is undated."""
    folder = partition.partition("/")[0]
    return folder if folder.startswith("date=") else None


any_text = st.text(max_size=12)
any_path = st.text(min_size=1, max_size=30)
moments = st.floats(min_value=0, max_value=4e9, allow_nan=False)
naturals = st.integers(min_value=0, max_value=2**53)
digests = st.none() | st.text("0123456789abcdef", min_size=1, max_size=8)

# Few enough that partitions, names and paths meet again and again.
partitions = st.sampled_from(["", "date=1", "date=2", "date=2/hour=7", "date=3", "other"])
names = st.sampled_from(list("abcdefgh"))


@st.composite
def crowded_paths(draw: st.DrawFn) -> str:
    partition, name = draw(partitions), draw(names)
    return f"{partition}/{name}" if partition else name


entries = st.builds(
    Entry,
    path=any_path,
    size=naturals,
    etag=any_text,
    event_ts=moments,
    found_by=st.sampled_from(FoundBy),
    version_id=st.none() | any_text,
    sequencer=st.none() | any_text,
)
settle_marks = st.builds(SettleMark, partition=any_text, after=st.none() | any_text, through=any_text)
closings = st.builds(Closing, after=st.none() | any_text, through=any_text, cold=st.booleans())
sweeps = st.builds(
    Sweep,
    marks=st.lists(settle_marks, max_size=3).map(tuple),
    closing=st.none() | closings,
    late_swept_ts=st.none() | moments,
    relies_on=naturals,
    chain=digests,
)
segments = st.builds(
    Segment,
    number=naturals,
    entries=st.lists(entries, max_size=4).map(tuple),
    sweep=st.none() | sweeps,
    previous=digests,
    writer_id=any_text,
    written_ts=moments,
    etag=any_text,
)
positions = st.builds(Position, naturals, naturals, digests, naturals, digests)
read_states = st.just(FINISHED) | naturals
checkpoints = st.builds(
    Checkpoint,
    pipeline=st.just("events"),
    source=st.just("landing"),
    sequence=st.integers(-1, 2**53),
    delta_version=st.integers(-1, 2**53),
    position=positions,
    state=st.sampled_from(WatermarkState),
    watermark=st.none() | any_path,
    partition_watermarks=st.dictionaries(any_text, any_text, max_size=4).map(MappingProxyType),
    closed_through=st.none() | any_text,
    late_swept_ts=st.none() | moments,
    receipt=st.none() | any_text,
    history=st.none() | any_text,
    files=st.dictionaries(any_path, read_states, max_size=4).map(MappingProxyType),
    last_update_ts=moments,
)

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=10,
)
