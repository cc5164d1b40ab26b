"""Keys that differ in case only: those of one field, as several producers spell it."""

from collections.abc import Mapping, Sequence

from blizzard.infer.observed import Observed, is_under
from blizzard.infer.renamed import folded


def spellings(observed: Observed) -> Sequence[Sequence[str]]:
    """Of each field of the records that has several, the first one first. None has any if one record has two spellings
    of some name: then they are two fields, and the source cannot ignore case."""
    by_name: dict[str, list[str]] = {}
    for column in observed.keys().columns:
        by_name.setdefault(column.name.lower(), []).append(column.name)
    return [] if observed.doubled else [names for names in by_name.values() if len(names) > 1]


def ignoring_case(observed: Observed, found: Sequence[Sequence[str]]) -> Observed:
    """The same records by the first one of the `spellings`."""
    first = {name: names[0] for names in found for name in names[1:]}
    keys = None if observed.found is None else folded(observed.found)
    joined = Observed(
        observed.records, observed.broken, found=keys, is_text=observed.is_text, is_typed=observed.is_typed
    )
    for path, seen in observed.fields.items():
        joined.join(Observed(fields={_under(path, first): seen}))
    return joined


def _under(path: str, first: Mapping[str, str]) -> str:
    for name, other in first.items():
        if is_under(path, name):
            return other + path[len(name) :]
    return path
