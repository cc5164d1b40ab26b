"""Each trouble of a stack at which the runbook has the doctor look, in the shipped template on the local AWS. The
command of its section, word by word, says what is wrong; the other commands of the section, word by word, or the
deployments that it asks for put it right, and the doctor says so."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from blizzard.cli import main
from infra.local.deploy.release import TEMPLATE
from infra.local.processes.server_process import LocalAws
from infra.template.translate import translate
from tests.contract import aws_words
from tests.contract import doctor_faults as faults
from tests.contract.doctor_stack import FUNCTIONS, DoctorStack
from tests.contract.test_doctor_on_moto import end_a_run
from tests.unit.documents import text
from tests.unit.test_runbook_commands import HEADINGS, own_text

Then = Callable[[DoctorStack], object]
SHOWN: Mapping[str, str] = {
    "blizzard ": "it is called in this process, and in tests/unit/test_runbook_commands.py",
    "aws logs tail ": "it only shows, and AWS's command line makes it of several calls",
    "aws lambda invoke ": "this stack's functions have no code; tests/e2e/test_stack.py has them run",
    "aws emr-serverless get-job-run ": "it only shows, and RUN stands for what the command before it has named",
    "aws lambda get-account-settings": "it only shows, and the local AWS has no limit for the account",
    "make ": "releases of this stack are empty; tests/contract/test_publish_on_moto.py has a whole one",
    "sam ": "the same stack is deployed by CloudFormation's API",
}
"""How commands begin that are not run here, and why."""


def nothing(_: DoctorStack) -> None:
    """The commands are all."""


@dataclass(frozen=True)
class Trouble:
    """`code`: the doctor's; `check`: that finds it, and something of what it `said`. `then`: what the section has
    somebody do besides its commands, in `words`."""

    plant: faults.Plant
    code: int
    check: str
    said: str
    then: Then = nothing
    words: str = ""


def run_failed(world: DoctorStack) -> Iterator[None]:
    end_a_run(world, "FAILED")
    yield


def the_next_run_succeeds(world: DoctorStack) -> None:
    end_a_run(world, "SUCCESS")


def deploy(world: DoctorStack, uri: str = "functions/{}.zip", **changed: str) -> None:
    uris = {f"{name}Function": f"s3://{world.artifacts}/{uri.format(name)}" for name in FUNCTIONS}
    parameters = {**world.release.parameters, "AlarmTopicArn": world.topic, **world.settings, **changed}
    world.stack.update(translate(TEMPLATE, uris), parameters)


def change_and_change_back(**changed: str) -> Then:
    def then(world: DoctorStack) -> None:
        deploy(world, **changed)
        deploy(world)

    return then


def publish_and_deploy_again(world: DoctorStack) -> None:
    world.publish_configuration()
    deploy(world)


def an_earlier_release_and_this_one(world: DoctorStack) -> None:
    for name in FUNCTIONS:
        body = world.aws.client("s3").get_object(Bucket=world.artifacts, Key=f"functions/{name}.zip")["Body"].read()
        world.put(f"earlier/{name}.zip", body + b"earlier")
    deploy(world, "earlier/{}.zip", JobArchiveKey="job-earlier.tar.gz")
    deploy(world)


TROUBLES: Mapping[str, Trouble] = {
    "## Dead-letter queue of the events": Trouble(faults.dead_event, 0, "aws.events-dead-letters", "about 1 messages"),
    "## Events wait too long": Trouble(faults.disabled_mapping, 1, "aws.event-sources", "is Disabled"),
    "## Dead-letter queue of the wake-ups": Trouble(
        faults.dead_wake_up, 0, "aws.wake-dead-letters", "about 1 messages"
    ),
    "## Failed invocations": Trouble(faults.failed_invocation, 0, "aws.failed-invocations", "about 1 messages"),
    "## Files wait too long": Trouble(faults.disabled_dispatch, 1, "aws.schedules", "is DISABLED"),
    "## A run failed": Trouble(
        run_failed, 0, "aws.last-run", "no memory", the_next_run_succeeds, "The next attempt continues"
    ),
    "## A sweep found missed files": Trouble(
        faults.removed_notifications,
        1,
        "aws.notifications",
        "nothing announces objects",
        change_and_change_back(LandingPrefix="elsewhere/"),
        "With the mode create, change `LandingPrefix`, deploy, change it back and deploy again",
    ),
    "## The sweeper does not run": Trouble(faults.disabled_schedule, 1, "aws.schedules", "is DISABLED"),
    "## The collector fails": Trouble(
        faults.other_configuration,
        1,
        "aws.configuration",
        "config-0.json",
        publish_and_deploy_again,
        "Publish and deploy again",
    ),
    "## The dispatcher fails": Trouble(
        faults.other_archive,
        1,
        "aws.release",
        "job-1.tar.gz, expected",
        change_and_change_back(BackoffSecs="77"),
        "A variable is wrong: [put it back](#what-somebody-changed-by-hand)",
    ),
    "## The sweeper fails": Trouble(
        faults.other_code,
        1,
        "aws.release",
        "other code than the job's",
        an_earlier_release_and_this_one,
        "Its code is another one: [put it back](#what-somebody-changed-by-hand)",
    ),
    "## Functions are throttled": Trouble(faults.no_concurrency, 1, "aws.functions", "concurrency of 0"),
    "## Rolling back": Trouble(
        faults.other_archive,
        1,
        "aws.release",
        "job-1.tar.gz, expected",
        an_earlier_release_and_this_one,
        "To return to an earlier release, prepare it and deploy it",
    ),
}
"""By heading."""


WITH_A_CATALOG = "## A table is not in the catalog"
"""This stack has no Glue database; tests/contract/test_doctor_catalog.py has one."""
WITHOUT_A_DOCTOR: Mapping[str, str] = {
    "## The circuit is open": "it is a state of the table's folder: tests/unit/test_runbook_commands.py",
    "## Sweeps fail": "as above",
    "## Sweeps stay unfinished": "as above",
    "## Dead letters": "as above",
    WITH_A_CATALOG: "tests/contract/test_doctor_catalog.py",
}
"""Alarms whose trouble is planted elsewhere."""


def commands_of(heading: str) -> list[str]:
    """Those that need a stack."""
    return re.findall(r"^ *\$ blizzard (.*--stack.*)$", own_text(heading), re.MULTILINE)


def lines_of(heading: str) -> list[str]:
    """Those for a shell that are run here."""
    found = re.findall(r"^ *\$ (.*)$", own_text(heading), re.MULTILINE)
    return [line for line in found if not line.startswith(tuple(SHOWN))]


@pytest.fixture(scope="module")
def world(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoctorStack]:
    """Its configuration is in the current folder, with a folder of commands, one of which is `aws`."""
    folder = tmp_path_factory.mktemp("runbook")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        deployed = DoctorStack(aws, folder).deploy()
        deployed.probed()
        (folder / "pipelines.yaml").write_text(deployed.file.read_text())
        patch.chdir(folder)
        command = Path("bin/aws")
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {aws_words.__file__} "$@"\n')
        command.chmod(0o755)
        yield deployed


def test_each_section_that_asks_the_doctor_has_a_trouble_here() -> None:
    assert {heading for heading in HEADINGS if commands_of(heading)} - {WITH_A_CATALOG} == {*TROUBLES}


def test_each_alarm_has_a_trouble_here_or_elsewhere() -> None:
    alarms = {heading for heading in HEADINGS if re.search(r"^`\w+Alarm`: ", own_text(heading).strip())}
    assert alarms == {*TROUBLES, *WITHOUT_A_DOCTOR} - {"## Rolling back"}


@pytest.mark.parametrize("heading", TROUBLES)
def test_a_trouble_of_a_stack_is_named_and_solved_word_by_word(
    heading: str, world: DoctorStack, capsys: pytest.CaptureFixture[str]
) -> None:
    known = TROUBLES[heading]
    assert known.words in " ".join(own_text(heading).split())
    next(known.plant(world))  # and never undone by it
    assert_shown(heading, world, capsys, code=known.code, said=known.said)
    deploy(world)
    assert_shown(heading, world, capsys, code=known.code, said=known.said)  # that alone changes nothing
    in_a_shell(world, lines_of(heading))
    known.then(world)
    assert_shown(heading, world, capsys, code=0, said=None)


def in_a_shell(world: DoctorStack, lines: list[str]) -> None:
    first = re.findall(r"^\$ (out\(\).*)$", text("docs/runbook.md"), re.MULTILINE)
    environment = {**os.environ, "STACK": world.name, "PATH": f"{Path('bin').absolute()}:{os.environ['PATH']}"}
    script = "\n".join(["set -euo pipefail", *first, *lines])
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def assert_shown(
    heading: str, world: DoctorStack, capsys: pytest.CaptureFixture[str], *, code: int, said: str | None
) -> None:
    """`said`: beside the name of the check; None: nothing is wrong there."""
    (command,) = commands_of(heading)
    words = [word.replace("$STACK", world.name) for word in shlex.split(command)]
    check = TROUBLES[heading].check
    capsys.readouterr()
    assert main(words) == code
    lines = capsys.readouterr().out.splitlines()
    wrong = [line for line in lines if f" {check} " in line and line.split()[0] in ("warning", "problem")]
    assert [said in line for line in wrong] == ([] if said is None else [True]), lines
