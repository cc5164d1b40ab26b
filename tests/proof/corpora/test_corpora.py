"""The comparison with other readers finds what it looks for."""

import io
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tests.proof.corpora import __main__ as corpora
from tests.proof.corpora.pinned import CORPORA, Corpus
from tests.proof.corpora.reading import Read
from tests.proof.corpora.references import REFERENCES


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


XML = b"""<all xmlns:x="u"><one k="1"><a>t</a><x:b> u </x:b><x:b/></one>
<one><c d="2">v<e>w</e></c></one></all>"""
XML_ROWS = [
    {"_k": "1", "a": "t", "x:b": ["u", ""], "c": None},
    {"_k": None, "a": None, "x:b": None, "c": {"_d": "2", "e": "w", "_VALUE": "v"}},
]
JSON = b"""[{"a": "x", "n": 1, "f": 0.5, "t": [{"b": true}, {"c": [null]}], "odd": 1}, {"a": null, "odd": "1"}, 7,
{"a": "\\ud800"}]"""
JSON_ROWS = [
    {"a": "x", "n": 1, "f": 0.5, "t": [{"b": True}, {"b": None}]},
    {"a": None, "n": None, "f": None, "t": None},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "good.parquet": parquet(a=[1, None], b=[{"c": float("nan")}, None]),
        "broken.parquet": b"PAR1",
        "good.json": b'[{"a": "x"}, 1]',
        "broken.json": b"[1,]",
        "utf16.json": "[]".encode("utf-16"),
        "good.csv": b'a,b\n1,"x\ny"\n',
        "good.xml": XML,
        "broken.xml": b"<all><one>",
        "entity.xml": b'<!DOCTYPE all [<!ENTITY e "x">]><all><one>&e;</one></all>',
    }
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    return tmp_path


def table(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[2:]


def test_files_are_equal_or_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpora.main([f"{name}={folder}" for name in ("parquet", "json", "csv", "xml")]) == 0
    assert table(capsys) == [
        "| parquet | 2 | 1 | 2 | 1 | 0 | 0 |",
        "| json | 3 | 1 | 1 | 1 | 1 | 0 |",
        "| csv | 1 | 1 | 1 | 0 | 0 | 0 |",
        "| xml | 3 | 1 | 2 | 1 | 1 | 0 |",
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


def test_what_the_other_readers_find_in_json_and_xml() -> None:
    json, xml = REFERENCES["json"](JSON), REFERENCES["xml"](XML)
    assert (json.count, json.refused, json.rows) == (4, 2, JSON_ROWS)
    assert (xml.count, xml.rows, xml.options) == (2, XML_ROWS, {"row_tag": "one"})


@pytest.mark.parametrize(
    ("name", "body", "found", "says"),
    [
        ("json", JSON, Read(JSON_ROWS, ["why", "why"]), ""),
        ("json", JSON, Read([*reversed(JSON_ROWS)], ["why", "why"]), "other values than the reference"),
        ("json", JSON, Read([*JSON_ROWS, JSON_ROWS[1]], ["why"]), "1 records are refused, expected 2"),
        ("xml", XML, Read(XML_ROWS), ""),
        ("xml", XML, Read([XML_ROWS[0], {**XML_ROWS[1], "c": None}]), "other values than the reference"),
    ],
)
def test_the_values_of_json_and_xml_are_compared(
    monkeypatch: pytest.MonkeyPatch, name: str, body: bytes, found: Read, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpora, "read", lambda *_: found)
    verdict, _ = corpora.judge(name, body, "file")
    assert verdict == (corpora.WRONG if says else corpora.EQUAL)
    assert says in capsys.readouterr().err


def git(clone: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", "-C", str(clone), *who, *words], capture_output=True, text=True, check=True).stdout


def test_the_files_of_a_corpus_are_those_of_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "data").mkdir()
    (tmp_path / "other.csv").write_text("a\n1\n2\n3\n")
    (tmp_path / "data" / "good.csv").write_text("a\n1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    (tmp_path / "data" / "good.csv").write_text("a\n1\n2\n")
    git(tmp_path, "commit", "--quiet", "-a", "-m", "second")
    monkeypatch.setitem(CORPORA, "mine", Corpus("csv", "https://example.org/mine", commit, "data/"))
    assert corpora.main([f"mine={tmp_path}"]) == 0
    assert table(capsys) == ["| mine | 1 | 1 | 1 | 0 | 0 | 0 |"]
    monkeypatch.setitem(CORPORA, "mine", Corpus("csv", "https://example.org/mine", "0" * 40, "data/"))
    assert corpora.main([f"mine={tmp_path}"]) == 2
    assert "expected a clone of https://example.org/mine" in capsys.readouterr().err


def test_the_documented_corpora_have_their_commits() -> None:
    page = (Path(__file__).parents[3] / "docs" / "proof.md").read_text()
    for name, corpus in CORPORA.items():
        assert len(corpus.commit) == 40
        assert f"| {name}: [{corpus.commit[:12]}]({corpus.repository}/tree/{corpus.commit}/{corpus.folder}) |" in page
