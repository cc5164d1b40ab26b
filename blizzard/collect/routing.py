"""Finds the source of an object."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from blizzard.errors import ConfigError

S3_SCHEMES = ("s3://", "s3a://")


@dataclass(frozen=True, slots=True)
class Route:
    """Where a source's files are: its `uri`, which ends in `/`, and whether a relative path matches its pattern."""

    source_id: str
    uri: str
    matches: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Routed:
    """`path` is relative to the source's prefix."""

    source_id: str
    path: str


class Router:
    """Finds a source by bucket, longest prefix and pattern. A lookup takes one step for each folder of the key.

    Sources outside S3 get no events and are skipped.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_place: dict[tuple[str, str], Route] = {}
        for route in routes:
            place = _place(route.uri)
            if place is not None and self._by_place.setdefault(place, route) is not route:
                other = self._by_place[place].source_id
                raise ConfigError(
                    [f"sources {other} and {route.source_id} both have the uri {route.uri}; remove one of them"]
                )

    def find(self, bucket: str, key: str) -> Routed | None:
        """None when no source contains the object, or the pattern of the nearest source does not match."""
        end = len(key)
        while end >= 0:
            end = key.rfind("/", 0, end)
            route = self._by_place.get((bucket, key[: end + 1]))
            if route is not None:
                path = key[end + 1 :]
                return Routed(route.source_id, path) if path and route.matches(path) else None
        return None


def _place(uri: str) -> tuple[str, str] | None:
    """Bucket and key prefix; None when the URI is not on S3."""
    scheme = next((scheme for scheme in S3_SCHEMES if uri.startswith(scheme)), None)
    if scheme is None:
        return None
    bucket, _, prefix = uri.removeprefix(scheme).partition("/")
    return bucket, prefix
