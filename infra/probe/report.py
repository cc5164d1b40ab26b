"""What a probe has found: as one JSON document, and as lines for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from blizzard.doctor.aws.probe_line import Problem
from blizzard.log import one_line
from infra.probe.log_lines import Found
from infra.probe.run import ProbeRun

NAME_WIDTH = 22


@dataclass(frozen=True, slots=True)
class Report:
    stack: str
    application_id: str
    log_group: str
    run: ProbeRun
    log: Found
    problems: Sequence[Problem]

    def to_dict(self) -> dict[str, Any]:
        return {
            "stack": self.stack,
            "application_id": self.application_id,
            "ok": not self.problems,
            "problems": [problem.as_dict() for problem in self.problems],
            "run": asdict(self.run),
            "log": {
                "group": self.log_group,
                "arrived": self.log.line is not None,
                "secs": self.log.secs,
                "last_lines": list(self.log.last_lines),
            },
            "probe": self.log.line,
        }

    def lines(self) -> Iterator[str]:
        """Texts of AWS and names of objects are escaped."""
        for name, value in self._rows():
            yield f"{name:<{NAME_WIDTH}} {one_line(value)}"
        for problem in self.problems:
            yield ""
            yield f"wrong: {problem.check}: {one_line(problem.found)}"
            yield f"  do:  {one_line(problem.advice)}"
        yield ""
        count = len(self.problems)
        yield "all is well" if not count else "1 problem" if count == 1 else f"{count} problems"

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "run", f"{self.run.id} in {self.application_id}: {self.run.state} after {self.run.secs:.0f} s"
        if self.run.billed and any(self.run.billed.values()):
            yield "billed", ", ".join(f"{value:g} {_unit(name)}" for name, value in self.run.billed.items())
        if self.log.line is None:
            yield "log", f"{self.log_group}: the line has not arrived"
            return
        after = "" if self.log.secs is None else f" after {self.log.secs:.1f} s"
        yield "log", f"{self.log_group}: the line arrived{after}"
        yield from _found(self.log.line)


def _found(line: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for place in ("driver", "executor"):
        process = line.get(place)
        yield place, "not known" if process is None else _process(process)
    for name, version in (line.get("jvm") or {}).items():
        yield name, version or "not known"
    for name, jars in (line.get("jars") or {}).items():
        yield f"jar {name}", ", ".join(jars) or "missing"
    for scheme, store in (line.get("log_store") or {}).items():
        yield "log store", f"{scheme}: {store}"
    yield from _written(line.get("written") or {})
    rights = line.get("rights")
    if rights is not None:
        yield "rights", f"{rights['tried']} tried, {len(rights['denied'])} denied"


def _process(process: Mapping[str, Any]) -> str:
    where = f"Python {process['python']} ({process['executable']}), {process['architecture']}, {process['os']}"
    return f"{where}; {len(process['packages'])} packages, {len(process['missing'])} missing"


def _written(written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not written:
        return
    answers = {True: "refused", False: "NOT refused", None: "not known"}
    yield "second PUT", f"{answers[written['second_put_refused']]} (If-None-Match), below {written['table_uri']}"
    yield "second commit", answers[written["second_commit_refused"]]
    winners = written["winners_of_race"]
    yield "race for a key", "not known" if winners is None else "one winner" if winners == 1 else f"{winners} winners"
    yield "overwriting PUT", f"{answers[written['numbers_fenced']]} (bucket policy)"
    yield "left behind", ", ".join(written["left_behind"]) or "nothing"


def _unit(name: str) -> str:
    """Of `memoryGBHour`: memory GB-hours."""
    units = {"vCPUHour": "vCPU-hours", "memoryGBHour": "memory GB-hours", "storageGBHour": "storage GB-hours"}
    return units.get(name, name)
