"""Finds the array of records inside a JSON object, by the names of the members that lead to it."""

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.json.tokens import is_scalar, refuse, value_of
from spark_job.formats.protocol import FileFault, Limits

_TOKEN = re.compile(rb'[ \t\r\n]*+(?:([{}\[\],:])|("(?:[^"\\]|\\.)*+")|([^\s{}\[\],:"]++))', re.DOTALL)
_BLANKS = b" \t\r\n"


class Tokens:
    """The tokens of a JSON text that comes in pieces."""

    def __init__(self, pieces: Iterator[bytes], limits: Limits) -> None:
        self._pieces = pieces
        self._limits = limits
        self._text = b""
        self._at = 0
        self._unread: bytes | None = None

    def unread(self, token: bytes) -> None:
        """The next token is this one again."""
        self._unread = token

    def next(self) -> bytes:
        """b"" at the end. Raises FileFault for what is no token."""
        if self._unread is not None:
            token, self._unread = self._unread, None
            return token
        while True:
            match = _TOKEN.match(self._text, self._at)
            # A number may go on in the next piece.
            if match is not None and (match[3] is None or match.end() < len(self._text)):
                self._at = match.end()
                return match[match.lastindex or 0]
            piece = next(self._pieces, b"")
            if not piece:
                return self._last(match)
            self._text, self._at = self._text[self._at :] + piece, 0
            if len(self._text) > self._limits.max_record_bytes + len(piece):
                refuse(f"a token has more than {self._limits.max_record_bytes} bytes")

    def take_rest(self) -> bytes:
        """What is read and no token yet; the tokens go on with what is given back."""
        rest, self._text, self._at = self._text[self._at :], b"", 0
        return rest

    def give_back(self, text: bytes) -> None:
        self._text, self._at = text, 0

    def _last(self, match: "re.Match[bytes] | None") -> bytes:
        rest = self._text[self._at :].strip(_BLANKS)
        self._at = len(self._text)
        if match is None and rest:
            refuse("truncated: it ends within a string")
        return rest


class MemberPath:
    """The way to the array of one text; `names` lead to it from the outermost object."""

    def __init__(self, tokens: Tokens, names: Sequence[str]) -> None:
        self._tokens = tokens
        self._names = names
        self._open: list[Iterator[str]] = []
        """The objects on the way, each after the member that was followed."""

    def enter(self) -> None:
        """Up to the first byte behind the array's bracket. Raises FileFault if there is none."""
        self._expect(b"{", ())
        for level, name in enumerate(self._names, 1):
            members = self._members()
            self._find(members, name, level)
            self._open.append(members)
            self._expect(b"[" if level == len(self._names) else b"{", self._names[:level])

    def leave(self) -> None:
        """From behind the array to the end of the text. Raises FileFault if that is not well formed."""
        for level in range(len(self._names), 0, -1):
            for member in self._open.pop():
                if member == self._names[level - 1]:
                    _refuse_json(f"it has {'.'.join(self._names[:level])} twice")
                self._skip_value()
        if rest := self._tokens.next():
            refuse(f"found {_shown(rest)} after its end")

    def _find(self, members: Iterator[str], name: str, level: int) -> None:
        for member in members:
            if member == name:
                return
            self._skip_value()
        _refuse_json(f"it has no {'.'.join(self._names[:level])}, where `records` looks for the records")

    def _expect(self, token: bytes, names: Sequence[str]) -> None:
        found = self._tokens.next()
        if found != token:
            wanted = "an array of records" if token == b"[" else "an object"
            at = f" at {'.'.join(names)}" if names else ""
            is_json = found in (b"{", b"[") or is_scalar(found)
            (_refuse_json if is_json else refuse)(f"expected {wanted}{at}, found {_shown(found)}")

    def _members(self) -> Iterator[str]:
        """The names of an object's members. Whoever takes one takes its value from the tokens, too."""
        token = self._tokens.next()
        while token != b"}":
            if not token.startswith(b'"'):
                refuse(f"expected the name of a member, found {_shown(token)}")
            colon = self._tokens.next()
            if colon != b":":
                refuse(f"expected a colon after {_shown(token)}, found {_shown(colon)}")
            yield _text(token)
            token = self._tokens.next()
            if token == b",":
                token = self._tokens.next()
                if token == b"}":
                    refuse("expected the name of a member after a comma, found '}'")
            elif token != b"}":
                refuse(f"expected a comma between two members, found {_shown(token)}")

    def _elements(self) -> Iterator[str]:
        """Stops before each value of an array, which whoever asks takes from the tokens."""
        token = self._tokens.next()
        while token != b"]":
            self._tokens.unread(token)
            yield ""
            token = self._tokens.next()
            if token == b",":
                token = self._tokens.next()
                if token == b"]":
                    refuse("expected another value after a comma, found ']'")
            elif token != b"]":
                refuse(f"expected a comma between two values, found {_shown(token)}")

    def _skip_value(self) -> None:
        """However deep it is nested."""
        opened = [self._begin_value()]
        while opened:
            if next(opened[-1], None) is None:
                opened.pop()
            else:
                opened.append(self._begin_value())

    def _begin_value(self) -> Iterator[str]:
        token = self._tokens.next()
        if token == b"{":
            return self._members()
        if token == b"[":
            return self._elements()
        if not token or not is_scalar(token):
            refuse(f"expected a value, found {_shown(token)}")
        return iter(())


def _refuse_json(why: str) -> NoReturn:
    """Of a file that may well be JSON, but has no records at their place."""
    raise FileFault(Stage.PARSE, why)


def _text(token: bytes) -> str:
    try:
        return str(value_of(token))
    except ValueError as error:
        refuse(f"{_shown(token)}: {error}")


def _shown(token: bytes) -> str:
    return repr(token[:40].decode(errors="replace")) if token else "the end of the file"
