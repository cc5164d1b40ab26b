"""What a table tells of sources of topics that are not configured."""

import json

import pytest

from blizzard.audit.topic_plan import topic_backlog
from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import RecoveryError
from blizzard.kafka.brokers import Cluster, Topic
from blizzard.kafka.former_sources import FormerTopic, check_not_renamed, former_topics
from blizzard.kafka.table_state import TopicState
from blizzard.kafka.takeover import LOOK_SECS, TakeoverWatch, taken_over
from blizzard.state.delta_log import commit_key
from blizzard.state.identity import SourceIdentity, source_of_app_id
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition, encode
from blizzard.state.txns import Txn
from blizzard.storage.memory import MemoryStore
from tests.unit.test_topic_plans import FakeBrokers

OLD = "blizzard:p:old"


def store_of(topics: dict[str, str]) -> MemoryStore:
    """With one commit of `p:old`, whose checkpoint has these topics and their ids."""
    made = MemoryStore(lambda: 0.0)
    positions = {name: TopicPosition(topic_id, {0: 5}) for name, topic_id in topics.items()}
    state = encode(TopicCheckpoint("p", "old", 3, 3, "cluster", positions))
    actions = [{"commitInfo": {"userMetadata": state}}, {"txn": {"appId": OLD, "version": 3}}]
    made.put(commit_key(0), "\n".join(map(json.dumps, actions)).encode())
    return made


def txns(*app_ids: str) -> list[Txn]:
    return [Txn(app_id, 4, None) for app_id in app_ids]


def test_topics_have_the_ids_of_the_newest_checkpoint() -> None:
    found = former_topics(store_of({"t": "id", "u": "other"}), txns(OLD, f"{OLD}:t:0", f"{OLD}:t:1"), (), {"p:new"})
    assert found == [FormerTopic("p:old", "t", "id")]


def test_rows_tell_the_id_where_no_checkpoint_does() -> None:
    store, rows = MemoryStore(lambda: 0.0), [("p:old", "t/0", "id"), ("p:older", "t/1", "before"), ("p:x", "a", "e")]
    found = former_topics(store, txns(f"{OLD}:t:0", f"{OLD}:u:0"), rows, {"p:new", "p:older"})
    assert found == [FormerTopic("p:old", "t", "id"), FormerTopic("p:old", "u", None)]


def test_sources_of_files_those_that_are_configured_and_other_programs_have_none() -> None:
    others = txns("blizzard:p:files", "blizzard:p:new:t:0", "kdi-0", "blizzard:ZXZlbnRz", "blizzard:p:s:t:x")
    assert former_topics(store_of({"t": "id"}), others, (), {"p:new"}) == []


@pytest.mark.parametrize(("topic_id", "refused"), [("id", True), (None, True), ("before", False)])
def test_a_topic_is_the_same_by_its_id(topic_id: str | None, refused: bool) -> None:
    cluster, former = Cluster("c", {"t": Topic("id", [0])}), [FormerTopic("p:old", "t", topic_id)]
    check_not_renamed([FormerTopic("p:old", "u", "id")], cluster, "p:new")
    if not refused:
        check_not_renamed(former, cluster, "p:new")
        return
    with pytest.raises(RecoveryError, match=r"topic t .*by source p:old.*source p:new has read nothing yet"):
        check_not_renamed(former, cluster, "p:new")


def states(**begun: tuple[str, int, str | None]) -> tuple[MemoryStore, list[Txn]]:
    """A table with the states of sources, each with a topic, the offset with which it began, and what it took over."""
    made, found = MemoryStore(lambda: 0.0), []
    for version, (name, (topic, first, taken)) in enumerate(begun.items()):
        positions = {topic: TopicPosition("id", {0: 9}, {0: first})}
        state = encode(TopicCheckpoint("p", name, 3, 3, "cluster", positions, taken_over=taken))
        app_id = f"blizzard:p:{name}"
        actions = [{"commitInfo": {"userMetadata": state}}, {"txn": {"appId": app_id, "version": 3}}]
        made.put(commit_key(version), "\n".join(map(json.dumps, actions)).encode())
        found += [Txn(app_id, 3, None), Txn(f"{app_id}:{topic}:0", 8, None)]
    return made, found


def options(take_over: str | None = None) -> KafkaOptions:
    return KafkaOptions(bootstrap_servers="b:9092", topics=["u"], take_over=take_over)


@pytest.mark.parametrize(("first", "taken"), [(5, "kdi"), (5, None), (3, "kdi")])
def test_an_app_id_that_another_source_has_taken_over_is_dealt_with(first: int, taken: str | None) -> None:
    """By its name, also if kafka-delta-ingest has written on; of a version that did not write it down, by offsets."""
    store, known = states(a=("t", first, taken))
    found = [*known, Txn("kdi-0", 4, None), Txn("more-0", 6, None)]
    with pytest.raises(RecoveryError, match="source p:a of the table has taken over its offsets for topic t "):
        taken_over(store, found, options("kdi"), "p:b")
    assert taken_over(store, found[:-1], options(), "p:b") == {}
    assert taken_over(store, found, options("more"), "p:b") == {("u", 0): 7}
    with pytest.raises(RecoveryError, match="Write `take_over: more` into"):
        taken_over(store, found, options(), "p:b")


