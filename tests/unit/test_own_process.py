"""Calls in processes of their own: what they return and raise."""

import pytest
from deltalake.exceptions import DeltaProtocolError

from blizzard.errors import NotFound, PermanentError, RetryableError
from blizzard.table.own_process import in_own_process


def answer(number: int, *, error: str = "") -> int:
    match error:
        case "not found":
            raise NotFound("a")
        case "of deltalake":
            raise DeltaProtocolError("reader features")
        case "two parts":
            raise TwoParts("a", "b")
        case "end":
            raise SystemExit
    return number + 1


class TwoParts(Exception):
    """Made anew from its text alone, it is another error."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def test_an_answer() -> None:
    assert in_own_process(answer, 1) == 2


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        ("not found", NotFound, "^a$"),
        ("of deltalake", PermanentError, "^DeltaProtocolError: reader features$"),
        ("two parts", PermanentError, "^TwoParts: a and b$"),
        ("end", RetryableError, "ended with exit code 0"),
    ],
)
def test_an_error(error: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as raised:
        in_own_process(answer, 1, error=error)
    assert raised.type is kind
