"""The pages of the documentation, and what the code contains that they must name."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
DEPLOYED = ("blizzard", "functions", "spark_job")


def text(name: str) -> str:
    return (ROOT / name).read_text()


def everything() -> str:
    return "\n".join(document.read_text() for document in DOCUMENTS)


@dataclass(frozen=True)
class Fence:
    """A fenced block: ```` ```json segment ```` has language `json` and kind `segment`."""

    document: str
    line: int
    language: str
    kind: str
    body: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def fences(*languages: str, kind: str | None = None) -> list[Fence]:
    found = (fence for document in DOCUMENTS for fence in fences_of(document))
    return [fence for fence in found if fence.language in languages and kind in (None, fence.kind)]


def fences_of(document: Path) -> Iterator[Fence]:
    content = document.read_text()
    for match in re.finditer(r"^```(\w*)[ ]?([^\n`]*)\n(.*?)^```$", content, re.MULTILINE | re.DOTALL):
        line = content.count("\n", 0, match.start()) + 1
        yield Fence(document.relative_to(ROOT).as_posix(), line, *match.groups())


def section(document: str, heading: str) -> str:
    """From a heading to the next one of its level or above."""
    level = heading.partition(" ")[0]
    start = text(document).index(f"\n{heading}\n") + 1
    rest = text(document)[start + len(heading) :]
    end = re.search(rf"^#{{1,{len(level)}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def words(markdown: str) -> set[str]:
    """Each code span, and its first word: `--config URI` is also `--config`."""
    spans = re.findall(r"`([^`\n]+)`", markdown)
    return {*spans, *(span.split()[0] for span in spans if span.strip())}


def first_cells(markdown: str) -> dict[str, str]:
    """The rows of all tables whose first cell is one code span: that cell, and the rest of the row."""
    return dict(re.findall(r"^\| `([^`|]+)` \|(.*)$", markdown, re.MULTILINE))


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def calls(*folders: str) -> list[ast.Call]:
    """Every call in the Python files of these folders."""
    trees = [ast.parse(path.read_text()) for path in python_files(*folders)]
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def first_texts(call: ast.Call) -> list[str]:
    """The string that is a call's first argument; both strings of a conditional expression."""
    first = call.args[0] if call.args else None
    choices = (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,)
    return [c.value for c in choices if isinstance(c, ast.Constant) and isinstance(c.value, str)]


def links(document: Path) -> Iterator[str]:
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)
    yield from re.findall(r"^\[[^\]]+\]: (\S+)$", prose, re.MULTILINE)
    referred = set(re.findall(r"\]\[([^\]]+)\]", prose))
    assert referred <= set(re.findall(r"^\[([^\]]+)\]: ", prose, re.MULTILINE))


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, only letters, digits, `-` and `_`, blanks as `-`."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def row_of(document: str, beginning: str) -> list[str]:
    """The cells of the first row that begins so."""
    line = next(line for line in text(document).splitlines() if line.startswith(f"| {beginning}"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")]