def test_a_source_that_began_elsewhere_or_behind_several_app_ids_has_taken_none_over() -> None:
    store, known = states(a=("t", 0, None), b=("t", 5, "more"), c=("t", 7, None))
    found = [*known, Txn("kdi-0", 4, None)]
    assert taken_over(store, found, options("kdi"), "p:d") == {("u", 0): 5}
    store, known = states(a=("t", 5, None))
    found = [*known, Txn("kdi-0", 4, None), Txn("again-0", 4, None)]
    assert taken_over(store, found, options("again"), "p:d") == {("u", 0): 5}


def test_all_app_ids_are_named() -> None:
    found = [Txn("a-0", 4, None), Txn("a-1", 4, None), Txn("b-c-0", 4, None)]
    with pytest.raises(RecoveryError, match=r"'a' with 2 p.*'b-c' with 1 p.*`take_over: a` or `take_over: b-c` into"):
        taken_over(MemoryStore(lambda: 0.0), found, options(), "p:d")


@pytest.mark.parametrize(
    ("app_id", "source"),
    [
        ("blizzard:p:clicks", "p:clicks"),
        ("blizzard:p:clicks:orders:0", "p:clicks"),
        ("blizzard:p:clicks:orders", None),
        ("blizzard:p:clicks:orders:x", None),
        ("blizzard:ZXZlbnRz", None),
        ("kdi-0", None),
    ],
)
def test_an_app_id_names_its_source(app_id: str, source: str | None) -> None:
    assert source_of_app_id(app_id) == source


def test_the_backlog_of_a_new_source_asks_the_brokers_for_their_topics_once() -> None:
    """Also if the table has messages of a source that is not configured, under the name of its topic."""
    brokers, store = FakeBrokers({0: (0, 5)}), store_of({"t": "before"})
    of_t = KafkaOptions.model_validate({"bootstrap_servers": "b:9092", "topics": ["t"]})
    store.put(commit_key(1), json.dumps({"txn": {"appId": f"{OLD}:t:0", "version": 4}}).encode())
    identity = SourceIdentity("p", "new", "_blizzard/p_new")
    found = topic_backlog(TopicState(version=1), store, identity, brokers, of_t, configured={"p:new"}, txn_lost=False)
    assert (found.is_new, found.lag, found.problem, brokers.described) == (True, 5, None, 1)


def test_who_says_that_it_has_taken_nothing_over_has_not() -> None:
    store, known = states(a=("t", 5, ""))
    found = [*known, Txn("kdi-0", 4, None)]
    assert taken_over(store, found, options("kdi"), "p:b") == {("u", 0): 5}
    with pytest.raises(RecoveryError, match="Write `take_over: kdi` into"):
        taken_over(store, found, options(), "p:b")


def test_nothing_is_taken_over_while_the_state_of_another_source_cannot_be_read() -> None:
    store, known = states(a=("t", 5, "kdi"), other=("t", 1, ""))
    store.put(commit_key(0), store.get(commit_key(0)).replace(b"schema_version", b"schema"))
    found = [*known, Txn("kdi-0", 4, None)]
    with pytest.raises(RecoveryError, match=r"the state of source p:a of the table cannot be read .*Run p:a first"):
        taken_over(store, found, options("kdi"), "p:b")


def test_two_sources_that_have_begun_at_once_behind_the_same_offsets_both_stop() -> None:
    store, known = states(a=("t", 5, "kdi"), b=("u", 5, "kdi"), c=("v", 5, ""))
    found = [*known, Txn("kdi-0", 4, None)]
    begun = TopicCheckpoint("p", "b", 3, 3, "cluster", {"u": TopicPosition("id", {0: 9}, {0: 5})}, taken_over="kdi")
    now_ts = [1_000.0]
    watch = TakeoverWatch("p:b", options("kdi"), store, lambda: now_ts[0])
    with pytest.raises(RecoveryError, match="sources p:b and p:a of the table have both taken over"):
        watch.check(begun, lambda: found)
    TakeoverWatch("p:b", options(), store, lambda: now_ts[0]).check(begun, lambda: found)


def test_a_job_looks_again_every_few_minutes_whether_it_is_written_on() -> None:
    store, known = states(b=("u", 5, "kdi"))
    begun = TopicCheckpoint("p", "b", 3, 3, "cluster", {"u": TopicPosition("id", {0: 9}, {0: 5})}, taken_over="kdi")
    now_ts, last = [1_000.0], [4]
    watch = TakeoverWatch("p:b", options("kdi"), store, lambda: now_ts[0])

    def ask() -> list[Txn]:
        return [*known, Txn("kdi-0", last[0], None)]

    watch.check(begun, ask)
    last[0] = 7
    now_ts[0] += LOOK_SECS - 1
    watch.check(begun, ask)
    now_ts[0] += 1
    with pytest.raises(
        RecoveryError, match=r"kdi-0 has offset 7 \(expected at most 4\), so that offsets 5 to 7 of u/0"
    ):
        watch.check(begun, ask)
