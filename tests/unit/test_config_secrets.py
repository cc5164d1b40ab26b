"""What is written for a secret is in no error, however wrong it is."""

import json
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel, Field, SecretStr, ValidationError

from blizzard.cli import main
from blizzard.config import field_types
from blizzard.config.explain import explain
from blizzard.config.model import Config
from blizzard.config.problems import Path as Place
from blizzard.config.problems import dotted
from blizzard.config.section import Section
from spark_job import main as job
from tests.unit.config_files import problems

SHOWN = ("hunter", "4711")
"""Parts of all secrets of these tests."""
KEY = "-----BEGIN PRIVATE KEY-----\nhunter\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


def secrets(kind: typing.Any, path: Place = (), inside: Sequence[type] = ()) -> Iterator[Place]:
    """Where a configuration has them, whatever they are called: `x` is any name, 0 any item."""
    parts = typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in inside:
        for name, field in kind.model_fields.items():
            place = (*path, field.alias or name)
            if "Secret" in repr(field.annotation):
                yield place
            yield from secrets(field.annotation, place, (*inside, kind))
    elif typing.get_origin(kind) is dict:
        yield from secrets(parts[1], (*path, "x"), inside)
    elif typing.get_origin(kind) is list:
        yield from secrets(parts[0], (*path, 0), inside)
    else:
        for part in parts:
            yield from secrets(part, path, inside)


SECRETS = [*secrets(Config)]


def document(path: Place, written: str) -> str:
    """Nothing but this value."""
    for part in reversed(path):
        written = f"[{written}]" if isinstance(part, int) else f"{{{json.dumps(part)}: {written} }}"
    return written


def is_kept(found: Sequence[str]) -> bool:
    return not any(part in problem for part in SHOWN for problem in found)


def test_the_secrets_are_found() -> None:
    found = {dotted(path[4:]) for path in SECRETS}
    assert {"kafka.security.password", "kafka.security.key_password", "avro.registry.password"} <= found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("4711", "found a number, expected text (put it in quotes); change it"),
        ("-4711.5", "found a number, expected text"),
        ("0x4711", "found a number, expected text"),
        ("true", "found a truth value, expected text"),
        ("[hunter]", "found a list, expected text"),
        ("{hunter: hunter}", "found a mapping, expected text"),
        ("{hunter}", "found a mapping, expected text"),
        ("!hunter", "begins with `!`, which makes a tag of it in YAML"),
        ("!hunter 4711", "begins with `!`, which makes a tag of it in YAML"),
        ("'${hunter'", "`${` is not closed; write"),
        ("'hunter${4711}'", "found something else between `${` and `}`; expected ${NAME}"),
    ],
)
@pytest.mark.parametrize("path", SECRETS, ids=dotted)
def test_a_secret_that_is_wrong_is_reported_and_not_shown(path: Place, written: str, expected: str) -> None:
    found = problems(document(path, written))
    assert any(f"{dotted(path)}: {expected}" in problem for problem in found)
    assert is_kept(found)


@pytest.mark.parametrize("path", SECRETS, ids=dotted)
@pytest.mark.parametrize("written", ["https://u:hunter@r", "4711", "[hunter]"])
def test_what_stands_in_place_of_a_section_with_a_secret_is_not_shown(path: Place, written: str) -> None:
    found = problems(document(path[:-1], written))
    assert any(f"{dotted(path[:-1])}: found " in problem for problem in found)
    assert is_kept(found)


@pytest.mark.parametrize("written", ["*hunter", "!hunter!4711", "@hunter", "%hunter", "`hunter", '"hunter\\q"'])
def test_a_secret_that_yaml_does_not_read_without_quotes_is_not_shown(written: str) -> None:
    (found,) = problems(document(SECRETS[0], written))
    assert "f.yaml:1: this is not YAML: " in found
    assert is_kept([found])


class Block(Section):
    tokens: list[SecretStr] = Field(default=[])
    by_name: dict[str, SecretStr | None] = Field(default={})
    plain: str = ""


