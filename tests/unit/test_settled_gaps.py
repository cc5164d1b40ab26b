"""Letters of topics that no replay settles."""

from blizzard.state.settled_letters import Mark, Scope, Settled, Settlement


def settled(scope: Scope, *rows: int) -> Settled:
    mark = Mark("clicks/0", scope, 2e9, "id", rows)
    return Settled({"clicks/0": [(mark, Settlement(1.9e9, 1, 1, (mark,)))]})


def letter(**more: object) -> dict[str, object]:
    return {"path": "clicks/0", "etag": "id", "row": 5, "timestamp": "2026-11-26T10:00:00+00:00", **more}


def test_a_letter_about_messages_that_were_gone_stays_open() -> None:
    for found in (settled(Scope.ALL), settled(Scope.RECORDS, 5)):
        assert found.of(letter()) is not None
        assert found.of(letter(lost_from=5, lost_to=7)) is None
