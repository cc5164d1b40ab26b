"""Run records: what is written is read, one of two writers wins, and the newest is always found."""

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.config.published import read_published
from blizzard.dispatch.run_records import (
    MAX_READS,
    RECORDS_KEPT,
    TRIM_SLACK,
    Phase,
    RunLog,
    RunRecord,
    SourcePosition,
    decode,
    encode,
)
from blizzard.errors import AlreadyExists, ConfigError, StorageUnavailable, UnreadableState
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import any_text, memory_store, moments, naturals

FOLDER = "_blizzard/_runs/events/"
RECORDS = "*_blizzard/_runs/*"
"""As the policy of the lake's bucket has it: what lies there is written conditionally or not at all."""
CONFIG = """
pipelines:
  events:
    table_uri: s3://lake/t
    sources:
      SOURCE: {uri: s3://landing/raw/, schema: "id STRING"}
"""
RECORD = RunRecord(0, "events", "e1", 1, Phase.STARTING, "f1")

positions = st.builds(
    SourcePosition,
    sequence=st.integers(-1, 2**53),
    segment=naturals,
    entry=naturals,
    head=st.none() | st.tuples(naturals, any_text),
    has_backlog=st.booleans(),
)
records = st.builds(
    RunRecord,
    number=naturals,
    pipeline=any_text,
    epoch=any_text,
    attempt=naturals,
    phase=st.sampled_from(Phase),
    fingerprint=any_text,
    token_used=st.booleans(),
    run_id=st.none() | any_text,
    failures=naturals,
    not_before_ts=moments,
    started_ts=st.none() | moments,
    ended_ts=st.none() | moments,
    reason=st.none() | any_text,
    positions=st.dictionaries(any_text, positions, max_size=3).map(MappingProxyType),
    written_ts=moments,
)


def run_log(store: MemoryStore, writer: str = "w") -> RunLog:
    ids = iter(f"{writer}{n}" for n in range(1000))
    return RunLog(store, "events", lambda: next(ids))


@given(records)
def test_a_run_record_is_read_as_it_was_written(record: RunRecord) -> None:
    assert decode(encode(record, "w"), pipeline=record.pipeline, number=record.number) == record


@given(
    st.binary(max_size=40)
    | st.recursive(st.none() | st.integers() | any_text, st.lists).map(lambda v: json.dumps(v).encode())
)
def test_an_unreadable_run_record_is_an_error_that_says_what_to_do(data: bytes) -> None:
    with pytest.raises(UnreadableState, match="delete the folder"):
        decode(data, pipeline="events", number=0)


FIELDS = sorted(json.loads(encode(RECORD, "w")).keys() - {"writer"})


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_or_a_wrong_type_is_refused(name: str) -> None:
    document = json.loads(encode(RECORD, "w"))
    for spoiled in ({key: value for key, value in document.items() if key != name}, {**document, name: [1]}):
        with pytest.raises(UnreadableState):
            decode(json.dumps(spoiled).encode(), pipeline="events", number=0)


def test_a_record_with_another_number_or_pipeline_is_refused() -> None:
    for pipeline, number in [("events", 1), ("clicks", 0)]:
        with pytest.raises(UnreadableState):
            decode(encode(RECORD, "w"), pipeline=pipeline, number=number)


def test_one_of_two_writers_of_the_same_state_wins() -> None:
    store = memory_store()
    run_log(store, "a").append(RECORD, now_ts=1.0)
    with pytest.raises(AlreadyExists):
        run_log(store, "b").append(RECORD, now_ts=1.0)


def test_the_newest_record_has_the_highest_number_and_its_time() -> None:
    store = memory_store()
    log = run_log(store)
    assert log.latest() is None
    for number in (0, 1, 9, 10):
        log.append(replace(RECORD, number=number, failures=number), now_ts=50.0)
    assert log.latest() == replace(RECORD, number=10, failures=10, written_ts=50.0)


def test_other_objects_are_ignored_and_kept() -> None:
    store = memory_store()
    log = run_log(store)
    log.append(RECORD, now_ts=1.0)
    for name in ("notes.txt", "7.json", f"{7:020d}.json.bak", f"pending/{7:020d}.json", f"{'٣' * 20}.json"):
        store.put(FOLDER + name, b"")
    latest = log.latest()
    assert latest is not None
    assert latest.number == 0


@pytest.mark.parametrize("source", ["runs", "events", "x_runs"])
def test_no_source_stores_its_state_among_run_records(source: str) -> None:
    config = read_published(to_published(parse_config(CONFIG.replace("SOURCE", source), {})), "test")
    [pipeline] = config.pipelines.values()
    [found] = pipeline.sources
    store = memory_store()
    RunLog(store, pipeline.name, lambda: "w").append(replace(RECORD, pipeline=pipeline.name), now_ts=1.0)
    [record] = [info.key for info in store.list()]
    assert fnmatchcase(record, RECORDS)
    for state in (
        "/receipts/0.json.gz",
        "/dead_letters/a/file.ndjson",
        "/pending/0.json",
        "_checkpoint.json",
        "_sweep.json",
    ):
        assert not fnmatchcase(found.state_prefix + state, RECORDS)


@pytest.mark.parametrize("name", ["_runs", "_x"])
def test_a_pipeline_name_that_could_match_other_state_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        parse_config(CONFIG.replace("SOURCE", "landing").replace("events:", f"{name}:"), {})


def test_trimming_keeps_the_newest_records() -> None:
    store = memory_store()
    log = run_log(store)
    for number in range(RECORDS_KEPT + TRIM_SLACK):
        log.append(replace(RECORD, number=number), now_ts=1.0)
        assert log.trim() == 0
    log.append(replace(RECORD, number=RECORDS_KEPT + TRIM_SLACK), now_ts=1.0)
    assert log.trim() == TRIM_SLACK + 1
    kept = [info.key for info in store.list(FOLDER)]
    assert kept == [f"{FOLDER}{number:020d}.json" for number in range(TRIM_SLACK + 1, TRIM_SLACK + 1 + RECORDS_KEPT)]


class Vanishing(MemoryStore):
    """Deletes each object that somebody wants to read."""

    def __init__(self, records: int) -> None:
        super().__init__(lambda: 0.0)
        for number in range(records):
            run_log(self, str(number)).append(replace(RECORD, number=number), now_ts=1.0)

    def get(self, key: str) -> bytes:
        self.delete([key])
        return super().get(key)


def test_records_deleted_while_they_are_read_are_listed_again() -> None:
    assert run_log(Vanishing(MAX_READS - 1)).latest() is None


def test_unreadable_records_are_not_taken_for_a_first_run() -> None:
    vanishing = Vanishing(MAX_READS + 1)
    with pytest.raises(StorageUnavailable, match="newest run record of pipeline events"):
        run_log(vanishing).latest()
    assert vanishing.head(f"{FOLDER}{0:020d}.json") is not None


@given(records, records)
def test_a_token_is_valid_for_the_service_and_unique_by_attempt_epoch_and_pipeline(
    one: RunRecord, other: RunRecord
) -> None:
    base = replace(RECORD, epoch="0123456789abcdef")
    token = replace(base, attempt=one.attempt, pipeline=one.pipeline).client_token
    assert len(token) <= 64
    assert set(token) <= set("0123456789abcdef-")
    same = (one.attempt, one.pipeline) == (other.attempt, other.pipeline)
    assert (token == replace(base, attempt=other.attempt, pipeline=other.pipeline).client_token) == same
    assert token != replace(base, epoch="f" * 16, attempt=one.attempt, pipeline=one.pipeline).client_token
