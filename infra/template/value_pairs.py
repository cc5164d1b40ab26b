"""Few combinations of values in which every pair of values occurs."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

Choice = tuple[str, str]
"""A name and one of its values."""


def combinations_with_all_pairs(values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """For each two names, each two of their values occur together. The number of combinations grows with the logarithm
    of the number of names, not exponentially as the product does: about 30 for 40 names of two or three values."""
    order = sorted(values, key=lambda name: (-len(values[name]), name))
    missing = {
        frozenset(((one, x), (other, y))): None
        for one, other in combinations(order, 2)
        for x in values[one]
        for y in values[other]
    }
    if len(order) < 2:
        yield from ({name: value} for name in order for value in values[name])
    while missing:
        chosen = dict(next(iter(missing)))
        for name in order:
            if name not in chosen:
                chosen[name] = max(values[name], key=lambda value: len(_covered((name, value), chosen, missing)))
        for pair in combinations(chosen.items(), 2):
            missing.pop(frozenset(pair), None)
        yield chosen


def _covered(choice: Choice, chosen: Mapping[str, str], missing: Mapping[frozenset[Choice], None]) -> list[Choice]:
    """Of what is chosen, that which forms a missing pair with this choice."""
    return [other for other in chosen.items() if frozenset((choice, other)) in missing]
