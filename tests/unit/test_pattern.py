"""Which paths a glob matches."""

import re
import time
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.paths.pattern import Pattern, literal


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**", "a.json"),
        ("**", "x/y/z/a.json"),
        ("**", "x/_temporary/.a"),
        ("**/*.gz", "a.gz"),
        ("**/*.gz", "x/y/a.gz"),
        ("**/*.ndjson.gz", "date=2024-01-28/1706450400-01926abc.ndjson.gz"),
        ("x/**/a", "x/a"),
        ("x/**/a", "x/y/z/a"),
        ("x/**", "x/y/z"),
        ("**/y/**/z", "x/y/z"),
        ("**/y/**/z", "y/y/y/z/z"),
        ("**/a*/b*/**/c", "a1/a2/b1/c"),
        ("**/**/**", "a"),
        ("*", "a.json"),
        ("*", "new\nline\r.json"),
        ("a*b*c", "abbc"),
        ("a*a", "aa"),
        ("*a*b", "xaxxaxb"),
        ("?.gz", "é.gz"),
        ("?.gz", "😀.gz"),
        ("?", "\n"),
        ("[abc].gz", "b.gz"),
        ("[a-c0-9]x", "7x"),
        ("[!a-c]x", "dx"),
        ("[^a-c]x", "dx"),
        ("[]]x", "]x"),
        ("[!]]x", "ax"),
        ("[a-]x", "-x"),
        ("[*?{,}[]x", "{x"),
        ("*.{json,ndjson}{,.gz}", "a.ndjson"),
        ("*.{json,ndjson}{,.gz}", "a.json.gz"),
        ("{a/b,c}/*", "a/b/x"),
        ("{a,{b,c}d}", "cd"),
        ("{a}", "a"),
        ("{**/,}x", "y/x"),
        ("a b+%41(c)|^$.gz", "a b+%41(c)|^$.gz"),
        ("**/x", "a//x"),
    ],
)
def test_a_pattern_matches_a_path(glob: str, path: str) -> None:
    assert Pattern(glob).matches(path)
    assert has_its_expression(Pattern(glob), path)


def has_its_expression(pattern: Pattern, path: str) -> bool:
    """Whether the bytes of a path have it, as a whole."""
    encoded = pa.array([path.encode("utf-8", "surrogatepass")], pa.binary())
    (found,) = pc.match_substring_regex(encoded, rf"\A(?:{pattern.bytes_expression()})\z").to_pylist()
    return bool(found)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*", "x/a"),
        ("*.gz", "x/a.gz"),
        ("**/*.gz", "a.gz/b"),
        ("**/*.gz", "a.gzip"),
        ("**/*.gz", "a.GZ"),
        ("x/**", "x"),
        ("x/**/a", "xa"),
        ("x/*/a", "x/a"),
        ("x/*/a", "x/y/z/a"),
        ("**/y/**/z", "y"),
        ("**/a/a/**/a/b/**/c", "a/a/b/c"),
        ("a/**/a", "a"),
        ("a*a", "a"),
        ("?", ""),
        ("?", "/"),
        ("x?a", "x/a"),
        ("[!a]", "/"),
        ("[a-c]x", "dx"),
        ("a.b", "axb"),
        ("**", ""),
        ("**", "folder/"),
        ("folder/*", "folder/"),
        ("a", "a\n"),
        ("{a,b}", "{a,b}"),
    ],
)
def test_a_pattern_does_not_match_a_path(glob: str, path: str) -> None:
    assert not Pattern(glob).matches(path)


