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
    """Reads structs from bytes. Raises IndexError at the end of the data, and Invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        """The place behind what was read."""

    def struct(self, depth: int = 0) -> Struct:
        found, field = Struct(), 0
        while (head := self._byte()) & 15 != _STOP:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            # A boolean of a struct is in the head.
            found[field] = None if kind in (_TRUE, _FALSE) else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise Invalid
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.struct(depth)
        if kind in (_LIST, _SET):
            head = self._byte()
            return self._each(self._varint() if head >> 4 == 15 else head >> 4, (head & 15,), depth)
        if kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            return self._each(count, (kinds >> 4, kinds & 15), depth)
        if kind not in _FIXED_BYTES:
            raise Invalid
        self._bytes(_FIXED_BYTES[kind])
        return None

    def _each(self, count: int, kinds: tuple[int, ...], depth: int) -> list[Any]:
        if count > len(self._data):
            raise Invalid
        # A boolean of a list takes a byte.
        kinds = tuple(_BYTE if kind in (_TRUE, _FALSE) else kind for kind in kinds)
        return [self._value(kind, depth + 1) for _ in range(count) for kind in kinds]

    def _bytes(self, size: int) -> bytes:
        if self.at + size > len(self._data):
            raise IndexError
        self.at += size
        return self._data[self.at - size : self.at]

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        value = 0
        for place in range(_VARINT_BYTES):
            byte = self._byte()
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise Invalid

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
