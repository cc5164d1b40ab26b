"""Spark's DDL for schemas, parsed without Spark: `id STRING NOT NULL, tags ARRAY<STRING> COMMENT 'from the app'`.

Accepts what pyspark's `StructType.fromDDL` takes for a struct and reads the same from it, less the types that JSON or
Delta cannot hold. A general SQL parser takes and refuses other things than Spark, so this one follows Spark's grammar.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

MAX_DEPTH = 50
"""Types within types. Spark itself gives up at some hundreds."""


class DdlError(ValueError):
    """The text is no schema that can be used here."""


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


def parse(ddl: str) -> Struct:
    """Raises DdlError at the first thing that Spark would not take."""
    return _Parser(ddl).schema()


def complaints(schema: Struct) -> list[str]:
    """What Spark can parse and yet cannot read from JSON, or Delta cannot store; each with the column's path."""
    return [*_struct_complaints(schema, "")]


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
_UNUSABLE = {
    "CHAR": "Spark reads no CHAR from JSON; use STRING",
    "CHARACTER": "Spark reads no CHAR from JSON; use STRING",
    "VARCHAR": "Spark reads no VARCHAR from JSON; use STRING",
    "INTERVAL": "Delta stores no intervals; use BIGINT or STRING",
    "TIME": "Delta stores no time of day; use STRING",
    "VOID": "Delta stores no column without a type; leave the column out",
    "VARIANT": "VARIANT is not supported; use STRING, which keeps a JSON value as its text",
    "GEOGRAPHY": "Delta stores no geography; use STRING or BINARY",
    "GEOMETRY": "Delta stores no geometry; use STRING or BINARY",
}
_SUGGESTED = (*_ATOMIC, *_DECIMALS, *_NESTED)


# --- Words ---

_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+ | --(?:\\\n|[^\r\n])*\r?\n? )
    | (?P<remark> /\*(?!\+) )
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
        """Upper-cased; empty unless it is a mark or an unquoted word."""
        return self.text.upper() if self.kind in ("word", "mark") else ""


def _tokens(ddl: str) -> Iterator[_Token]:
    position = 0
    while position < len(ddl):
        match = _TOKEN.match(ddl, position)
        if match is None:
            raise DdlError(_unreadable(ddl, position))
        kind = str(match.lastgroup)
        if kind not in ("space", "remark"):
            yield _Token(kind, match.group(), position)
        position = _remark_end(ddl, position) if kind == "remark" else match.end()
    yield _Token("end", "the end", len(ddl))


def _unreadable(ddl: str, position: int) -> str:
    if ddl[position] in "'\"`":
        return f"the {ddl[position]} at character {position + 1} is not closed"
    return (
        f"found {ddl[position]!r} at character {position + 1}, which cannot stand there; "
        "put a name with other characters than A-Z, 0-9 and _ between backquotes"
    )


