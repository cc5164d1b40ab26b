"""The figures of the proof in docs/proof.md, from reports: `python -m tests.proof.figures [REPORT.json …]`.

With reports, which `--json` wrote, these replace the stored ones in docs/proof.json. Without, the figures and the table
of worlds in docs/proof.md are written again from there. Only a report in which everything passed is accepted. `python
-m tests.proof.figures --outdated` lists the stored reports whose code has changed since.
"""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.version import Version, changed_since
from tests.proof.audit.campaign import WORLDS as HEALTHY_WORLDS
from tests.proof.bad_input.job import REAL_JOB
from tests.proof.bad_storage.variants import OF_REAL_JOB
from tests.proof.campaign import FILES, SPARK_SHARE, untried
from tests.proof.campaigns import MODULES, known, load
from tests.proof.formats.campaign import damaged_files
from tests.proof.formats.check import FILES as DAMAGED
from tests.proof.formats.check import REFUSED, ROWS
from tests.proof.formats.corpus import KINDS
from tests.proof.job_engines import BY, JOBS_OF, found_with
from tests.proof.kafka.campaign import ENGINES as KAFKA_JOBS
from tests.proof.kafka.campaign import RACES_OF_BOTH
from tests.proof.kill.kill_counts import MOST_KILLS
from tests.proof.kill.names import VARIANTS as OF_KILL
from tests.proof.race.campaign import VARIANTS as OF_RACE
from tests.proof.table import DOCUMENT, KEPT, Reports, outcomes, variants, worlds_replaced
from tests.proof.takeover.campaign import TABLES_OF

BEGIN, END = "<!-- figures of the proof -->\n", "<!-- end -->\n"

Counted = Mapping[str, tuple[str, ...]]
"""By campaign, the names of its counts; a `*` at the end matches any rest."""

OUTDATED = "--outdated"
CODE = (
    *("blizzard", "spark_job", "functions", "infra", "tests", "benchmarks/s3_stand_in", "requirements.lock"),
    *(":(exclude,glob)tests/**/test_*.py", ":(exclude,glob)**/*.md"),
)
"""The code that a campaign runs, and its own code, as git's pathspecs."""

WAYS = ("why", "steps")
ON_DELTA = ("kill", "soak", "kafka", "rebuild")
"""Campaigns that kill jobs and operators of either engine that write real tables."""
FIGURES: Mapping[str, Counted] = {
    "processes killed": dict.fromkeys((*ON_DELTA, "kill-calls"), ("kills",)),
    "of them on Delta tables": dict.fromkeys(ON_DELTA, ("kills",)),
    "races": {"race": ("races",), "race-calls": ("races",), "rebuild": ("races",)},
    "of them over Delta tables": {"race": ("races",), "rebuild": ("races",)},
    "times that one lost a race": {"race": ("races lost",), "race-calls": ("races lost",)},
    "faults of storage": {"bad-storage": ("faults",), "soak": ("faults",)},
    "seconds of outage": {"bad-storage": ("seconds of outage",), "soak": ("seconds of outage",)},
    "hostile inputs": {
        "bad-input": (
            *("hostile *", "files by chance", "texts by chance", "messages by chance", "segments by chance"),
            *("checkpoints by chance", "configurations by chance"),
        )
    },
    "damaged files of all formats": {"formats": (DAMAGED,)},
    "states of small worlds": {"small-worlds": ("states",)},
    "commits": {"race": ("commits",), "race-calls": ("commits",), "soak": ("commits",)},
    "records compared, after each round all that there are": {
        "kill": ("rows compared",),
        "kill-calls": ("records",),
        "race": ("records",),
        "race-calls": ("records",),
        "bad-storage": ("records", "records of the real job"),
        "bad-input": ("rows", "dead letters"),
        "formats": (ROWS, REFUSED),
        "engines": ("rows of each engine", "dead letters of each engine"),
        "log-life": ("records",),
        "takeover": ("records",),
        "kafka": ("messages compared with rows and letters",),
        "soak": ("rows compared",),
    },
}
LEAST: Mapping[str, Mapping[str, int]] = {
    "audit": {HEALTHY_WORLDS: 1_000},
    "race": {"rounds": 6},
    "bad-storage": {"seconds of outage": 120},
    "formats": {damaged_files(kind): 100_000 for kind in KINDS},
    "kafka": dict.fromkeys((*KAFKA_JOBS.values(), RACES_OF_BOTH), 1),
    "log-life": dict.fromkeys(JOBS_OF.values(), 1),
    "takeover": dict.fromkeys(TABLES_OF.values(), 1),
    "bad-input": {f"{REAL_JOB} with {engine}": 1 for engine in BY.values()},
}
"""By campaign, the counts that its reports together must reach."""

