"""Checks of what a person sees: commands over hostile input, and a terminal that shows hostile keys."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from blizzard.cli import main
from blizzard.cli.progress import Progress
from tests.proof.bad_input import documents
from tests.proof.bad_input.decoders import bounded
from tests.proof.campaign import Failed


def command(*words: str) -> tuple[int, str]:
    """Exit code and output of a command."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(words)
    return code, printed.getvalue()


def check_validate(folder: Path, name: str, text: str) -> None:
    """Exit code 2, and each problem on one line without control characters."""
    file = folder / "pipelines.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    with bounded(f"validate {name}"):
        code, printed = command("validate", str(file))
    file.unlink()
    if code != 2 or not printed.endswith("\n"):
        raise Failed(f"validate of a configuration with {name}: exit code {code}; expected 2")
    if strange := [line for line in printed.split("\n")[:-1] if not line.isprintable()]:
        raise Failed(f"validate of a configuration with {name} prints {strange[0]!a:.200}")


def check_status(folder: Path, name: str, copy: str | bytes) -> None:
    """Exit code 1 and the reason, for a source whose copy of the checkpoint is hostile."""
    state = folder / "table" / "_blizzard"
    (state / "events_landing" / "pending").mkdir(parents=True, exist_ok=True)
    (folder / "landing").mkdir(exist_ok=True)
    (state / "events_landing_checkpoint.json").write_bytes(
        copy.encode(errors="surrogatepass") if isinstance(copy, str) else copy
    )
    for number, (_, data) in enumerate(documents.segments()):
        (state / "events_landing" / "pending" / f"{number:020d}.json").write_bytes(data)
    source = {"uri": str(folder / "landing"), "schema": "id STRING"}
    file = folder / "pipelines.yaml"
    pipeline = {"table_uri": str(folder / "table"), "sources": {"landing": source}}
    file.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    with bounded(f"status of {name}"):
        code, printed = command("status", str(file))
    if code != 1 or "checkpoint" not in printed:
        raise Failed(
            f"status with a checkpoint of {name}: exit code {code}; expected 1 and the reason: {printed!a:.300}"
        )


def check_view(key: str) -> None:
    """The progress of `blizzard run` for a file with this key is one line without cursor movements."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        progress = Progress()
        error = f"{key}: found nothing"
        progress.show({"event": "file_dead_lettered", "source": "a:b", "path": key, "stage": "parse", "error": error})
    line, end = printed.getvalue()[:-1], printed.getvalue()[-1:]
    if not line.isprintable() or end != "\n" or not line.startswith("a:b: dead-lettered "):
        raise Failed(f"a terminal is shown {printed.getvalue()!a:.300}")
