"""Spark's DDL for schemas, parsed without Spark: `id STRING NOT NULL, tags ARRAY<STRING> COMMENT 'from the app'`.

Accepts what pyspark's `StructType.fromDDL` accepts as a struct, with the same meaning, except types that cannot be
used. It follows Spark's grammar, since a general SQL parser accepts and refuses other texts than Spark does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

MAX_DEPTH = 50
"""Levels of nested types. Spark itself fails at a few hundred."""


class DdlError(ValueError):
    """The text is not a schema that can be used here."""


@dataclass(frozen=True, slots=True)
class Atomic:
    name: str
    """As Spark prints it: `bigint`, not LONG."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    element: "Type"

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    key: "Type"
    value: "Type"

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: "Type"
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{column.name}:{column.type}' for column in self.columns)}>"


Type = Atomic | Decimal | Array | Map | Struct


def parse(ddl: str, refused: Mapping[str, str] | None = None) -> Struct:
    """Raises DdlError at the first error that Spark would report, or type that cannot be used. `refused`: error texts
    of further types that cannot be used, by their keyword in upper case."""
    return _Parser(ddl, {**_UNSUPPORTED, **(refused or {})}).schema()


_ATOMIC = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "BYTE": "tinyint",
    "SMALLINT": "smallint",
    "SHORT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "LONG": "bigint",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "STRING": "string",
    "BINARY": "binary",
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_NESTED = ("ARRAY", "MAP", "STRUCT")
_UNSUPPORTED = {
    "CHAR": "CHAR is not supported; use STRING",
    "CHARACTER": "CHAR is not supported; use STRING",
    "VARCHAR": "VARCHAR is not supported; use STRING",
    "INTERVAL": "Delta stores no intervals; use BIGINT or STRING",
    "TIME": "Delta stores no time of day; use STRING",
    "VOID": "Delta stores no column without a type; remove the column",
    "VARIANT": "VARIANT is not supported; use STRING",
    "GEOGRAPHY": "Delta stores no geography; use STRING or BINARY",
    "GEOMETRY": "Delta stores no geometry; use STRING or BINARY",
}
_SUGGESTED = (*_ATOMIC, *_DECIMALS, *_NESTED)


# --- Tokens ---

_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+ | --(?:\\\n|[^\r\n])*\r?\n? )
    | (?P<comment> /\*(?!\+) )
    | (?P<raw> [rR]'[^']*' | [rR]"[^"]*" )
    | (?P<string> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<number> [0-9]+ (?: [lsyLSY] | (?:[eE][0-9]+)? (?:[fdFD]|[bB][dD])? ) (?![A-Za-z0-9_]) )
    | (?P<word> [A-Za-z0-9_]+ )
    | (?P<quoted> `(?:[^`]|``)*` )
    | (?P<mark> [<>(),:!] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\u(?P<u>[0-9A-Fa-f]{4})|\\U(?P<U>[0-9A-Fa-f]{8})|\\(?P<octal>[01][0-7]{2})|\\(?P<char>.)|(?P<twice>''|\"\")",
    re.DOTALL,
)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def keyword(self) -> str:
        """In upper case; empty unless the token is a mark or an unquoted word."""
        return self.text.upper() if self.kind in ("word", "mark") else ""


def _tokens(ddl: str) -> Iterator[_Token]:
    position = 0
    while position < len(ddl):
        match = _TOKEN.match(ddl, position)
        if match is None:
            raise DdlError(_bad_character(ddl, position))
        kind = str(match.lastgroup)
        if kind not in ("space", "comment"):
            yield _Token(kind, match.group(), position)
        position = _comment_end(ddl, position) if kind == "comment" else match.end()
    yield _Token("end", "the end", len(ddl))


def _bad_character(ddl: str, position: int) -> str:
    if ddl[position] in "'\"`":
        return f"the {ddl[position]} at character {position + 1} is not closed"
    return (
        f"found {ddl[position]!r} at character {position + 1}, which is not allowed there; "
        "quote names with other characters than A-Z, 0-9 and _ in backquotes"
    )


