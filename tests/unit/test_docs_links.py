"""Links and configurations on the pages are valid."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blizzard.config.load import read_config
from tests.unit.documents import DOCUMENTS, ROOT, Fence, anchors, everything, fences, links

CONFIGURATIONS = [f for f in fences("yaml", "yml") if "pipelines:" in f.body and f.kind != "broken"]
SAFE = YAML(typ="safe")
PARTS = [f for f in fences("yaml", "yml") if "pipelines:" not in f.body and f.kind != "broken" and f.body[0] != "#"]
"""What pages show of a configuration: `sources`, or some lines of a source."""
BROKERS = {"bootstrap_servers": "broker:9092", "topics": ["clicks"]}


@pytest.mark.parametrize("fence", CONFIGURATIONS, ids=str)
def test_every_configuration_in_the_documents_is_valid(fence: Fence) -> None:
    reading = read_config(fence.body, {}, name=str(fence), folder="/data")
    assert [str(problem) for problem in reading.problems] == []


def completed(fence: Fence) -> dict[str, Any]:
    """The pipeline of which the fence is a part, with what the page takes for granted."""
    part = SAFE.load(fence.body)
    if "sources" in part:
        return {"table_uri": "/table", **part}
    if "security" in part:
        part = {"kafka": part}
    if fence.document == "docs/kafka.md":
        part = {"format": "envelope", **part, "kafka": {**BROKERS, **part.get("kafka", {})}}
    else:
        part = {"uri": "/data", "schema": "id STRING, city STRING", **part}
    return {"table_uri": "/table", "sources": {"s": part}}


@pytest.mark.parametrize("fence", PARTS, ids=str)
def test_every_part_of_a_configuration_in_the_documents_is_valid(fence: Fence, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    text = json.dumps({"pipelines": {"p": completed(fence)}})
    reading = read_config(
        text, dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "x"), name=str(fence), folder=str(tmp_path)
    )
    assert [str(problem) for problem in reading.problems] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_has_a_target(document: Path) -> None:
    for link in links(document):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


def test_the_readme_links_to_every_document() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert set(DOCUMENTS) - {ROOT / "README.md"} <= linked


def test_no_document_has_a_todo() -> None:
    assert re.findall(r"\b(?:TODO|FIXME|XXX|TBD)\b", everything()) == []
