"""Each trouble of a stack at which the runbook has the doctor look, in the shipped template on the local AWS. The
command of its section, word by word, says what is wrong, and nothing any more after it is put right."""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from blizzard.cli import main
from infra.local.processes.server_process import LocalAws
from tests.contract import doctor_faults as faults
from tests.contract.doctor_stack import DoctorStack
from tests.contract.test_doctor_on_moto import end_a_run
from tests.unit.test_runbook_commands import HEADINGS, own_text


def run_failed(world: DoctorStack) -> Iterator[None]:
    end_a_run(world, "FAILED")
    yield
    end_a_run(world, "SUCCESS")


TROUBLES: Mapping[str, tuple[faults.Plant, int, str, str]] = {
    "## Dead-letter queue of the events": (faults.dead_event, 0, "aws.events-dead-letters", "about 1 messages"),
    "## Events wait too long": (faults.disabled_mapping, 1, "aws.event-sources", "is Disabled"),
    "## Dead-letter queue of the wake-ups": (faults.dead_wake_up, 0, "aws.wake-dead-letters", "about 1 messages"),
    "## Failed invocations": (faults.failed_invocation, 0, "aws.failed-invocations", "about 1 messages"),
    "## Files wait too long": (faults.disabled_dispatch, 1, "aws.schedules", "is DISABLED"),
    "## A run failed": (run_failed, 0, "aws.last-run", "no memory"),
    "## A sweep found missed files": (
        faults.removed_notifications,
        1,
        "aws.notifications",
        "nothing announces objects",
    ),
    "## The sweeper does not run": (faults.disabled_schedule, 1, "aws.schedules", "is DISABLED"),
    "## The collector fails": (faults.other_configuration, 1, "aws.configuration", "config-0.json"),
    "## The dispatcher fails": (faults.other_archive, 1, "aws.release", "job-1.tar.gz, expected"),
    "## The sweeper fails": (faults.other_code, 1, "aws.release", "other code than the job's"),
    "## Functions are throttled": (faults.no_concurrency, 1, "aws.functions", "concurrency of 0"),
    "## Rolling back": (faults.other_archive, 1, "aws.release", "job-1.tar.gz, expected"),
}
"""By heading: the trouble, the doctor's exit code, the check that finds it, and something of what it says."""


WITH_A_CATALOG = "## A table is not in the catalog"
"""This stack has no Glue database; tests/contract/test_doctor_catalog.py has one."""


def commands_of(heading: str) -> list[str]:
    """Those that need a stack."""
    return re.findall(r"^ *\$ blizzard (.*--stack.*)$", own_text(heading), re.MULTILINE)


@pytest.fixture(scope="module")
def world(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoctorStack]:
    """Its configuration is in the current folder."""
    folder = tmp_path_factory.mktemp("runbook")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        deployed = DoctorStack(aws, folder).deploy()
        deployed.probed()
        (folder / "pipelines.yaml").write_text(deployed.file.read_text())
        patch.chdir(folder)
        yield deployed


def test_each_section_that_asks_the_doctor_has_a_trouble_here() -> None:
    assert {heading for heading in HEADINGS if commands_of(heading)} - {WITH_A_CATALOG} == {*TROUBLES}


@pytest.mark.parametrize("heading", TROUBLES)
def test_the_doctor_names_the_trouble_of_a_section(
    heading: str, world: DoctorStack, capsys: pytest.CaptureFixture[str]
) -> None:
    plant, code, check, said = TROUBLES[heading]
    with contextmanager(plant)(world):
        assert_shown(heading, world, capsys, code=code, check=check, said=said)
    assert_shown(heading, world, capsys, code=0, check=check, said=None)


def assert_shown(
    heading: str, world: DoctorStack, capsys: pytest.CaptureFixture[str], *, code: int, check: str, said: str | None
) -> None:
    """`said`: beside the name of the check; None: nothing is wrong there."""
    (command,) = commands_of(heading)
    words = [word.replace("$STACK", world.name) for word in shlex.split(command)]
    capsys.readouterr()
    assert main(words) == code
    lines = capsys.readouterr().out.splitlines()
    wrong = [line for line in lines if f" {check} " in line and line.split()[0] in ("warning", "problem")]
    assert [said in line for line in wrong] == ([] if said is None else [True]), lines
