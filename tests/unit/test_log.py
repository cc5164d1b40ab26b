"""The log: one JSON object a line for any values."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.log import JsonLog, silent, stdout_log
from blizzard.state.batch import EntryClass

NOW = 1_706_450_400.25


def logged(event: str, /, **fields: object) -> str:
    stream = io.StringIO()
    JsonLog(stream, lambda: NOW)(event, **fields)
    return stream.getvalue()


def test_a_line_has_the_time_the_event_and_its_fields() -> None:
    line = logged("batch_committed", source="events:landing", files=3, rows=None)
    assert line == (
        '{"ts": "2024-01-28T14:00:00.250+00:00", "event": "batch_committed", '
        '"source": "events:landing", "files": 3, "rows": null}\n'
    )


@given(st.text(), st.dictionaries(st.sampled_from(["path", "error", "source"]), st.text()))
def test_no_value_can_forge_a_line(event: str, fields: dict[str, str]) -> None:
    text = logged(event, **fields)
    assert len(text.splitlines()) == 1
    assert text.isascii()
    assert json.loads(text) == {"ts": "2024-01-28T14:00:00.250+00:00", "event": event, **fields}


@pytest.mark.parametrize(
    "value", ['a\n{"event": "batch_committed"}', "a\r\nb", "a\u2028b\x85c\x0b", "\x1b[2J", "\ud800", "\0"], ids=ascii
)
def test_other_line_separators_are_escaped(value: str) -> None:
    text = logged("x", path=value)
    assert text.isprintable() or text[:-1].isprintable()
    assert json.loads(text)["path"] == value


def test_an_object_whose_text_holds_a_newline_is_escaped_too() -> None:
    class Hostile:
        def __str__(self) -> str:
            return 'x\n{"event": "forged"}'

    text = logged("x", error=Hostile(), cause=ValueError("a\nb"))
    assert text.count("\n") == 1
    assert json.loads(text)["cause"] == "a\nb"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (PurePosixPath("a/b"), "a/b"),
        (EntryClass.SUSPECT, "suspect"),
        (b"\xff", "b'\\xff'"),
        (("a", 1), ["a", 1]),
        (2.5, 2.5),
    ],
)
def test_values_without_a_json_form_are_written_as_text(value: Any, written: Any) -> None:
    assert json.loads(logged("x", value=value))["value"] == written


def test_a_field_cannot_replace_the_time_or_the_event() -> None:
    line = json.loads(logged("real", event="forged", ts="never"))
    assert (line["event"], line["ts"]) == ("real", "2024-01-28T14:00:00.250+00:00")


def test_lines_of_parallel_threads_do_not_mix() -> None:
    class Slow(io.StringIO):
        """Writes slowly, so that lines of other threads could come in between."""

        inside = 0
        met = Event()

        def write(self, text: str) -> int:
            self.inside += 1
            if self.inside > 1:
                self.met.set()
            self.met.wait(0.05)
            self.inside -= 1
            return super().write(text)

    stream = Slow()
    log = JsonLog(stream, lambda: NOW)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: log("x", n=n), range(4)))
    assert not stream.met.is_set()
    assert sorted(json.loads(line)["n"] for line in stream.getvalue().splitlines()) == [0, 1, 2, 3]


def test_each_line_is_flushed_so_that_a_kill_loses_none(tmp_path: Any) -> None:
    file = tmp_path / "log"
    with file.open("w") as stream:
        JsonLog(stream, lambda: NOW)("x")
        assert json.loads(file.read_text())["event"] == "x"


def test_the_default_log_writes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    stdout_log(lambda: NOW)("x")
    assert json.loads(capsys.readouterr().out)["event"] == "x"


def test_the_silent_log_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silent("x", path="y")
    assert capsys.readouterr() == ("", "")
