"""The comparison with other readers finds what it looks for."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tests.proof.corpora import __main__ as corpora
from tests.proof.corpora.reading import Read


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "good.parquet": parquet(a=[1, None], b=[{"c": float("nan")}, None]),
        "broken.parquet": b"PAR1",
        "good.json": b'[{"a": "x"}, 1]',
        "broken.json": b"[1,]",
        "utf16.json": "[]".encode("utf-16"),
        "good.csv": b'a,b\n1,"x\ny"\n',
    }
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    return tmp_path


def table(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[2:]


def test_files_are_equal_or_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpora.main([f"{name}={folder}" for name in ("parquet", "json", "csv")]) == 0
    assert table(capsys) == [
        "| parquet | 2 | 1 | 2 | 1 | 0 | 0 |",
        "| json | 3 | 1 | 1 | 1 | 1 | 0 |",
        "| csv | 1 | 1 | 1 | 0 | 0 | 0 |",
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Read([{"a": 1, "b": {"c": 1.0}}, {"a": None, "b": None}]), "other values than the reference"),
        (Read([{"a": 1, "b": None}]), "1 records, expected 2"),
        (KeyError("a"), "an exception that is no FileFault"),
    ],
)
def test_what_is_wrong_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: Any, says: str
) -> None:
    def read(*_: Any) -> Read:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong  # type: ignore[no-any-return]

    monkeypatch.setattr(corpora, "read", read)
    assert corpora.main([f"parquet={folder}"]) == 1
    assert f"WRONG: good.parquet: {says}" in capsys.readouterr().err


def test_a_word_that_is_no_corpus_is_an_error(tmp_path: Path) -> None:
    assert corpora.main([f"xls={tmp_path}"]) == 2
    assert corpora.main([f"csv={tmp_path / 'missing'}"]) == 2
