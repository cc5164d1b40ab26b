"""A batch of messages becomes one segment per source; a failure concerns only the messages that caused it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.collect.collector import CollectResult, Message, collect, supersedes
from blizzard.collect.messages import FileArrived, IgnoreReason
from blizzard.collect.routing import Route, Router
from blizzard.errors import StorageUnavailable
from blizzard.manifest.segments import Entry
from tests.unit.s3_messages import message, put

ROUTER = Router(
    [
        Route("events:a", "s3://landing/a/", lambda path: not path.endswith(".tmp")),
        Route("events:b", "s3://landing/b/", lambda path: True),
    ]
)


@dataclass
class FakeManifests:
    """Remembers what was appended, and refuses for the sources in `broken`."""

    broken: set[str] = field(default_factory=set)
    segments: list[tuple[str, tuple[Entry, ...]]] = field(default_factory=list)

    def __call__(self, source_id: str, entries: Sequence[Entry], /) -> int:
        if source_id in self.broken:
            raise StorageUnavailable(f"{source_id}: slow down")
        self.segments.append((source_id, tuple(entries)))
        return len(self.segments) - 1

    def paths(self, source_id: str) -> list[str]:
        return [entry.path for owner, entries in self.segments if owner == source_id for entry in entries]


def collected(*messages: Message, broken: Sequence[str] = ()) -> tuple[CollectResult, FakeManifests]:
    manifests = FakeManifests(set(broken))
    return collect(messages, ROUTER, manifests), manifests


class TestCollecting:
    def test_a_batch_becomes_one_segment_per_source(self) -> None:
        result, manifests = collected(
            message("1", put("a/d=1/x")), message("2", put("b/y")), message("3", put("a/z"), put("b/é +%"))
        )
        assert [source for source, _ in manifests.segments] == ["events:a", "events:b"]
        assert manifests.paths("events:a") == ["d=1/x", "z"]
        assert manifests.paths("events:b") == ["y", "é +%"]
        assert result.failed_message_ids == ()

    def test_an_entry_has_all_fields_of_the_event(self) -> None:
        record = put("a/x", etag="e9", sequencer="0F")
        record["s3"]["object"]["versionId"] = "v1"
        _, manifests = collected(message("1", record))
        [(_, [entry])] = manifests.segments
        assert entry == Entry("x", 10, "e9", 1706450400.0, version_id="v1", sequencer="0F")

    def test_a_message_that_is_not_an_s3_event_fails_alone(self) -> None:
        result, manifests = collected(message("1", put("a/x")), Message("2", "hello"), message("3", put("a/y")))
        assert result.failed_message_ids == ("2",)
        assert manifests.paths("events:a") == ["x", "y"]
        assert "begins 'hello'" in str(result.bad[0].error)

    def test_a_message_with_one_bad_record_is_not_appended(self) -> None:
        result, manifests = collected(message("1", put("a/x"), {"eventSource": "aws:s3"}))
        assert result.failed_message_ids == ("1",)
        assert manifests.segments == []

    def test_an_object_without_a_source_is_ignored_and_logged(self) -> None:
        result, manifests = collected(message("1", put("a/x.tmp")), message("2", put("elsewhere/y")))
        assert [(one.reason, one.detail) for one in result.ignored] == [
            (IgnoreReason.NO_SOURCE, "s3://landing/a/x.tmp"),
            (IgnoreReason.NO_SOURCE, "s3://landing/elsewhere/y"),
        ]
        assert result.failed_message_ids == ()
        assert manifests.segments == []

    def test_a_source_that_cannot_be_appended_to_fails_only_its_own_messages(self) -> None:
        result, manifests = collected(
            message("1", put("a/x")),
            message("2", put("b/y")),
            message("3", put("a/z"), put("b/z")),
            broken=["events:b"],
        )
        assert result.failed_message_ids == ("2", "3")
        assert manifests.paths("events:a") == ["x", "z"]
        assert "slow down" in str(result.failed[0].error)

    def test_a_message_with_two_failed_appends_is_reported_once(self) -> None:
        result, _ = collected(message("1", put("a/x"), put("b/y")), broken=["events:a", "events:b"])
        assert len(result.failed) == 2
        assert result.failed_message_ids == ("1",)

    def test_duplicates_of_a_failed_append_stay_in_the_queue_too(self) -> None:
        result, _ = collected(message("1", put("a/x")), message("2", put("a/x")), broken=["events:a"])
        assert result.failed_message_ids == ("1", "2")

    def test_the_same_event_twice_is_one_entry(self) -> None:
        result, manifests = collected(message("1", put("a/x")), message("2", put("a/x"), put("a/x")))
        assert manifests.paths("events:a") == ["x"]
        assert (result.merged, result.files_appended, result.events) == (2, 1, 3)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_later_of_two_states_of_a_file_is_kept_in_any_order_of_arrival(self, order: tuple[int, int]) -> None:
        states = [put("a/x", etag="old", sequencer="0A"), put("a/x", etag="new", sequencer="0A01")]
        _, manifests = collected(*(message(str(i), states[i]) for i in order))
        [(_, [entry])] = manifests.segments
        assert entry.etag == "new"

    def test_an_empty_batch_appends_nothing(self) -> None:
        result, manifests = collected()
        assert (result.failed_message_ids, result.events, manifests.segments) == ((), 0, [])

    @given(st.lists(st.lists(st.sampled_from(["a/x", "a/y", "a/x.tmp", "b/x", "c/x", "bad"]), max_size=4)))
    def test_every_message_is_collected_or_reported_and_every_event_is_counted(self, batch: list[list[str]]) -> None:
        messages = [
            message(str(i), *({} if key == "bad" else put(key, sequencer=f"{i:02x}{j}") for j, key in enumerate(keys)))
            for i, keys in enumerate(batch)
        ]
        result, manifests = collected(*messages, broken=["events:b"])
        good = [keys for keys in batch if "bad" not in keys]
        assert set(manifests.paths("events:a")) == {
            key[2:] for keys in good for key in keys if key.startswith("a/") and key != "a/x.tmp"
        }
        assert len(manifests.paths("events:a")) == len(set(manifests.paths("events:a")))
        reported = {str(i) for i, keys in enumerate(batch) if "bad" in keys or "b/x" in keys}
        assert set(result.failed_message_ids) == reported
        assert len(result.failed_message_ids) == len(reported)
        assert result.events == sum(len(keys) for keys in good)


STATES = st.builds(
    FileArrived,
    bucket=st.just("landing"),
    key=st.just("x"),
    size=st.just(1),
    etag=st.sampled_from("abc"),
    event_ts=st.sampled_from([1.0, 2.0]),
    sequencer=st.sampled_from(["01", "02", "0200", "03"]),
)


@given(st.lists(STATES, min_size=2, max_size=2, unique_by=lambda state: (state.sequencer or "").rstrip("0")))
def test_the_sequencer_decides_before_the_time(states: list[FileArrived]) -> None:
    one, other = states
    assert supersedes(one, other) is not supersedes(other, one)
    assert supersedes(one, other) is supersedes(replace(one, event_ts=0.0), other)


def test_without_a_sequencer_the_later_time_wins_and_then_the_later_arrival() -> None:
    early = FileArrived("landing", "x", 1, "a", event_ts=1.0)
    late = replace(early, event_ts=2.0, sequencer="01")
    assert supersedes(late, early)
    assert not supersedes(early, late)
    assert supersedes(early, early)
