"""Common to all rounds: an empty folder, and one batch with all checks that apply to any batch."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.proof.bad_input.compare import compare
from tests.proof.bad_input.places import check_log, check_places, tree
from tests.proof.bad_input.reader import Found, counted, read_batch
from tests.proof.bad_input.stores import CANARY
from tests.proof.bad_input.variants import Surroundings
from tests.proof.campaign import Failed, Run


def place(run: Run, name: str) -> Path:
    """An empty folder with an empty table, and next to it files that must not be touched."""
    folder = run.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("table", "outside", "landing"):
        (folder / part).mkdir(parents=True)
    (folder / "outside" / "canary.ndjson").write_bytes(CANARY)
    return folder


def batch(run: Run, around: Surroundings, name: str, files: Mapping[str, bytes], *, is_text: bool = False) -> Found:
    """One batch with all checks that apply to any batch. Counts the results of its records."""
    folder = place(run, name)
    before = tree(folder)
    try:
        found = read_batch(folder / "table", files, around.parts, is_text=is_text)
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"the batch crashed with {type(error).__name__}: {error!s:.300}") from error
    check_places(folder, before)
    compare(files, found, is_text=is_text)
    check_log(found.log, ["file_dead_lettered"] * sum(outcome.error is not None for outcome in found.outcomes))
    run.counts.update(counted(found))
    return found