def _remark_end(ddl: str, start: int) -> int:
    """Index behind a bracketed comment; they nest."""
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
    def __init__(self, ddl: str) -> None:
        self._tokens = list(_tokens(ddl))
        self._at = 0
        self._depth = 0

    def schema(self) -> Struct:
        whole = self._next.keyword == "STRUCT" and self._tokens[1].keyword == "<"
        schema = self._struct() if whole else Struct(self._columns())
        if self._next.kind != "end":
            raise self._unexpected("a comma and the next column, or the end")
        if not schema.columns:
            raise DdlError("the schema has no column; expected at least one, such as: id STRING")
        return schema

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _skip(self, *keywords: str) -> bool:
        """Take the keywords if all of them come next."""
        coming = self._tokens[self._at : self._at + len(keywords)]
        if tuple(token.keyword for token in coming) != keywords:
            return False
        self._at += len(keywords)
        return True

    def _expect(self, keyword: str, where: str) -> None:
        if not self._skip(keyword):
            raise self._unexpected(f"`{keyword}` {where}")

    def _unexpected(self, expected: str, hint: str = "") -> DdlError:
        token = self._next
        found = "the end" if token.kind == "end" else f"{token.text[:40]!r} at character {token.start + 1}"
        return DdlError(f"found {found}, expected {expected}{hint}")

    def _columns(self) -> tuple[Column, ...]:
        columns = [self._column()]
        while self._skip(","):
            columns.append(self._column())
        return tuple(columns)

    def _column(self) -> Column:
        name = self._name()
        self._skip(":")
        kind = self._type(f"a type for column `{name}`")
        nullable = not (self._skip("NOT", "NULL") or self._skip("!", "NULL"))
        return Column(name, kind, nullable, self._comment())

    def _name(self) -> str:
        if self._next.kind not in ("word", "quoted"):
            raise self._unexpected("a column's name")
        token = self._take()
        return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text

    def _comment(self) -> str | None:
        if not self._skip("COMMENT"):
            return None
        if self._next.kind not in ("string", "raw"):
            raise self._unexpected("the comment's text in quotes")
        texts = []
        while self._next.kind in ("string", "raw"):
            texts.append(_literal(self._take()))
        return "".join(texts)

    def _type(self, expected: str) -> Type:
        keyword = self._next.keyword
        if keyword in _UNUSABLE:
            raise DdlError(f"found {self._next.text} at character {self._next.start + 1}: {_UNUSABLE[keyword]}")
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
        if keyword == "TIMESTAMP" and self._skip("WITHOUT", "TIME", "ZONE"):
            return Atomic("timestamp_ntz")
        if keyword == "STRING" and self._next.keyword == "COLLATE":
            raise self._unexpected("a STRING without COLLATE, which Delta does not store")
        return Atomic(_ATOMIC[keyword])

    def _decimal(self) -> Decimal:
        start = self._take().start
        if not self._skip("("):
            return Decimal(10, 0)
        precision = self._number()
        scale = self._number() if self._skip(",") else 0
        self._expect(")", "behind the decimal's digits")
        if scale > precision or precision > 38:
            raise DdlError(
                f"found decimal({precision},{scale}) at character {start + 1}; expected at most 38 digits, "
                "and no more of them behind the point than there are"
            )
        return Decimal(precision, scale)

    def _number(self) -> int:
        if self._next.kind != "number" or not self._next.text.isdigit():
            raise self._unexpected("a number of digits")
        digits = self._take().text.lstrip("0")
        return int(digits[:4] or "0")  # more digits than four are too many in any case

    def _nested(self, keyword: str) -> Type:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DdlError(f"the type at character {self._next.start + 1} is nested deeper than {MAX_DEPTH}")
        kind = self._array() if keyword == "ARRAY" else self._map() if keyword == "MAP" else self._struct()
        self._depth -= 1
        return kind

    def _array(self) -> Array:
        self._take()
        self._expect("<", "behind ARRAY, as in ARRAY<STRING>")
        element = self._type("the type of the array's elements")
        self._expect(">", "behind the type of the array's elements")
        return Array(element)

    def _map(self) -> Map:
        self._take()
        self._expect("<", "behind MAP, as in MAP<STRING, INT>")
        key = self._type("the type of the map's keys")
        self._expect(",", "between the types of the map's keys and values")
        value = self._type("the type of the map's values")
        self._expect(">", "behind the type of the map's values")
        return Map(key, value)

    def _struct(self) -> Struct:
        self._take()
        self._expect("<", "behind STRUCT, as in STRUCT<id: INT>")
        columns = () if self._next.keyword == ">" else self._columns()
        self._expect(">", "or a comma behind the struct's last column")
        return Struct(columns)


# --- What Delta and JSON add ---


def _struct_complaints(struct: Struct, path: str) -> Iterator[str]:
    seen: dict[str, str] = {}
    for column in struct.columns:
        shown = column.name if column.name.isprintable() else ascii(column.name)
        place = f"{path}.{shown}" if path else shown
        yield from name_complaints(column.name, place)
        twin = seen.get(column.name.lower())
        if twin is not None:
            yield f"column `{place}` is there twice ({twin!r} and {column.name!r}; case is no difference); rename one"
        seen[column.name.lower()] = column.name
        yield from _type_complaints(column.type, place)
    if not struct.columns:
        yield f"column `{path}` is a struct without columns, which Delta cannot store; give it one, or leave it out"


def name_complaints(name: str, place: str) -> Iterator[str]:
    if not name:
        yield f"column `{place}` has no name; give it one"
    odd = sorted(set(name) & set(" ,;{}()\n\t="))
    if odd:
        yield f"column `{place}` has {' '.join(map(repr, odd))} in its name, which Delta cannot store; rename it"


def _type_complaints(kind: Type, place: str) -> Iterator[str]:
    match kind:
        case Struct():
            yield from _struct_complaints(kind, place)
        case Array(element):
            yield from _type_complaints(element, f"{place}.element")
        case Map(key, value):
            if key != Atomic("string"):
                yield f"column `{place}` is a map with keys of type {key}; JSON's are text: use STRING"
            yield from _type_complaints(value, f"{place}.value")
        case Decimal(0, _):
            yield f"column `{place}` is a decimal of 0 digits; give it 1 to 38"
