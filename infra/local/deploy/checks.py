"""What would make a local stack fail, told before anything starts or is deleted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from blizzard.config.model import Config
from blizzard.environment import variables
from blizzard.errors import ConfigError
from infra.local.deploy.release import ARTIFACTS, TEMPLATE
from infra.publish.fit import Buckets, read_fitting_file
from infra.template.parameters import refusals

MARK = "local-aws.log"
"""Is in each folder that a stack was run in."""


def checked(config: Path, settings: Sequence[str], soon: Mapping[str, str]) -> tuple[Config, dict[str, str]]:
    """The configuration, and the parameters of the template: `soon`, and over it NAME=VALUE of each setting.

    Raises ConfigError with everything that is wrong with either.
    """
    from infra.template.translate import parse

    problems = [f"--set {one}: expected NAME=VALUE, found no =" for one in settings if "=" not in one]
    given = dict(one.split("=", 1) for one in settings if "=" in one)
    try:
        fitting = read_fitting_file(config, variables())
    except ConfigError as error:
        problems += error.problems
        buckets, found = Buckets("landing", "", "lake"), None
    else:
        buckets, found = fitting.buckets, fitting.config
    published = _published(buckets)
    problems += [
        f"--set {name}: publishing the configuration gives it; change the configuration instead"
        for name in sorted(given.keys() & published.keys())
    ]
    chosen = {**soon, **{name: value for name, value in given.items() if name not in published}}
    for refusal in refusals(parse(TEMPLATE.read_text()), {**published, **chosen}):
        problems.append(f"--set {refusal}" if refusal.partition(":")[0] in given else refusal)
    if problems or found is None:
        raise ConfigError(problems)
    return found, chosen


def check_folder(folder: Path) -> None:
    """Its content is going to be deleted. Raises ConfigError where that is not a stack's."""
    if folder.exists() and not (folder.is_dir() and ((folder / MARK).exists() or not any(folder.iterdir()))):
        raise ConfigError(
            [f"--folder {folder}: expected a folder that is empty, new, or of an earlier stack; found something else"]
        )


def _published(buckets: Buckets) -> dict[str, str]:
    """Stands for the parameters that publishing gives, of which only the buckets are known before."""
    return {
        "LandingBucketName": buckets.landing,
        "LandingPrefix": buckets.landing_prefix,
        "LakeBucketName": buckets.lake,
        "ArtifactsBucketName": ARTIFACTS,
        "ConfigKey": "config-0.json",
        "JobEntryKey": "entry-0.py",
        "JobArchiveKey": "job-0.tar.gz",
        "LogStoreJarKey": "logstore-0.jar",
    }
