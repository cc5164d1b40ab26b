"""Which source an object belongs to."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.collect.routing import Route, Routed, Router
from blizzard.errors import ConfigError


def anything(path: str) -> bool:
    return True


def router(*uris: str) -> Router:
    """One source for each URI, named after it, that matches every path."""
    return Router(Route(uri, uri, anything) for uri in uris)


def test_the_path_is_relative_to_the_prefix_of_the_source() -> None:
    assert router("s3://b/raw/").find("b", "raw/d=1/x.gz") == Routed("s3://b/raw/", "d=1/x.gz")


def test_an_object_elsewhere_has_no_source() -> None:
    routes = router("s3://b/raw/")
    assert routes.find("other", "raw/x") is None
    assert routes.find("b", "rawer/x") is None
    assert routes.find("b", "x") is None
    assert Router([]).find("b", "x") is None


def test_a_source_may_be_a_whole_bucket() -> None:
    assert router("s3://b/").find("b", "d/x") == Routed("s3://b/", "d/x")
    assert router("s3://b/").find("b", "/x") == Routed("s3://b/", "/x")


def test_the_longest_prefix_wins() -> None:
    routes = router("s3://b/", "s3://b/a/", "s3://b/a/deep/er/")
    assert routes.find("b", "a/deep/x") == Routed("s3://b/a/", "deep/x")
    assert routes.find("b", "a/deep/er/x") == Routed("s3://b/a/deep/er/", "x")


def test_an_object_that_the_pattern_does_not_match_has_no_source() -> None:
    routes = Router([Route("p:s", "s3://b/raw/", lambda path: path.endswith(".gz"))])
    assert routes.find("b", "raw/x.gz") == Routed("p:s", "x.gz")
    assert routes.find("b", "raw/x.tmp") is None


def test_the_prefix_itself_is_not_a_file() -> None:
    assert router("s3://b/raw/").find("b", "raw/") is None


def test_s3_and_s3a_are_the_same_place() -> None:
    assert router("s3a://b/raw/").find("b", "raw/x") == Routed("s3a://b/raw/", "x")
    with pytest.raises(ConfigError, match="both have"):
        router("s3a://b/raw/", "s3://b/raw/")


def test_sources_outside_s3_get_no_events() -> None:
    routes = router("/var/landing/", "file:///var/landing/", "s3://b/raw/")
    assert routes.find("var", "landing/x") is None
    assert routes.find("b", "raw/x") is not None


def test_a_lookup_does_not_scan_all_sources() -> None:
    routes = router(*(f"s3://b/source-{i}/" for i in range(20_000)))
    began = time.thread_time()
    for _ in range(2_000):
        routes.find("b", "source-19999/a/b/x")
    assert time.thread_time() - began < 1, "40 million comparisons take several seconds, 2,000 lookups milliseconds"


PARTS = st.lists(st.sampled_from("abc"), max_size=3).map("".join)
PREFIXES = st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=3).map(
    lambda parts: "".join(f"{p}/" for p in parts)
)


@given(st.sets(PREFIXES), st.lists(PARTS, min_size=1, max_size=5).map("/".join))
def test_a_lookup_gives_the_same_result_as_a_scan_of_all_sources(prefixes: set[str], key: str) -> None:
    found = router(*(f"s3://b/{prefix}" for prefix in prefixes)).find("b", key)
    fitting = max((prefix for prefix in prefixes if key.startswith(prefix)), key=len, default=None)
    wanted = fitting is not None and len(fitting) < len(key)
    assert found == (Routed(f"s3://b/{fitting}", key[len(fitting or "") :]) if wanted else None)