LEAST_OF_ONE: Mapping[str, Mapping[str, int]] = {
    "kill": {MOST_KILLS: 200},
    "kill-calls": {MOST_KILLS: 200},
    "engines": {"files that both engines have read": 100_000},
}
"""By campaign, the counts that one of its reports must reach."""
FOUND_WITH_EACH = {"kill": frozenset(OF_KILL), "race": frozenset(OF_RACE), "bad-storage": frozenset(OF_REAL_JOB)}
"""By campaign, what is broken on purpose in the job, and must be found with jobs of each engine."""
OVER_ONE_TABLE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "processes killed": ("most of them over one table", ("kill", "kill-calls")),
    "of them on Delta tables": ("most of these over one table", ("kill",)),
}
"""By figure, the name of its largest part, and the campaigns that count it."""
SOAK_SECS = 3600.0
"""Of one run: growth may show only after an hour."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: docs/proof.md and docs/proof.json agree now, and the reports have no gaps; 1: they agree, and the
    gaps are printed; 2: a report is refused."""
    words = sys.argv[1:] if arguments is None else arguments
    if [*words] == [OUTDATED]:
        return say_outdated(json.loads(KEPT.read_text()))
    files = [Path(word) for word in words]
    try:
        if files:
            keep([(str(file), json.loads(file.read_text())) for file in files])
        reports = json.loads(KEPT.read_text())
        DOCUMENT.write_text(worlds_replaced(replaced(DOCUMENT.read_text(), reports), reports))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    missing = lacking(reports)
    for what in missing:
        print(f"not shown: {what}", file=sys.stderr)
    return 1 if missing else 0


def say_outdated(reports: Reports) -> int:
    """Exit status 0: the code is unchanged since all reports; 1: it has changed, or the version is unknown."""
    found = [*outdated(reports)]
    for line in found or ["no report is outdated"]:
        print(line)
    return 1 if found else 0


def outdated(
    reports: Reports, changes: Callable[[str, Sequence[str]], Sequence[str] | None] = changed_since
) -> Iterator[str]:
    """For each version whose code differs from HEAD: its runs, and what has changed since."""
    ran: dict[str, Counter[str]] = {}
    for report in reports:
        version = report["where"].get("version")
        of = ran.setdefault(version["commit"] if version else "", Counter())
        of.update(dict.fromkeys((_ran(outcome) for outcome in report["campaigns"]), 1))
    for commit, campaigns in ran.items():
        files = changes(commit, CODE) if commit else None
        if files is None:
            why = "of a version that git does not know here"
        elif files:
            folders = Counter(file.partition("/")[0] for file in files)
            why = f"files changed since: {', '.join(f'{count:,} in {name}' for name, count in folders.items())}"
        else:
            continue
        what = ", ".join(f"{name} ({count} reports)" if count > 1 else name for name, count in campaigns.items())
        yield f"{Version(commit, changed=False) if commit else 'no version'}: {what}: {why}"


def _ran(outcome: Mapping[str, Any]) -> str:
    return f"variants of {outcome['campaign']}" if outcome["variant"] else str(outcome["campaign"])


