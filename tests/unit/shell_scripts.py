"""Shell scripts that stand in for programs."""

from pathlib import Path


def script(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file
