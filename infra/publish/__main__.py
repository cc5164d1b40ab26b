"""`make publish` uploads a release and sets its parameters in samconfig.toml; `make rollback` restores an older one."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from infra.command_errors import print_error
from infra.package.build import ROOT
from infra.publish.publish import SAMCONFIG, ArtifactLocation, Publication, publish, restore_release
from infra.publish.release import HASH_CHARACTERS, Release


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    options = _parser().parse_args(arguments)
    command = "publish" if options.release is None else "rollback"
    try:
        _check(options)
        if options.release is not None:
            release = restore_release(
                root, options.release, options.artifacts, variables(), environment=options.environment
            )
            _show_release(release)
        else:
            _show(publish(root, Path(options.config), options.artifacts, variables(), environment=options.environment))
    except BlizzardError as error:
        return print_error(command, error)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.publish", description=__doc__)
    parser.add_argument("--config", default="", help="path of pipelines.yaml")
    parser.add_argument("--artifacts", required=True, help="where to publish: s3://bucket or s3://bucket/prefix")
    parser.add_argument(
        "--environment", default="default", help="table of samconfig.toml, as in `sam --config-env` (default: default)"
    )
    parser.add_argument("--release", help="restore this release: the id that `make publish` printed after `release`")
    return parser


def _check(options: argparse.Namespace) -> None:
    """Check the options alone. Raises ConfigError with all problems."""
    problems = []
    if options.release is None and not options.config:
        problems.append("CONFIG: expected the path of a configuration, such as pipelines.yaml, found nothing")
    if options.release is not None and not re.fullmatch(f"[0-9a-f]{{{HASH_CHARACTERS}}}", options.release):
        problems.append(
            f"RELEASE: expected {HASH_CHARACTERS} hex digits, as `make publish` prints them after `release`, "
            f"found {repr(options.release) if options.release else 'nothing'}"
        )
    try:
        ArtifactLocation.parse(options.artifacts)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)


def _show(publication: Publication) -> None:
    for done in publication.uploads:
        print(f"{'uploaded' if done.is_new else 'there    '}  {done.key}  {done.size_bytes:,} bytes")
    print(f"release {publication.release.id}")
    _show_parameters(publication.release)


def _show_release(release: Release) -> None:
    for artifact in release.functions:
        print(f"fetched   build/{artifact.file}")
    print(f"release {release.id}")
    _show_parameters(release)


def _show_parameters(release: Release) -> None:
    for name, value in release.parameters.items():
        print(f"  {name:<20} {value}".rstrip())
    print(f"{SAMCONFIG} has them. Next: sam build && sam deploy --guided (later: sam build && sam deploy)")


if __name__ == "__main__":
    sys.exit(main())
