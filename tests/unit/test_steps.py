"""What a terminal shows of how far a command is."""

import io
import sys

import pytest

from blizzard.cli.steps import steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, *calls: tuple[str, int, int]) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    made = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", made)
        with steps(visible=True) as show:
            for call in calls:
                show(*call)
    return made.getvalue()


def test_a_step_that_does_not_count_shows_no_numbers_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, ("comparing", 17, 17), ("reading 5 files again", 0, 0))
    last = said.rpartition("reading 5 files again")[2]
    assert "comparing" in said
    assert ("17" in last, "0/" in last, "0:00" in last) == (False, False, True)


def test_a_step_of_which_the_end_is_unknown_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "4000/?" in shown(monkeypatch, ("comparing", 17, 17), ("listing objects", 4_000, 0))


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with steps(visible=True) as show:
        show("comparing", 1, 2)
    assert capsys.readouterr().err == ""
