"""Put a file into the landing bucket of the stack that `make local-aws` runs, as a producer would.

Exit status 0: it landed. 1: no stack is running. 2: the file cannot be read, or no source's pattern matches it.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.config.load import load_config
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError, PermanentError
from infra.command_errors import print_error
from infra.local.processes.server_process import LocalAws
from infra.local.stack.example_file import key_for
from infra.local.stack.folder import ENDPOINTS, FOLDER


def main() -> int:
    options = _parser().parse_args()
    try:
        print(f"dropped {_drop(options.file, options.key, options.folder)}")
    except BlizzardError as error:
        return print_error("drop", error)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.local.drop", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--as",
        dest="key",
        metavar="KEY",
        help="key in the landing bucket (default: today's folder of the first source whose pattern matches)",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the stack (default: build/local-aws)")
    return parser


def _drop(file: Path, key: str | None, folder: Path) -> str:
    """The URI of the new object. Raises BlizzardError."""
    try:
        body = file.read_bytes()
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror or error}"]) from error
    try:
        stack = json.loads((folder / ENDPOINTS).read_text())
    except FileNotFoundError as error:
        raise PermanentError(f"found no stack in {folder}; start one with `make local-aws`") from error
    key = key or key_for(load_config(stack["config"], variables()), file.name, time.time())
    if key is None:
        raise ConfigError([f"{file.name}: no source's pattern in {stack['config']} matches it; give its key with --as"])
    try:
        LocalAws(stack["endpoint"], 0).client("s3").put_object(Bucket=stack["landing"], Key=key, Body=body)
    except (BotoCoreError, ClientError) as error:
        raise PermanentError(f"{error}; is `make local-aws` still running?") from error
    return f"s3://{stack['landing']}/{key}"


if __name__ == "__main__":
    sys.exit(main())
