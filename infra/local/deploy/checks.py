"""Checks the configuration, parameters and folder of a local stack before anything starts or is deleted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from blizzard.config.model import Config
from blizzard.environment import variables
from blizzard.errors import ConfigError
from infra.local.deploy.release import ARTIFACTS, TEMPLATE
from infra.publish.stack_config import Buckets, Landing, read_stack_config_file
from infra.template.parameters import parameter_problems

STACK_FILE = "local-aws.log"
"""Every folder that a stack has run in contains it."""


def check_options(config: Path, settings: Sequence[str], defaults: Mapping[str, str]) -> tuple[Config, dict[str, str]]:
    """The configuration, and the template's parameters: `defaults`, overridden by each NAME=VALUE in `settings`.

    Raises ConfigError with all problems of both.
    """
    from infra.template.translate import parse

    problems = [f"--set {one}: expected NAME=VALUE, found no =" for one in settings if "=" not in one]
    given = dict(one.split("=", 1) for one in settings if "=" in one)
    try:
        stack_config = read_stack_config_file(config, variables())
    except ConfigError as error:
        problems += error.problems
        buckets, found = Buckets((Landing("landing"),), "lake"), None
    else:
        buckets, found = stack_config.buckets, stack_config.config
    published = _published(buckets)
    problems += [
        f"--set {name}: publishing the configuration sets it; change the configuration instead"
        for name in sorted(given.keys() & published.keys())
    ]
    chosen = {**defaults, **{name: value for name, value in given.items() if name not in published}}
    for problem in parameter_problems(parse(TEMPLATE.read_text()), {**published, **chosen}):
        problems.append(f"--set {problem}" if problem.partition(":")[0] in given else problem)
    if problems or found is None:
        raise ConfigError(problems)
    return found, chosen


def check_folder(folder: Path) -> None:
    """Its content will be deleted. Raises ConfigError unless it is new, empty, or from an earlier stack."""
    if folder.exists() and not (folder.is_dir() and ((folder / STACK_FILE).exists() or not any(folder.iterdir()))):
        raise ConfigError(
            [f"--folder {folder}: expected a folder that is empty, new, or of an earlier stack; choose another folder"]
        )


def _published(buckets: Buckets) -> dict[str, str]:
    """Placeholders for the parameters that publishing sets; before it, only the buckets are known."""
    return {
        **buckets.parameters(),
        "ArtifactsBucketName": ARTIFACTS,
        "ConfigKey": "config-0.json",
        "JobEntryKey": "entry-0.py",
        "JobArchiveKey": "job-0.tar.gz",
        "LogStoreJarKey": "logstore-0.jar",
    }
