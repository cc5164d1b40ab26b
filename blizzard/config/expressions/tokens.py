"""The words of an expression in Spark SQL, and those that no expression of a configuration may have."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from blizzard.config.expressions.syntax import NotUnderstood

_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\n\r]+ )
    | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<decimal> (?:[0-9]+\.[0-9]*|\.[0-9]+) (?![A-Za-z0-9_.]) )
    | (?P<double> (?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+ (?![A-Za-z0-9_.]) )
    | (?P<integer> [0-9]+ (?![A-Za-z0-9_.]) )
    | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<quoted> `(?:[^`]|``)*` )
    | (?P<mark> <=>|<=|>=|<>|!=|==|\|\||[=<>(),.!+*/%-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/", re.DOTALL)

CHANGING = frozenset(
    {
        "aes_encrypt",  # with a random initialization vector
        *("current_catalog", "current_database", "current_date", "current_path", "current_schema", "current_time"),
        *("current_timestamp", "current_timezone", "current_user", "curdate", "getdate", "localtimestamp", "now"),
        *("input_file_block_length", "input_file_block_start", "input_file_name", "is_account_group_member"),
        *("java_method", "monotonically_increasing_id", "rand", "randn", "random", "randstr", "reflect"),
        *("session_user", "session_window", "shuffle", "spark_partition_id", "try_reflect", "uniform", "user"),
        *("uuid", "version"),
    }
)
"""Functions of which the same row has another value the next time, or elsewhere."""
_WITHOUT_PARENTHESES = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)
_AT_THE_TIME = re.compile(r"\b(unix_timestamp|to_unix_timestamp)\s*\(\s*\)", re.IGNORECASE)
_TEXT_OR_COMMENT = re.compile(r"('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED_CALL = re.compile(r"`((?:[^`]|``)*)`\s*\(")
_MOMENT = re.compile(r"\b(date|timestamp(?:_ntz|_ltz)?)\s*['\"]\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""A literal that Spark takes for the time at which it reads it."""
_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\s*\()?")
_OTHER_ROWS = frozenset({"select", "over"})


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str

    @property
    def keyword(self) -> str:
        """In lower case; empty unless it is a mark or a word without quotes."""
        return self.text.lower() if self.kind in ("word", "mark") else ""


END = Token("end", "the end")


def tokens(text: str) -> Iterator[Token]:
    """Raises NotUnderstood for characters that Spark may know, such as those of a comment."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or text.startswith(("--", "/*"), position):
            raise NotUnderstood(f"{text[position : position + 20]!r}")
        if found.lastgroup != "space":
            yield Token(str(found.lastgroup), found.group())
        position = found.end()
    yield END


def names_in(text: str) -> frozenset[str]:
    """All words and quoted names, in lower case: every column that the expression names is among them."""
    found = re.findall(r"`((?:[^`]|``)*)`|(\w+)", text)
    return frozenset((quoted.replace("``", "`") or word).lower() for quoted, word in found)


def refusal_of(text: str, columns: Collection[str] = ()) -> str | None:
    """Why no configuration may have this expression, whoever would evaluate it; None: it may. `columns`: names in
    lower case, which Spark finds before functions without parentheses."""
    if not text.strip():
        return "is empty; expected an expression of Spark SQL"
    bare = _QUOTED.sub(" ", text)
    if _AT_THE_TIME.search(bare):
        return _changes("unix_timestamp()")
    if (moment := _MOMENT.search(_TEXT_OR_COMMENT.sub(lambda found: found[1] or " ", text))) is not None:
        return _changes(f"{moment[1]} '{moment[2]}'")
    for name in _QUOTED_CALL.findall(_TEXT_OR_COMMENT.sub(" ", text)):
        if name.lower() in CHANGING:
            return _changes(f"{name}()")
    for word, call in _WORD.findall(bare):
        name = word.lower()
        if name in CHANGING and (call or (name in _WITHOUT_PARENTHESES and name not in columns)):
            return _changes(f"{name}()" if call else name)
        if name in _OTHER_ROWS and (call or name not in columns):
            return f"has {word.upper()}, which needs other rows; expected an expression over one row"
    return None


def _changes(name: str) -> str:
    return (
        f"has {name}, which has another value each time it is evaluated, so a batch that is read again would have "
        "other rows; expected an expression that depends on nothing but the row"
    )