@pytest.mark.parametrize(
    ("glob", "what"),
    [
        ("", "expected 1 to"),
        ("x" * 1025, "found 1025 characters"),
        ("/a", "remove a leading"),
        ("a/", "remove a leading"),
        ("a//b", "empty folders"),
        ("../a", "`..`"),
        ("a/./b", "`.`"),
        ("{a,..}/b", "`..`"),
        ("a**", "write **/*"),
        ("**.gz", "write **/*"),
        ("[a", "not closed within its folder"),
        ("[", "not closed within its folder"),
        ("[]", "not closed within its folder"),
        ("[a/b]", "not closed within its folder"),
        ("{a", "do not pair up"),
        ("a}", "do not pair up"),
        ("}a{", "do not pair up"),
        ("[c-a]", "write a-c"),
        (r"\*", "backslash"),
        ("{a,b}" * 7, "more than 100 patterns"),
    ],
)
def test_an_invalid_pattern_is_refused_with_the_reason(glob: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        Pattern(glob)


HOSTILE = [
    ("**/**/**/*a*a*a*b", "/".join(["a" * 60] * 15) + "/" + "a" * 100),
    ("**/" + "*a" * 500 + "b", "a" * 1000),
    ("**/*a*/" * 100 + "b", "/".join(["a"] * 500)),
    ("**/*/" * 200 + "b", "/".join(["a"] * 500)),
    ("*?" * 500, "a" * 499),
    ("{**/*a*a*b,**/*a*a*c,**/*a*a*d}{x,y}", "/".join(["a" * 100] * 10)),
]


@pytest.mark.parametrize(("glob", "path"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_pattern_is_matched_in_linear_time(glob: str, path: str) -> None:
    pattern = Pattern(glob)
    start = time.process_time()
    assert not pattern.matches(path)
    assert time.process_time() - start < 0.5


names = st.text(st.sampled_from("ab.]-!"), min_size=1, max_size=6)
name_globs = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "[]-]"]), min_size=1, max_size=6)


@given(glob=name_globs.map("".join), name=names)
def test_within_a_name_a_pattern_agrees_with_fnmatch(glob: str, name: str) -> None:
    if "**" not in glob and glob not in (".", ".."):
        assert Pattern(glob).matches(name) == fnmatchcase(name, glob)


def matches_by_definition(folders: list[str], parts: list[str]) -> bool:
    """The definition as written: exponential, so for small cases only."""
    if not folders:
        return not parts
    if folders == ["**"]:
        return bool(parts)
    if folders[0] == "**":
        return any(matches_by_definition(folders[1:], parts[i:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], folders[0]) and matches_by_definition(folders[1:], parts[1:])


@given(
    folders=st.lists(st.sampled_from(["**", "*", "a", "a*", "?b"]), min_size=1, max_size=6),
    parts=st.lists(st.sampled_from(["a", "b", "ab", "aab"]), min_size=1, max_size=6),
)
def test_across_folders_a_pattern_agrees_with_the_definition(folders: list[str], parts: list[str]) -> None:
    pattern, path = Pattern("/".join(folders)), "/".join(parts)
    assert pattern.matches(path) == matches_by_definition(folders, parts)
    assert not pattern.matches(path) or has_its_expression(pattern, path)


@given(st.text(max_size=40), st.text(max_size=20))
def test_any_text_is_compiled_as_a_pattern_or_refused(glob: str, path: str) -> None:
    try:
        pattern = Pattern(glob)
    except ValueError:
        return
    assert pattern.matches(path) in (True, False)
    assert not pattern.matches(path) or has_its_expression(pattern, path)


@given(glob=name_globs.map("".join), name=st.text(st.sampled_from("abé😀.]\ud800"), min_size=1, max_size=6))
def test_a_path_that_is_matched_has_the_expression_of_its_bytes(glob: str, name: str) -> None:
    if "**" not in glob and glob not in (".", ".."):
        assert not Pattern(glob).matches(name) or has_its_expression(Pattern(glob), name)


ODD_NAMES = st.text(st.sampled_from("*?[]{}\\!^,a-"), min_size=1)


@given(st.lists(ODD_NAMES, min_size=1, max_size=3).map("/".join))
def test_a_path_has_a_pattern_of_its_own(path: str) -> None:
    assert Pattern(literal(path)).matches(path)
    assert has_its_expression(Pattern(literal(path)), path)
    assert not Pattern(literal(path)).matches(f"{path}a")
    assert not Pattern(literal(path)).matches(f"a{path}")
