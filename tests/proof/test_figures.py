"""The figures of the proof in docs/proof.md are those of the kept reports."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.proof import figures
from tests.proof.campaign import FILES, SPARK_SHARE, untried
from tests.proof.campaigns import MODULES, known, load
from tests.proof.figures import (
    BEGIN,
    DOCUMENT,
    END,
    FIGURES,
    FOUND_WITH_EACH,
    KEPT,
    LEAST,
    LEAST_OF_ONE,
    MOST_KILLS,
    SOAK_SECS,
    as_markdown,
    is_named,
    keep,
    lacking,
    main,
    outdated,
    replaced,
)
from tests.proof.job_engines import JOBS_OF, found_with
from tests.proof.table import WORLDS_HEADER, variants, worlds_as_markdown

VERSION = {"commit": "0123456789abcdef", "changed": False}
WHERE = {"minutes": 60.0, "seed": 7, "version": VERSION}


def _report(
    campaign: str = "kill", *, variant: str = "", end: str = "passed", secs: float = 1800.0, **counts: int
) -> dict[str, Any]:
    outcome = {"campaign": campaign, "variant": variant, "end": end, "secs": secs, "counts": counts}
    return {"where": WHERE, "good": end in ("passed", "interrupted"), "campaigns": [outcome]}


def test_the_page_has_the_figures_of_the_stored_reports() -> None:
    reports = json.loads(KEPT.read_text())
    assert replaced(DOCUMENT.read_text(), reports) == DOCUMENT.read_text(), (
        "`python -m tests.proof.figures` writes it anew"
    )
    assert all(report["good"] for report in reports)


def test_gaps_in_the_stored_reports_are_listed_with_the_figures() -> None:
    _, _, figures_on = DOCUMENT.read_text().partition(BEGIN)
    said = [line.removeprefix("- ") for line in figures_on.partition(END)[0].splitlines() if line.startswith("- ")]
    assert said == lacking(json.loads(KEPT.read_text()))


def test_complete_reports_list_no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "lacking", lambda reports: [])
    assert figures.lacking_as_markdown([]) == ""
    monkeypatch.setattr(figures, "lacking", lambda reports: ["soak: too short"])
    assert "not shown by these runs:\n\n- soak: too short\n" in figures.lacking_as_markdown([])


def test_each_figure_comes_from_a_known_campaign_and_count() -> None:
    seen: dict[str, set[str]] = {}
    for report in json.loads(KEPT.read_text()):
        for outcome in (each for each in report["campaigns"] if not each["variant"]):
            seen.setdefault(outcome["campaign"], set()).update(outcome["counts"])
    for figure, counted in FIGURES.items():
        assert counted.keys() <= MODULES.keys()
        for campaign, names in counted.items():
            for name in names:
                found = [each for each in seen.get(campaign, ()) if is_named(each, name)]
                assert found, f"{figure}: {campaign} counts no {name!r}"


def test_figures_are_sums_over_reports_and_name_their_commands() -> None:
    text = as_markdown(
        [_report("kill", kills=1000, **{"rows compared": 5}), _report("soak", kills=234, **{"rows compared": 6})]
    )
    assert "| processes killed | 1,234 |" in text
    assert "| records compared, after each round all that there are | 11 |" in text
    assert "| hours | 1.0 |" in text
    assert "$ make prove PROVE='kill --minutes 60 --seed 7'\n$ make prove PROVE='soak --minutes 60 --seed 7'" in text
    assert "on purpose" not in text


def test_counts_with_the_same_prefix_are_one_figure() -> None:
    text = as_markdown(
        [_report("bad-input", **{"hostile keys": 3, "hostile files": 4, "files by chance": 5, "rows": 9})]
    )
    assert "| hostile inputs | 12 |" in text


def _broken(campaign: str, *names: str) -> dict[str, Any]:
    """A report of these variants, each of which was found."""
    with_each = dict.fromkeys(map(found_with, JOBS_OF), 1)
    outcomes = [_report(campaign, variant=name, end="failed", kills=50, **with_each)["campaigns"][0] for name in names]
    return {"where": WHERE, "good": True, "campaigns": outcomes}


def test_variants_are_counted_separately_and_add_nothing_to_the_figures() -> None:
    text = as_markdown([_report("kill", kills=3), _broken("kill", "x", "y")])
    assert "| processes killed | 3 |" in text
    assert "| pairs of a campaign and a program broken on purpose, each found | 2 |" in text
    assert "PROVE='kill --variants --minutes 60 --seed 7'" in text


def test_a_pair_counts_once_and_a_report_of_one_variant_names_it() -> None:
    text = as_markdown([_broken("kill", "x", "y"), _broken("kill", "x"), _broken("race", "x")])
    assert "| pairs of a campaign and a program broken on purpose, each found | 3 |" in text
    assert "PROVE='kill --variant x --minutes 60 --seed 7'" in text
    words = shlex.split(as_markdown([_broken("kill", "the Txn's")]).split("PROVE=")[1].splitlines()[0])
    assert shlex.split(words[0]) == ["kill", "--variant", "the Txn's", "--minutes", "60", "--seed", "7"]


def _passed() -> list[dict[str, Any]]:
    """A report of each campaign, with as much as docs/proof.md says."""
    return [_report(name, secs=SOAK_SECS, **(_wanted(name) | _least(name))) for name in known()]


def _least(name: str) -> dict[str, int]:
    return {**LEAST.get(name, {}), **LEAST_OF_ONE.get(name, {})}


def _wanted(name: str) -> dict[str, int]:
    """What a campaign knows that it has to have done."""
    return dict.fromkeys(untried(load(MODULES[name]), {}), 1)


def _found() -> list[dict[str, Any]]:
    """A report of each pair."""
    return [_broken(campaign, variant) for variant, campaigns in variants().items() for campaign in campaigns]


def test_reports_of_everything_have_no_gaps() -> None:
    assert lacking([*_passed(), *_found()]) == []


@pytest.mark.parametrize("number", range(len(known())), ids=known())
def test_a_campaign_without_a_report_is_a_gap(number: int) -> None:
    some = _passed()
    del some[number]
    assert lacking([*some, *_found()])[0] == f"{known()[number]}: no report in which it passed"


BY_ENGINE = ("kafka", "log-life", "takeover", "bad-input")
"""Campaigns of which both engines must be seen."""


def test_a_command_has_the_options_that_were_not_the_usual_ones() -> None:
    short = _report("formats")
    short["campaigns"][0] |= {"files": 3_000, "spark_share": 1.0}
    usual = _report("kill")
    usual["campaigns"][0] |= {"files": FILES, "spark_share": SPARK_SHARE}
    text = as_markdown([short, usual])
    assert "PROVE='formats --files 3000 --spark-share 1 --minutes 60 --seed 7'" in text
    assert "PROVE='kill --minutes 60 --seed 7'" in text


def test_a_short_soak_few_kills_and_short_outages_are_gaps() -> None:
    little = [_report(name, secs=SOAK_SECS - 1, **{MOST_KILLS: 199}, **_wanted(name)) for name in known()]
    assert lacking([*little, *little, *_found()]) == [
        "audit: expected at least 1,000 healthy worlds, found 2",
        "race: expected at least 6 rounds, found 0",
        "bad-storage: expected at least 120 seconds of outage, found 0",
        *(f"formats: expected at least 100,000 {what}, found 0" for what in LEAST["formats"]),
        *(f"{name}: expected at least 1 {what}, found 0" for name in BY_ENGINE for what in LEAST[name]),
        "kill: most kills over one table: expected at least 200 in one report, found 199",
        "kill-calls: most kills over one table: expected at least 200 in one report, found 199",
        "engines: files that both engines have read: expected at least 100,000 in one report, found 0",
        "soak: expected a run of at least 3,600 s with jobs of both engines, found 3,599 s",
    ]


def test_an_hour_of_soak_with_one_engine_is_a_gap() -> None:
    one = dict.fromkeys([*_wanted("soak")], 1)
    del one[JOBS_OF["auto"]]
    others = [each for each in _passed() if each["campaigns"][0]["campaign"] != "soak"]
    short, hour = _report("soak", secs=10.0, **_wanted("soak")), _report("soak", secs=SOAK_SECS, **one)
    assert lacking([*others, short, hour, *_found()]) == [
        "soak: expected a run of at least 3,600 s with jobs of both engines, found 10 s"
    ]


@pytest.mark.parametrize("campaign", ["kill", "race", "bad-storage"])
def test_a_pair_found_with_one_engine_alone_is_a_gap(campaign: str) -> None:
    variant = sorted(FOUND_WITH_EACH[campaign])[0]
    reports = [*_passed(), *_found()]
    for outcome in (one for report in reports for one in report["campaigns"]):
        if (outcome["campaign"], outcome["variant"]) == (campaign, variant):
            del outcome["counts"][found_with("spark")]
    assert lacking(reports) == [f"{campaign}: no report in which it found {variant!r} with Spark"]


def test_requirements_of_all_reports_together_may_be_met_by_several() -> None:
    half = [_report(name, **{what: -(-fewest // 2) for what, fewest in least.items()}) for name, least in LEAST.items()]
    others = [one for one in _passed() if one["campaigns"][0]["campaign"] not in LEAST]
    wanted = [_report(name, **_wanted(name)) for name in LEAST]
    assert lacking([*others, *wanted, *half, *half, *_found()]) == []


def test_items_that_no_report_tried_are_gaps() -> None:
    half = {name: [*_wanted(name)][::2] for name in known()}
    other = {name: [*_wanted(name)][1::2] for name in known()}
    reports = [_report(name, secs=SOAK_SECS, **(dict.fromkeys(half[name], 1) | _least(name))) for name in known()]
    assert half["log-life"]
    assert half["takeover"]
    assert [what for what in lacking([*reports, *_found()]) if "not tried" in what] == [
        f"{name}: not tried: {what}" for name in sorted(known()) for what in other[name]
    ]
    more = [_report(name, secs=SOAK_SECS, **dict.fromkeys((*other[name], *JOBS_OF.values()), 1)) for name in known()]
    assert lacking([*reports, *more, *_found()]) == []


def test_reports_of_an_unknown_version_are_a_gap() -> None:
    old = _report("kill") | {"where": {"minutes": 60.0, "seed": 7}}
    assert lacking([*_passed(), *_found(), old])[0].startswith("1 of ")
    assert "version" not in as_markdown([old])


def test_the_versions_of_the_reports_are_named_once() -> None:
    other = {**WHERE, "version": {"commit": "f" * 40, "changed": False}}
    text = as_markdown([_report("kill"), _report("race"), _report("soak") | {"where": other}])
    assert "| version | `0123456789ab`, `ffffffffffff` |" in text


def test_the_most_kills_over_one_table_are_a_maximum_and_not_a_sum() -> None:
    text = as_markdown([_report("kill", kills=9, **{MOST_KILLS: many}) for many in (3, 6, 4)])
    assert "| processes killed | 27 |\n| most of them over one table | 6 |\n" in text
    spark = "| of them on Delta tables | 27 |\n| most of these over one table | 6 |\n| races | 0 |\n"
    assert spark in text
    assert "over one table" not in as_markdown([_report("kill", kills=9)])


def test_kills_without_a_real_table_do_not_count_as_those_on_tables() -> None:
    text = as_markdown([_report("kill", kills=3), _report("kill-calls", kills=40, **{MOST_KILLS: 8})])
    assert (
        "| processes killed | 43 |\n| most of them over one table | 8 |\n| of them on Delta tables | 3 |\n| races"
        in text
    )


def test_a_failed_run_does_not_count_in_any_figure() -> None:
    report = _report("kill", kills=3)
    report["campaigns"][0]["end"] = "failed"
    with pytest.raises(ValueError, match="found others of kill"):
        as_markdown([report])


def test_hours_count_only_runs_of_the_unmodified_program() -> None:
    assert "| hours | 0.5 |" in as_markdown([_report("kill", secs=1800.0), _broken("kill", "x")])


@pytest.mark.parametrize(
    ("version", "found"),
    [(None, "found none"), ({"commit": "0" * 40, "changed": True}, "found 000000000000 with changes")],
    ids=["no", "changed"],
)
def test_a_report_of_a_version_unknown_to_git_is_refused(
    version: dict[str, Any] | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept.json")
    with pytest.raises(ValueError, match=found):
        keep([("r.json", _report() | {"where": {**WHERE, "version": version}})])
    assert not (tmp_path / "kept.json").exists()


def test_counts_of_a_variant_are_not_shown_for_the_program() -> None:
    broken = _report("race", variant=next(iter(variants())), end="failed", rounds=500)
    assert "race: expected at least 6 rounds, found 1" in lacking([_report("race", rounds=1), broken])


def test_a_pair_that_was_not_found_or_was_removed_is_a_gap() -> None:
    first = next(iter(variants()))
    some = [each for each in _found() if each["campaigns"][0]["variant"] != first]
    assert lacking([*_passed(), *some, _broken("kill", "gone")]) == [
        *(f"{campaign}: no report in which it found {first!r}" for campaign in sorted(variants()[first])),
        "kill: knows no 'gone' any more",
    ]


def test_no_name_means_all_campaigns() -> None:
    report = {"where": WHERE, "good": True, "campaigns": [_report(name)["campaigns"][0] for name in known()]}
    assert "PROVE='--minutes 60 --seed 7'" in as_markdown([report])


@pytest.mark.parametrize("end", ["failed", "broke", "interrupted"])
def test_a_report_with_a_failure_is_refused(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept.json")
    (tmp_path / "r.json").write_text(json.dumps(_report(end=end)))
    assert main([str(tmp_path / "r.json")]) == 2
    assert "expected a report in which all went well" in capsys.readouterr().err
    assert not (tmp_path / "kept.json").exists()


def test_new_reports_replace_the_stored_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, document = tmp_path / "kept.json", tmp_path / "proof.md"
    for name, file in {"KEPT": kept, "DOCUMENT": document}.items():
        monkeypatch.setattr(figures, name, file)
    document.write_text(f"before\n{BEGIN}old\n{END}between\n{WORLDS_HEADER}| old | 0 | 0 | 1 |\n\nafter\n")
    keep([("old", _report(kills=1))])
    (tmp_path / "r.json").write_text(json.dumps(_report(kills=2)))
    assert main([str(tmp_path / "r.json")]) == 1
    assert "not shown: race: expected at least 6 rounds, found 0\n" in capsys.readouterr().err
    assert json.loads(kept.read_text()) == [_report(kills=2)]
    told = as_markdown([_report(kills=2)]) + figures.lacking_as_markdown([_report(kills=2)])
    assert "\n- race: expected at least 6 rounds, found 0\n" in told
    assert document.read_text() == f"before\n{BEGIN}{told}{END}between\n{worlds_as_markdown([])}\nafter\n"
    kept.write_text(json.dumps([*_passed(), *_found()]))
    assert main([]) == 0
    assert not capsys.readouterr().err
    assert "not shown" not in document.read_text()


def test_the_steps_to_faults_broken_on_purpose_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept.json")
    found = _report("kill", variant="x", end="failed") | {"good": True}
    told = json.loads(json.dumps(found))
    told["campaigns"][0] |= {"why": "a trace with /paths", "steps": ["one"]}
    keep([("r", told)])
    assert json.loads((tmp_path / "kept.json").read_text()) == [found]


def test_a_page_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="between which the figures stand"):
        replaced("nothing", [])


def test_reports_of_code_changed_since_are_outdated() -> None:
    asked: list[str] = []

    def changes(commit: str, paths: object) -> list[str] | None:
        asked.append(commit)
        return {"old": ["spark_job/a.py", "spark_job/b.py", "tests/spark/lake.py"], "same": []}.get(commit)

    def of(commit: str | None, report: dict[str, Any]) -> dict[str, Any]:
        return {**report, "where": {**WHERE, "version": commit and {"commit": commit, "changed": False}}}

    race = _report("race", variant="x", end="failed")
    reports = [of("old", _report("kill")), of("old", _report("kill")), of("old", race), of("same", _report("soak"))]
    assert [*outdated([*reports, of("gone", race), of(None, race)], changes)] == [
        "old: kill (2 reports), variants of race: files changed since: 2 in spark_job, 1 in tests",
        "gone: variants of race: of a version that git does not know here",
        "no version: variants of race: of a version that git does not know here",
    ]
    assert asked == ["old", "same", "gone"]


@pytest.mark.parametrize(("found", "status"), [([], 0), (["a.py"], 1)])
def test_the_command_lists_outdated_reports_and_writes_nothing(
    found: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept.json")
    (tmp_path / "kept.json").write_text(json.dumps([_report()]))
    monkeypatch.setattr(figures, "outdated", lambda reports: found)
    before = DOCUMENT.read_text()
    assert main(["--outdated"]) == status
    assert capsys.readouterr().out == ("\n".join(found) or "no report is outdated") + "\n"
    assert DOCUMENT.read_text() == before
