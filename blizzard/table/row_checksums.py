"""A checksum of row numbers that does not depend on their order: one number more, less or exchanged changes it. It is
the sum of a hash of each number, so sets add up."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MODULUS = 1 << 64
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Of splitmix64 (Steele, Lea and Flood, 2014), a bijection of 64 bits."""


def checksum_of(numbers: Sequence[int] | Any, salt: int) -> int:
    """`salt`: of 64 bits, which nobody can know who chooses the numbers."""
    return total(mixed(pa.array(numbers, pa.int64()), salt))


def checksum_of_range(first: int, last: int, salt: int) -> int:
    """Of each number from `first` to `last`, both inclusive."""
    return total(mixed(pa.arange(first, last + 1), salt)) if first <= last else 0


def joined(*checksums: int) -> int:
    """Of what several sets have together."""
    return sum(checksums) % _MODULUS


def mixed(numbers: pa.Array, salt: int) -> pa.Array:
    """The hash of each."""
    word = pc.add(pc.multiply(numbers.view(pa.uint64()), _word(_STEP)), _word(salt))
    for bits, factor in ((30, _FIRST), (27, _SECOND)):
        word = pc.multiply(_folded(word, bits), _word(factor))
    return _folded(word, 31)


def running(hashes: pa.Array) -> pa.Array:
    """At each place the checksum of all up to it."""
    return pc.cumulative_sum(hashes)


def total(hashes: pa.Array) -> int:
    return int(pc.sum(hashes).as_py() or 0)


def between(before: int, through: int) -> int:
    """Of what lies behind one place and up to another, by the running checksums of both."""
    return (through - before) % _MODULUS


def _folded(word: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(word, pc.shift_right(word, _word(bits)))


def _word(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())
