"""Parses YAML 1.2 into plain values, with the line number of each. Creates no objects, and stops early at limits that
only a hostile text reaches."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blizzard.config.problems import Path, Problem, Problems

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

MAX_BYTES = 1 << 20
MAX_VALUES = 20_000
"""Values after aliases are expanded: a few aliases of aliases can expand to billions."""
MAX_NODES = 2 * MAX_VALUES
"""Keys and values as written; the parser takes 40 µs for each."""
MAX_DIGITS = 40
"""A longer integer stays text. No setting needs one, and Python refuses to print thousands of digits."""
MAX_DEPTH = 20
"""Levels of nesting; a configuration has six."""
_TOO_DEEP = f"the file is nested deeper than {MAX_DEPTH} levels; expected six at most"

_TAG = "tag:yaml.org,2002:"
_A_TAG = "begins with `!`, which makes a tag of it in YAML; expected a plain value: remove the tag, or put it in quotes"
_NAMING = ("found undefined alias", "found undefined tag handle")
"""What the parser says of a name, which may be a password without quotes, and which is not repeated."""
_UNQUOTED = 'a variable inside of `{…}` or `[…]` needs quotes; expected "${NAME}"'
_INTEGER = re.compile(r"[-+]?[0-9]+")
_RADIX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + word: float(f"{sign}inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}


@dataclass(frozen=True, slots=True)
class Document:
    value: Any
    """Consists of dict (with text keys), list, str, int, float, bool and None."""
    lines: Mapping[Path, int]
    """1-based; for a value in a mapping, the line of its key."""
    problems: tuple[Problem, ...]
    """Duplicate keys, tags, and keys that are not text. They are lost in `value`."""


class UnreadableError(ValueError):
    """The text cannot be parsed, so no further check is possible."""

    def __init__(self, text: str, line: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


def read_document(text: str, file: str) -> Document:
    """Raises UnreadableError when the text is not YAML, too large, or nested too deep."""
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise UnreadableError(f"the file is larger than {MAX_BYTES} bytes; expected a configuration, of some KB", None)
    node = _compose(text)
    if node is None:
        raise UnreadableError("the file is empty; expected `pipelines:` and at least one pipeline", 1)
    builder = _Builder(file)
    value = builder.value(node, ())
    return Document(value, builder.lines, builder.problems.sorted())


def place_of(text: str, path: Path) -> tuple[int, int] | None:
    """The first and last character (exclusive) of the text or number at this path; None if there is none, or if it is
    not written there itself. Raises UnreadableError."""
    node = _compose(text)
    for part in path:
        if node is None or _kind(node) != "mapping":
            return None
        node = next((value for key, value in node.value if key.value == part), None)
    if node is None or _kind(node) != "scalar":
        return None
    return node.start_mark.index, node.end_mark.index


def _compose(text: str) -> "Node | None":
    from ruamel.yaml import YAML  # takes 25 ms, which a process without a configuration saves
    from ruamel.yaml.composer import MaxDepthExceededError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False
    yaml.composer.compose_node = _limit_nodes(yaml.composer.compose_node)
    try:
        return yaml.compose(text)  # type: ignore[no-any-return]
    except UnreadableError:
        raise
    except MaxDepthExceededError as error:
        raise UnreadableError(_TOO_DEEP, error.problem_mark.line + 1) from error
    except MarkedYAMLError as error:
        mark, reason = error.problem_mark or error.context_mark, error.problem or error.context
        is_variable = mark is not None and text[: mark.index + 1].endswith("${")
        raise _unreadable(mark, _UNQUOTED if is_variable else reason) from error
    except ReaderError as error:
        found = f"found the control character U+{ord(text[error.position]):04X}; remove it"
        raise UnreadableError(found, text.count("\n", 0, error.position) + 1) from error
    except YAMLError as error:
        raise _unreadable(None, str(error).splitlines()[0]) from error
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise _unreadable(None, type(error).__name__) from error  # bugs of the parser on odd texts


def _limit_nodes(compose_node: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the parser stop early in a large text, instead of reading it to its end."""
    composed = 0

    def compose_counted(*parent_and_index: Any) -> Any:
        nonlocal composed
        composed += 1
        if composed > MAX_NODES:
            raise UnreadableError(f"the file holds more than {MAX_NODES} keys and values; make it smaller", None)
        return compose_node(*parent_and_index)

    return compose_counted


def _unreadable(mark: Any, reason: str | None) -> UnreadableError:
    column = "" if mark is None else f" (column {mark.column + 1})"
    said = next((told for told in _NAMING if str(reason).startswith(told)), reason)
    return UnreadableError(f"this is not YAML: {said}{column}; correct it", None if mark is None else mark.line + 1)


def _kind(node: "Node") -> str:
    """mapping, sequence or scalar."""
    return str(vars(type(node))["id"])


class _Builder:
    def __init__(self, file: str) -> None:
        self.lines: dict[Path, int] = {(): 1}
        self.problems = Problems(file, self.lines)
        self._values = 0

    def value(self, node: "Node", path: Path) -> Any:
        self._values += 1
        line = node.start_mark.line + 1
        if self._values > MAX_VALUES:
            raise UnreadableError(f"the file expands to more than {MAX_VALUES} values; use fewer aliases", line)
        if len(path) > MAX_DEPTH:
            raise UnreadableError(_TOO_DEEP, line)
        self.lines.setdefault(path, line)
        if _kind(node) == "mapping":
            return self._mapping(node, path)
        return self._sequence(node, path) if _kind(node) == "sequence" else self._scalar(node, path)

    def _mapping(self, node: "Node", path: Path) -> dict[str, Any]:
        self._check_tag(node, path, "map")
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if _kind(key_node) != "scalar":
                self.problems.add(path, f"found a {_kind(key_node)} as a key on line {line}; expected a word")
                continue
            key = self._text(key_node.value, path)
            place = (*path, key)
            if key in found:
                self.problems.add(place, f"occurs twice, on lines {self.lines[place]} and {line}; remove one")
                continue
            self.lines[place] = line
            found[key] = self.value(value_node, place)
        return found

    def _sequence(self, node: "Node", path: Path) -> list[Any]:
        self._check_tag(node, path, "seq")
        return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]

    def _scalar(self, node: "Node", path: Path) -> Any:
        self._check_tag(node, path, "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
        plain = not getattr(node, "style", None) and node.tag != f"{_TAG}str"
        return _plain_value(node.value) if plain else self._text(node.value, path)

    def _text(self, text: Any, path: Path) -> str:
        r"""JSON escapes characters beyond U+FFFF in halves, such as `\ud83d\ude00`, which the parser keeps apart."""
        try:
            return str(text).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.problems.add(path, "has half of a surrogate pair, which is no character; expected both halves")
            return str(text).encode(errors="replace").decode()

    def _check_tag(self, node: "Node", path: Path, *known: str) -> None:
        tag = str(node.tag)
        if tag not in {_TAG + name for name in known}:
            self.problems.add(path, _A_TAG)


def _plain_value(text: str) -> Any:
    """The value of an unquoted word in YAML 1.2's core schema: `yes` and dates are text, and `017` is 17."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) or _RADIX.fullmatch(text):
        base = 0 if _RADIX.fullmatch(text) else 10
        return int(text, base) if len(text) < MAX_DIGITS else text
    return float(text) if _FLOAT.fullmatch(text) else text