class Whole(Section):
    blocks: dict[str, Block]


@pytest.mark.parametrize(
    "block",
    [{"tokens": ["a", 4711]}, {"tokens": "hunter"}, {"by_name": {"b": 4711}}, {"by_name": "hunter"}, "hunter"],
)
def test_secrets_in_lists_and_mappings_are_not_shown(block: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_types, "Config", Whole)
    with pytest.raises(ValidationError) as wrong:
        Whole.model_validate({"blocks": {"a": block, "b": {"plain": 5}}})
    own, plain = (explain(fault) for fault in wrong.value.errors())
    assert own.startswith("found ")
    assert is_kept([own])
    assert plain.startswith("found 5, expected text")


def test_neither_a_command_nor_the_job_prints_a_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(document(SECRETS[0], "4711"))
    assert main(["validate", str(file)]) == 2
    assert job.main(["--config", str(file), "--once"]) == 2
    said = capsys.readouterr()
    assert "found a number" in said.out + said.err
    assert '"event": "configuration_wrong"' in said.out + said.err
    assert is_kept([said.out, said.err])


# --- Private keys -----------------------------------------------------------------------------------------------------


def security(**fields: str) -> str:
    """Of a source that has nothing wrong but, perhaps, these fields."""
    kafka = {"bootstrap_servers": "b:9092", "topics": ["t"], "security": {"protocol": "SSL", **fields}}
    source = {"kafka": kafka, "format": "envelope"}
    return json.dumps({"pipelines": {"p": {"table_uri": "s3://lake/t", "sources": {"s": source}}}})


def registry(**fields: str) -> str:
    avro = {"registry": {"url": "https://r", **fields}}
    source = {"kafka": {"bootstrap_servers": "b:9092", "topics": ["t"]}, "format": "avro", "schema": "a STRING"}
    return json.dumps({"pipelines": {"p": {"table_uri": "s3://lake/t", "sources": {"s": {**source, "avro": avro}}}}})


@pytest.mark.parametrize("section", [security, registry])
@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "ENCRYPTED "])
@pytest.mark.parametrize("order", [[CERTIFICATE, KEY], [KEY, CERTIFICATE], [KEY]])
def test_a_private_key_beside_certificates_is_refused_and_not_shown(
    tmp_path: Path, section: typing.Callable[..., str], kind: str, order: list[str]
) -> None:
    """Tasks would get it, and so would everyone who can read the published configuration."""
    text = "".join(order).replace("PRIVATE", f"{kind}PRIVATE")
    (tmp_path / "ca.pem").write_text(text)
    for fields in ({"ca_location": "ca.pem"}, {"ca_pem": text}):
        (found,) = problems(section(**fields), str(tmp_path))
        assert "ca_pem: found a private key, which tasks and the published configuration would get; expected " in found
        assert is_kept([found])
        assert "-----" not in found


@pytest.mark.parametrize("text", ["hunter", "hunter\nhunter", "-----BEGIN hunter-----"])
def test_a_text_that_is_no_certificate_is_not_shown(tmp_path: Path, text: str) -> None:
    """It may be a key of another encoding."""
    (tmp_path / "ca.pem").write_text(text)
    for fields in ({"ca_location": "ca.pem"}, {"ca_pem": text}):
        (found,) = problems(security(**fields), str(tmp_path))
        assert "ca_pem: found no certificate; expected certificates in PEM" in found
        assert is_kept([found])


@pytest.mark.parametrize("field", ["ca_location", "certificate_location", "key_location"])
def test_a_key_in_place_of_the_path_of_a_file_is_refused_and_not_shown(field: str) -> None:
    other = {"certificate_location": "key_location", "key_location": "certificate_location"}.get(field)
    found = problems(security(**{field: KEY, **({other: "/pem"} if other else {})}))
    assert any(f"{field}: found the text of a file; expected its path" in problem for problem in found)
    assert is_kept(found)
