"""Files and functions stay small enough to read."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40


def code_files(*suffixes: str) -> list[str]:
    """All tracked files, and new ones that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in listed if path.endswith(suffixes) and (ROOT / path).is_file()]


def functions_in(path: str) -> Iterator[tuple[str, int]]:
    """Name and number of lines, from `def` to the end."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_no_file_is_longer_than_400_lines() -> None:
    lines = {path: len((ROOT / path).read_text().splitlines()) for path in code_files(".py", ".java")}
    assert len(lines) > 100
    assert {path: n for path, n in lines.items() if n > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_40_lines() -> None:
    longer = {
        f"{path}:{name}": lines
        for path in code_files(".py")
        for name, lines in functions_in(path)
        if lines > MAX_FUNCTION_LINES
    }
    assert longer == {}