def _comment_end(ddl: str, start: int) -> int:
    """Index after a bracketed comment. Comments nest."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(ddl, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    raise DdlError(f"the comment that begins at character {start + 1} is not closed; expected */")


def _unescaped(match: re.Match[str], quote: str) -> str:
    if match["octal"]:
        return chr(int(match["octal"], 8))
    if match["twice"]:
        return quote if match["twice"] == quote * 2 else match["twice"]
    digits = match["u"] or match["U"]
    if digits:
        return chr(int(digits, 16))
    return _ESCAPED.get(match["char"], match["char"])


def _literal(token: _Token) -> str:
    if token.kind == "raw":
        return token.text[2:-1]
    try:
        return _ESCAPE.sub(lambda match: _unescaped(match, token.text[0]), token.text[1:-1])
    except (ValueError, OverflowError):
        raise DdlError(f"the text at character {token.start + 1} escapes a character that does not exist") from None


# --- Grammar ---


class _Parser:
    def __init__(self, ddl: str, refused: Mapping[str, str]) -> None:
        self._refused = refused
        self._tokens = list(_tokens(ddl))
        self._position = 0
        self._depth = 0

    def schema(self) -> Struct:
        in_struct = self._next.keyword == "STRUCT" and self._tokens[1].keyword == "<"
        schema = self._struct() if in_struct else Struct(self._columns())
        if self._next.kind != "end":
            raise self._unexpected("a comma and the next column, or the end")
        if not schema.columns:
            raise DdlError("the schema has no column; expected at least one, such as: id STRING")
        return schema

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._next
        self._position += 1
        return token

    def _accept(self, *keywords: str) -> bool:
        """Consume the keywords if they come next, all of them and in this order."""
        upcoming = self._tokens[self._position : self._position + len(keywords)]
        if tuple(token.keyword for token in upcoming) != keywords:
            return False
        self._position += len(keywords)
        return True

    def _expect(self, keyword: str, where: str) -> None:
        if not self._accept(keyword):
            raise self._unexpected(f"`{keyword}` {where}")

    def _unexpected(self, expected: str, hint: str = "") -> DdlError:
        token = self._next
        found = "the end" if token.kind == "end" else f"{token.text[:40]!r} at character {token.start + 1}"
        return DdlError(f"found {found}, expected {expected}{hint}")

    def _columns(self) -> tuple[Column, ...]:
        columns = [self._column()]
        while self._accept(","):
            columns.append(self._column())
        return tuple(columns)

    def _column(self) -> Column:
        name = self._name()
        self._accept(":")
        kind = self._type(f"a type for column `{name}`")
        nullable = not (self._accept("NOT", "NULL") or self._accept("!", "NULL"))
        return Column(name, kind, nullable, self._comment())

    def _name(self) -> str:
        if self._next.kind not in ("word", "quoted"):
            raise self._unexpected("a column's name")
        token = self._take()
        return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text

    def _comment(self) -> str | None:
        if not self._accept("COMMENT"):
            return None
        if self._next.kind not in ("string", "raw"):
            raise self._unexpected("the comment's text in quotes")
        texts = []
        while self._next.kind in ("string", "raw"):
            texts.append(_literal(self._take()))
        return "".join(texts)

    def _type(self, expected: str) -> Type:
        keyword = self._next.keyword
        if keyword in self._refused:
            raise DdlError(f"found {self._next.text} at character {self._next.start + 1}: {self._refused[keyword]}")
        if keyword in _NESTED:
            return self._nested(keyword)
        if keyword in _DECIMALS:
            return self._decimal()
        if keyword not in _ATOMIC:
            close = get_close_matches(keyword, _SUGGESTED, n=1)
            raise self._unexpected(expected, f"; did you mean {close[0]}?" if close else "")
        self._take()
        return self._atomic(keyword)

    def _atomic(self, keyword: str) -> Atomic:
        if keyword == "TIMESTAMP" and self._accept("WITHOUT", "TIME", "ZONE"):
            return Atomic("timestamp_ntz")
        if keyword == "STRING" and self._next.keyword == "COLLATE":
            raise self._unexpected("a STRING without COLLATE, which Delta does not store")
        return Atomic(_ATOMIC[keyword])

    def _decimal(self) -> Decimal:
        start = self._take().start
        if not self._accept("("):
            return Decimal(10, 0)
        precision = self._number()
        scale = self._number() if self._accept(",") else 0
        self._expect(")", "after the decimal's digits")
        if scale > precision or precision > 38:
            raise DdlError(
                f"found decimal({precision},{scale}) at character {start + 1}; expected at most 38 digits, "
                "and a scale that is not above the precision"
            )
        return Decimal(precision, scale)

    def _number(self) -> int:
        if self._next.kind != "number" or not self._next.text.isdigit():
            raise self._unexpected("a number of digits")
        digits = self._take().text.lstrip("0")
        return int(digits[:4] or "0")  # a number of five digits is too large in any case

    def _nested(self, keyword: str) -> Type:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DdlError(f"the type at character {self._next.start + 1} is nested deeper than {MAX_DEPTH}")
        kind = self._array() if keyword == "ARRAY" else self._map() if keyword == "MAP" else self._struct()
        self._depth -= 1
        return kind

    def _array(self) -> Array:
        self._take()
        self._expect("<", "after ARRAY, as in ARRAY<STRING>")
        element = self._type("the type of the array's elements")
        self._expect(">", "after the type of the array's elements")
        return Array(element)

    def _map(self) -> Map:
        self._take()
        self._expect("<", "after MAP, as in MAP<STRING, INT>")
        key = self._type("the type of the map's keys")
        self._expect(",", "between the types of the map's keys and values")
        value = self._type("the type of the map's values")
        self._expect(">", "after the type of the map's values")
        return Map(key, value)

    def _struct(self) -> Struct:
        self._take()
        self._expect("<", "after STRUCT, as in STRUCT<id: INT>")
        columns = () if self._next.keyword == ">" else self._columns()
        self._expect(">", "or a comma after the struct's last column")
        return Struct(columns)
