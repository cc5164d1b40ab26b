"""`python -m tests.proof`: what it runs, what it says, and how it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.version import Version
from tests.proof import __main__ as command
from tests.proof.campaigns import MODULES, known, load
from tests.proof.scripted_campaign import ScriptedCampaign

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.proof.campaigns.MODULES", {"scripted": "tests.proof.scripted_campaign"})
    monkeypatch.setattr(command, "MODULES", {"scripted": "tests.proof.scripted_campaign"})


def test_each_campaign_has_a_name_a_description_and_variants() -> None:
    for name in known():
        campaign = load(MODULES[name])
        assert campaign.name == name
        assert "\n" not in campaign.about
        assert len(campaign.variants) >= 2
        for fault in campaign.variants.values():
            assert fault.shows
            assert not any(map(fault.finds, ("", "a job ended with 70", "not read after 120 s")))


@pytest.mark.usefixtures("scripted")
def test_a_passed_campaign_has_counts_and_the_same_seed_repeats_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = ["--json", str(tmp_path / "all.json"), "--report", str(tmp_path / "report.md")]
    assert command.main(["--minutes", "0.001", "--seed", "5", *files]) == 0
    said = capsys.readouterr()
    assert "Nothing lost, nothing doubled" in said.out
    assert (tmp_path / "report.md").read_text() == said.out
    assert "scripted: passed" in said.err
    document = json.loads((tmp_path / "all.json").read_text())
    (one,) = document["campaigns"]
    assert (document["good"], one["end"], one["seed"]) == (True, "passed", 5)
    assert one["counts"]["rounds"] > 0
    assert one["untried"] == []
    assert "not tried" not in said.out


@pytest.mark.usefixtures("scripted")
def test_the_report_names_the_version_and_what_was_not_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ScriptedCampaign, "wanted", ("never", "rounds", "nor this"), raising=False)
    monkeypatch.setattr(command, "version", lambda: Version("f" * 40, changed=True))
    assert command.main(["--minutes", "0.001", "--json", str(tmp_path / "all.json")]) == 0
    said = capsys.readouterr().out
    assert " rounds. **not tried**: never; nor this |" in said
    assert "; Blizzard at ffffffffffff with changes; seed " in said
    assert said.endswith(". Not all was tried: the rows say what was not.\n")
    document = json.loads((tmp_path / "all.json").read_text())
    assert document["where"]["version"] == {"commit": "f" * 40, "changed": True}
    assert document["campaigns"][0]["untried"] == ["never", "nor this"]


@pytest.mark.usefixtures("scripted")
def test_the_report_of_a_variant_does_not_list_what_was_not_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedCampaign, "wanted", ("never",), raising=False)
    monkeypatch.setattr(command, "version", lambda: None)
    assert command.main(["--variant", "fails", "--minutes", "0.001", "--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "not tried" not in said
    assert "Blizzard at" not in said


@pytest.mark.usefixtures("scripted")
def test_a_variant_that_is_not_found_or_ends_with_another_error_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["scripted", "--variants", "--minutes", "0.001", "--seed", "5"]) == 1
    said = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in said.splitlines() if " | scripted | " in line]
    assert {variant: end for variant, _, end, *_ in rows} == {
        "fails": "found",
        "otherwise": "failed for another reason",
        "passes": "NOT FOUND",
        "breaks": "broke",
        "dies": "broke",
    }
    assert "ZeroDivisionError: no finding" in said
    assert "its last words" in said
    assert "python -m tests.proof scripted --minutes" in said
    assert "--seed 5 --variant passes`" in said


@pytest.mark.usefixtures("scripted")
def test_a_variant_can_be_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--variant", "fails", "--minutes", "0.001"]) == 0
    assert "| fails | scripted | found |" in capsys.readouterr().out
    assert command.main(["--variant", "otherwise", "--minutes", "0.001"]) == 1


@pytest.mark.usefixtures("scripted")
def test_a_campaign_gets_its_options(tmp_path: Path) -> None:
    words = ["--files", "7", "--spark-share", "0.25", "--json", str(tmp_path / "all.json")]
    assert command.main(["--minutes", "0.001", *words]) == 0
    (one,) = json.loads((tmp_path / "all.json").read_text())["campaigns"]
    assert (one["counts"]["files at most"], one["counts"]["percent on Spark"]) == (7, 25)
    assert "--files 7 --spark-share 0.25" in one["repeat"]


@pytest.mark.usefixtures("scripted")
def test_a_failure_prints_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_variants", lambda name, options: ["fails"])
    monkeypatch.setattr("tests.proof.outcome.Outcome.good", property(lambda self: False))
    assert command.main(["scripted", "--minutes", "0.001", "--seed", "7"]) == 1
    said = capsys.readouterr().out
    assert "a row is missing\n   1. somebody came\n   2. and took it\n" in said
    assert "--seed 7" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nonsense"], "no campaign nonsense: expected some of small-worlds"),
        (["--minutes", "0"], "expected a number above 0"),
        (["kill", "--variant", "nonsense"], "expected one of docs/proof.md that these campaigns find"),
        (["--minutes", "nan"], "expected a number above 0"),
        (["--spark-share", "1.5"], "expected a number from 0 to 1"),
        (["--report", "nowhere/at/all.md"], "expected a file in a folder that is there"),
    ],
    ids=str,
)
def test_wrong_input_is_refused_and_says_what_is_expected(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_ctrl_c_ends_the_command_with_a_report_so_far(number: signal.Signals, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    words = [sys.executable, "-m", "tests.proof", "small-worlds", "--minutes", "5", "--report", str(report)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "states" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "| small-worlds | interrupted |" in said
    assert report.read_text() == said
    assert "states" in said
