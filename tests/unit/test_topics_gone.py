"""Topics that a pattern has read and no longer finds."""

from tests.unit.test_topic_plans import FakeBrokers, begun, source_of


def gone(said: list[tuple[str, dict[str, object]]]) -> list[object]:
    """What was unread of topics that are gone, each time that they were said."""
    assert {str(fields["topics"]) for event, fields in said if event == "topics_gone"} <= {"['t']"}
    return [fields["unread"] for event, fields in said if event == "topics_gone"]


def test_a_topic_of_a_pattern_that_is_gone_is_said_once_and_again_after_each_change() -> None:
    brokers, said = FakeBrokers({0: (0, 5), 1: (0, 2)}), list[tuple[str, dict[str, object]]]()

    def log(event: str, /, **fields: object) -> None:
        said.append((event, fields))

    source, checkpoint = source_of(brokers, pattern=".*", log=log), begun(brokers)
    for is_there in (True, False, False, True, False, False):
        brokers.is_there = is_there
        source.plan(checkpoint)
    assert gone(said) == [{"t": 7}] * 2
    source_of(brokers, pattern=".*", log=log).plan(checkpoint)  # which has not seen its ends
    assert gone(said)[2:] == [{"t": None}]
    source_of(brokers, pattern="u.*", log=log).plan(checkpoint)
    assert gone(said)[3:] == [{"t": 7}]
    source_of(brokers, log=log).plan(checkpoint)
    assert len(gone(said)) == 4
