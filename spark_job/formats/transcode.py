"""Text of any encoding as UTF-8, piece by piece."""

import codecs
from typing import NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault, Readable
from spark_job.formats.reading import BOM, read_all

_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_UTF8 = "utf-8"


class Utf8Stream:
    """The text of a stream as UTF-8, without a byte order mark at its start. Reading raises FileFault for bytes that
    are not of the encoding, and for NUL, which is no text."""

    def __init__(self, stream: Readable, encoding: str, *, has_option: bool = False) -> None:
        """`has_option`: whether the source can name another encoding."""
        self._stream = stream
        self._has_option = has_option
        self._encoding = codecs.lookup(encoding).name
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._at = 0
        self._first = True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return read_all(self)
        while True:
            chunk = self._stream.read(size)
            text = self._utf8(chunk)
            if b"\0" in text:
                self._refuse_nul()
            if text and self._first:
                text, self._first = text.removeprefix(BOM), False
            if text or not chunk:
                return text

    def _utf8(self, chunk: bytes) -> bytes:
        if self._encoding == _UTF8 and chunk and chunk.isascii() and not self._decoder.getstate()[0]:
            self._at += len(chunk)
            return chunk
        waiting = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            self._refuse(chunk, self._at - waiting + error.start, error.reason)
        except UnicodeError as error:  # utf-16 and utf-32 without a byte order mark
            self._refuse(chunk, self._at - waiting, str(error))
        self._at += len(chunk)
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            self._refuse(chunk, self._at - len(chunk), f"half of a surrogate pair: {error.reason}")

    def _refuse(self, chunk: bytes, at: int, why: str) -> NoReturn:
        reason = f"not {self._encoding}: at byte {at:,}: {why}"
        found = next((name for mark, name in _MARKS.items() if not self._at and chunk.startswith(mark)), None)
        if found is not None:
            reason += f"; it begins with the byte order mark of {found}"
            reason += f", so set `encoding: {found}`" if self._has_option else f"; expected {self._encoding}"
        raise FileFault(Stage.PARSE, reason)

    def _refuse_nul(self) -> NoReturn:
        reason = f"it holds NUL bytes, so it is no text in {self._encoding}; is it utf-16, or another format?"
        raise FileFault(Stage.PARSE, reason)