def keep(reports: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Without the steps to deliberate faults."""
    taken = []
    for file, report in reports:
        if not report["good"] or any(outcome["end"] == "interrupted" for outcome in report["campaigns"]):
            raise ValueError(f"{file}: expected a report in which all went well to its end; run that again")
        if not (version := report["where"].get("version")) or version["changed"]:
            raise ValueError(
                f"{file}: expected a report of a version that git knows, found {_of(report)}; commit, and run it again"
            )
        without = [{name: said for name, said in one.items() if name not in WAYS} for one in report["campaigns"]]
        taken.append({**report, "campaigns": without})
    KEPT.write_text(json.dumps(taken, indent=1) + "\n")


def _of(report: Mapping[str, Any]) -> str:
    """Its version in words."""
    known = report["where"].get("version")
    return f"{Version(**known)}" if known else "none"


def lacking(reports: Reports) -> list[str]:
    """Claims of docs/proof.md that these reports do not show; empty: none."""
    return [*_lacking_versions(reports), *_lacking_campaigns(reports), *_lacking_variants(reports)]


def _lacking_versions(reports: Reports) -> Iterator[str]:
    if without := sum(not report["where"].get("version") for report in reports):
        yield f"{without:,} of {len(reports):,} reports do not say of which version they are"


def _lacking_campaigns(reports: Reports) -> Iterator[str]:
    plain = [outcome for outcome in outcomes(reports) if not outcome["variant"] and outcome["end"] == "passed"]
    passed = {outcome["campaign"] for outcome in plain}
    yield from (f"{name}: no report in which it passed" for name in known() if name not in passed)
    for campaign, name, fewest in _each(LEAST):
        if (found := _counts(campaign, plain)[name]) < fewest:
            yield f"{campaign}: expected at least {fewest:,} {name}, found {found:,}"
    for campaign, name, fewest in _each(LEAST_OF_ONE):
        if (found := _most(campaign, name, plain)) < fewest:
            yield f"{campaign}: {name}: expected at least {fewest:,} in one report, found {found:,}"
    for name in sorted(passed):
        yield from (f"{name}: not tried: {what}" for what in untried(load(MODULES[name]), _counts(name, plain)))
    mixed = (
        one for one in plain if one["campaign"] == "soak" and all(one["counts"].get(of) for of in JOBS_OF.values())
    )
    longest_secs = max((one["secs"] for one in mixed), default=0.0)
    if longest_secs < SOAK_SECS:
        expected = f"a run of at least {SOAK_SECS:,.0f} s with jobs of both engines"
        yield f"soak: expected {expected}, found {longest_secs:,.0f} s"


def _each(demands: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, int]]:
    return [(campaign, name, fewest) for campaign, least in demands.items() for name, fewest in least.items()]


def _lacking_variants(reports: Reports) -> Iterator[str]:
    wanted = {(campaign, variant) for variant, campaigns in variants().items() for campaign in campaigns}
    found = pairs(reports)
    yield from (f"{campaign}: no report in which it found {variant!r}" for campaign, variant in sorted(wanted - found))
    yield from (f"{campaign}: knows no {variant!r} any more" for campaign, variant in sorted(found - wanted))
    seen = {(one["campaign"], one["variant"], name) for one in outcomes(reports) for name in one["counts"]}
    for campaign, variant in sorted(found & wanted):
        by = BY.items() if variant in FOUND_WITH_EACH.get(campaign, ()) else ()
        without = [name for engine, name in by if (campaign, variant, found_with(engine)) not in seen]
        yield from (f"{campaign}: no report in which it found {variant!r} with {name}" for name in without)


def pairs(reports: Reports) -> set[tuple[str, str]]:
    """Each campaign with each deliberate fault that it found."""
    found = (each for each in outcomes(reports) if each["variant"] and each["end"] == "failed")
    return {(each["campaign"], each["variant"]) for each in found}


def replaced(page: str, reports: Reports) -> str:
    """The page with the figures of these reports."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"{DOCUMENT.name}: expected {BEGIN.strip()} and {END.strip()}, between which the figures stand"
        )
    return before + BEGIN + as_markdown(reports) + lacking_as_markdown(reports) + END + after


