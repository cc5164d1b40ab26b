"""`benchmarks.questions`: the world that it measures, where the answers are those of a look at every file."""

from pathlib import Path

import pytest

from benchmarks.questions import NEW, QUESTIONS, asked, make_world

FILES = 12_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("questions")
    make_world(made, FILES)
    return made


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("listed", ["gone", "there"])
def test_a_question_has_the_answers_of_a_look_at_every_file(folder: Path, question: str, listed: str) -> None:
    answers = asked(str(folder), question, listed, every=False)["answers"]
    assert answers == asked(str(folder), question, listed, every=True)["answers"]
    assert answers == NEW or (question, listed) != ("state pending", "there")
    assert 0 < answers < FILES / 2 or (question, listed) in (("state pending", "gone"), ("a pattern", "gone"))
