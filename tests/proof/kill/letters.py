"""The dead letters of a source against what its objects hold now: each fault has one, and nothing else has any."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from infra.local.demo.reconcile import Source
from tests.proof.kill_calls.account import dead_of
from tests.proof.places import Place


def wrong_letters(
    letters: Iterable[Mapping[str, Any]],
    source: Source,
    etags: Mapping[str, str],
    overwritten: Collection[str] = (),
    read_anew: Collection[str] = (),
) -> Iterator[str]:
    """What is wrong. `etags`: of the objects as they are; a letter of another one says nothing of these, and is there
    for files alone that were `overwritten`. `read_anew`: files that operators had replaced: one who dies before the
    commit leaves the letters of his attempt, and those of before stay open."""
    counted = Counter(map(dead_of, letters))
    now = {(path, row) for path, row, etag in counted if etags.get(path) == etag}
    wanted = {*source.bad_records, *((path, None) for path in source.bad_files)}
    found = {
        "neither in the table nor dead-lettered": wanted - now,
        "dead-lettered, and no fault": now - wanted,
        "dead-lettered twice": {one for one, times in counted.items() if times > 1 and one[0] not in read_anew},
        "dead-lettered with a content that never was": {
            (path, row, etag) for path, row, etag in counted if etags.get(path) != etag and path not in overwritten
        },
    }
    for what, those in found.items():
        if those:
            yield f"{what}: {sorted(those, key=str)[:5]}"


def etags_of(place: Place, folder: str) -> dict[str, str]:
    """Of a source's objects, by path."""
    return {info.key: info.etag for info in place.landing(folder).list()}
