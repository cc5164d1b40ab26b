"""Links and configurations on the pages are valid."""

import re
from pathlib import Path

import pytest

from blizzard.config.load import read_config
from tests.unit.documents import DOCUMENTS, ROOT, Fence, anchors, everything, fences, links

CONFIGURATIONS = [f for f in fences("yaml", "yml") if "pipelines:" in f.body and f.kind != "broken"]


@pytest.mark.parametrize("fence", CONFIGURATIONS, ids=str)
def test_every_configuration_in_the_documents_is_valid(fence: Fence) -> None:
    reading = read_config(fence.body, {}, name=str(fence), folder="/data")
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