def lacking_as_markdown(reports: Reports) -> str:
    """Lists the gaps of these reports next to their figures."""
    missing = lacking(reports)
    lines = ["Asked of the proof, and not shown by these runs:", "", *(f"- {what}" for what in missing), ""]
    return "\n".join([*lines, ""]) if missing else ""


def as_markdown(reports: Reports) -> str:
    """The sums over all reports, and the commands that repeat them. Raises ValueError for a report that did not pass,
    because only a pass means that nothing was lost and nothing doubled."""
    plain = [outcome for outcome in outcomes(reports) if not outcome["variant"]]
    if broken := {outcome["campaign"] for outcome in plain if outcome["end"] != "passed"}:
        raise ValueError(f"{KEPT.name}: expected runs that passed, found others of {', '.join(sorted(broken))}")
    lines = ["", "| | |", "|---|--:|"]
    for name, counted in FIGURES.items():
        lines.append(f"| {name} | {_sum(counted, plain):,} |")
        part, campaigns = OVER_ONE_TABLE.get(name, ("", ()))
        if most := max((_most(campaign, MOST_KILLS, plain) for campaign in campaigns), default=0):
            lines.append(f"| {part} | {most:,} |")
    lines.append(f"| hours | {sum(outcome['secs'] for outcome in plain) / 3600:.1f} |")
    lines += ["| **records lost** | **0** |", "| **records doubled** | **0** |"]
    if found := pairs(reports):
        lines.append(f"| pairs of a campaign and a program broken on purpose, each found | {len(found):,} |")
    versions = sorted({f"`{_of(report)}`" for report in reports if report["where"].get("version")})
    lines += [f"| version | {', '.join(versions)} |"] if versions else []
    lines += ["", "```console"]
    lines += [f"$ make prove PROVE={shlex.quote(_words(report))}" for report in reports]
    return "\n".join([*lines, "```", ""]) + "\n"


def _sum(counted: Counted, outcomes: Iterable[Mapping[str, Any]]) -> int:
    return sum(
        count
        for outcome in outcomes
        for name, count in outcome["counts"].items()
        if any(is_named(name, wanted) for wanted in counted.get(outcome["campaign"], ()))
    )


def _counts(campaign: str, outcomes: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Sum over all its reports."""
    found: Counter[str] = Counter()
    for outcome in outcomes:
        found.update(outcome["counts"] if outcome["campaign"] == campaign else {})
    return found


def _most(campaign: str, name: str, outcomes: Iterable[Mapping[str, Any]]) -> int:
    """Largest value of one of its reports."""
    return max((_counts(campaign, [one])[name] for one in outcomes), default=0)


def is_named(name: str, wanted: str) -> bool:
    """Whether the name of a count matches, as in FIGURES."""
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def _words(report: Mapping[str, Any]) -> str:
    """The command that was run: a report has either the unbroken program or variants, and a report of a single variant
    was asked for by its name."""
    names = list(dict.fromkeys(outcome["campaign"] for outcome in report["campaigns"]))
    words = [] if names == known() else [*names]
    broken = sorted({outcome["variant"] for outcome in report["campaigns"]} - {""})
    if broken:
        words = [*words, *(["--variant", *broken] if len(broken) == 1 else ["--variants"])]
    options = {"--files": ("files", FILES), "--spark-share": ("spark_share", SPARK_SHARE)}
    for option, (name, usual) in options.items():
        if (given := report["campaigns"][0].get(name, usual)) != usual:
            words += [option, f"{given:g}"]
    return shlex.join([*words, "--minutes", f"{report['where']['minutes']:g}", "--seed", f"{report['where']['seed']}"])


if __name__ == "__main__":
    sys.exit(main())
