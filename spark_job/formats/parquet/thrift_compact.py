"""Thrift's compact protocol, in which Parquet's footer and the headers of its pages are written."""

from typing import Any

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(14)
_FIXED_BYTES = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}
_MAX_DEPTH = 32
_VARINT_BYTES = 10

Struct = dict[int, Any]
"""Its fields by their numbers: integers, bytes, lists and structs; everything else is None."""


class Invalid(Exception):
    """These bytes are no struct."""


class CompactReader:
    """Reads structs from bytes. Raises IndexError at the end of the data, and Invalid. `at`: the place behind what was
    read."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def struct(self, depth: int = 0, *, field: int = 0) -> Struct:
        """`field`: the number of the field before."""
        found = Struct()
        while (head := self.byte()) & 15 != _STOP:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            # A boolean of a struct is in the head.
            found[field] = None if kind in (_TRUE, _FALSE) else self.value(kind, depth + 1)
        return found

    def value(self, kind: int, depth: int = 1) -> Any:
        if depth > _MAX_DEPTH:
            raise Invalid
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self.varint())
        if kind == _STRUCT:
            return self.struct(depth)
        if kind in (_LIST, _SET):
            head = self.byte()
            return self._each(self.varint() if head >> 4 == 15 else head >> 4, (head & 15,), depth)
        if kind == _MAP:
            count = self.varint()
            kinds = self.byte() if count else 0
            return self._each(count, (kinds >> 4, kinds & 15), depth)
        if kind not in _FIXED_BYTES:
            raise Invalid
        self._bytes(_FIXED_BYTES[kind])
        return None

    def _each(self, count: int, kinds: tuple[int, ...], depth: int) -> list[Any]:
        if count > len(self.data):
            raise Invalid
        # A boolean of a list takes a byte.
        kinds = tuple(_BYTE if kind in (_TRUE, _FALSE) else kind for kind in kinds)
        return [self.value(kind, depth + 1) for _ in range(count) for kind in kinds]

    def _bytes(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise IndexError
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def varint(self) -> int:
        value = 0
        for place in range(_VARINT_BYTES):
            byte = self.byte()
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise Invalid

    def _zigzag(self) -> int:
        return from_zigzag(self.varint())


def from_zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
