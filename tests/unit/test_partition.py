"""The partition of a path: its folder, column values and time."""

import calendar
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import PermanentError
from blizzard.paths.partition import BadPartition, TimeTemplate, partition_of, partition_values

ARABIC = "2024-01-05".translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
"""A date in Arabic digits, which int() accepts."""


@pytest.mark.parametrize(
    ("path", "partition"), [("a.gz", ""), ("x/y/a.gz", "x/y"), ("x//a", "x/"), ("/a", ""), ("x/", "x")]
)
def test_the_partition_of_a_path_ends_before_its_last_slash(path: str, partition: str) -> None:
    assert partition_of(path) == partition


@pytest.mark.parametrize(
    ("folder", "kind", "value"),
    [
        ("p=2024-02-29", "date", "2024-02-29"),
        ("p=007", "int", "7"),
        ("p=-2147483648", "int", "-2147483648"),
        ("p=+9223372036854775807", "bigint", "9223372036854775807"),
        ("p=-32768", "smallint", "-32768"),
        ("p=127", "tinyint", "127"),
        ("p=north", "string", "north"),
        ("p=", "string", ""),
        ("p=a=b", "string", "a=b"),
        ("p=a%2Fb%20c%C3%A9+d", "string", "a/b cé+d"),
        ("p=100%", "string", "100%"),
        ("p=__HIVE_DEFAULT_PARTITION__", "date", None),
        ("p=__HIVE_DEFAULT_PARTITION__", "string", None),
        ("x/p=1/y", "int", "1"),
        ("p=1/p=1", "int", "1"),
        ("%70=1", "int", "1"),
    ],
)
def test_a_folder_name_gives_the_value_of_its_column(folder: str, kind: str, value: str | None) -> None:
    assert partition_values(f"{folder}/a.gz", {"p": kind}) == {"p": value}


def test_folders_of_columns_may_be_in_any_order() -> None:
    columns = {"hour": "int", "date": "date"}
    assert partition_values("date=2024-01-28/hour=07/a.gz", columns) == {"hour": "7", "date": "2024-01-28"}


def test_a_source_without_partition_columns_accepts_any_path() -> None:
    assert partition_values("p=%ff/p=2/a.gz", {}) == {}


@pytest.mark.parametrize(
    ("folder", "kind", "found"),
    [
        ("q=1", "int", "no `p=` folder"),
        ("P=1", "int", "no `p=` folder"),
        ("p=1/p=2", "int", "`p=1` and `p=2`"),
        ("p=2024-02-30", "date", "`p=2024-02-30`"),
        ("p=2024-1-5", "date", "`p=2024-1-5`"),
        ("p=20240105", "date", "`p=20240105`"),
        ("p=0000-01-01", "date", "`p=0000-01-01`"),
        (f"p={ARABIC}", "date", f"`p={ARABIC}`"),
        ("p=", "int", "`p=`"),
        ("p=1.0", "int", "`p=1.0`"),
        ("p=1_000", "int", "`p=1_000`"),
        ("p=2147483648", "int", "`p=2147483648`"),
        ("p=9223372036854775808", "bigint", "`p=9223372036854775808`"),
        ("p=128", "tinyint", "`p=128`"),
        ("p=-32769", "smallint", "`p=-32769`"),
        ("p=" + "9" * 5000, "bigint", "`p=999"),
        ("p=%FF", "string", "`p=%FF`"),
    ],
)
def test_an_invalid_folder_is_reported_with_the_expected_form(folder: str, kind: str, found: str) -> None:
    with pytest.raises(BadPartition) as error:
        partition_values(f"{folder}/a.gz", {"p": kind})
    text = str(error.value)
    assert text.startswith(f"{folder}/a.gz: partition column `p`: expected ")
    assert f"found {found}" in text
    assert isinstance(error.value, PermanentError)


def test_a_file_name_is_not_a_folder() -> None:
    with pytest.raises(BadPartition):
        partition_values("p=1", {"p": "int"})


# --- Times ---


@pytest.mark.parametrize(
    ("template", "partition", "folder"),
    [
        ("date=%Y-%m-%d", "date=2024-01-28", "date=2024-01-28"),
        ("date=%Y-%m-%d/", "date=2024-01-28", "date=2024-01-28"),
        ("date=%Y-%m-%d", "date=2024-01-28/hour=07/x", "date=2024-01-28"),
        ("year=%Y/month=%m/day=%d", "year=2024/month=01/day=28/x", "year=2024/month=01/day=28"),
        ("%Y/%m/%d/%H", "2024/01/28/07", "2024/01/28/07"),
        ("%Y/%j", "2024/366", "2024/366"),
        ("%Y/%Y-%m/%Y-%m-%d", "2024/2024-01/2024-01-28", "2024/2024-01/2024-01-28"),
        ("a.b+%%%Y", "a.b+%2024", "a.b+%2024"),
        ("date=%Y-%m-%d", "", None),
        ("date=%Y-%m-%d", "date=2024-01-2", None),
        ("date=%Y-%m-%d", "date=2024-01-281", None),
        ("date=%Y-%m-%d", "date=2024-01-28x/y", None),
        ("date=%Y-%m-%d", "x/date=2024-01-28", None),
        ("date=%Y-%m-%d", "date=2024-02-30", None),
        ("date=%Y-%m-%d", "date=0000-01-01", None),
        ("date=%Y-%m-%d", f"date={ARABIC}", None),
        ("date=%Y-%m-%d", "date=2024-01-28\n", None),
        ("year=%Y/month=%m/day=%d", "year=2024/month=01", None),
        ("%Y/%j", "2023/366", None),
        ("%Y/%j", "2024/000", None),
        ("%Y/%Y-%m", "2024/2023-01", None),
        ("%Y-%m-%d/%j", "2024-01-28/029", None),
        ("%Y-%m-%d/%j", "2024-01-28/028", "2024-01-28/028"),
        ("%Y-%j/%d", "2023-365/31", "2023-365/31"),
        ("%Y-%j/%d", "2023-365/30", None),
        ("%Y/%m/%d/%H", "2024/01/28/24", None),
        ("a.b%Y", "axb2024", None),
    ],
)
def test_a_template_finds_the_dated_folder_of_a_partition(template: str, partition: str, folder: str | None) -> None:
    assert TimeTemplate(template).folder_of(partition) == folder


NOW = datetime(2024, 3, 1, 0, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("template", "lookback", "floor"),
    [
        ("date=%Y-%m-%d", 1, "date=2024-03-01"),
        ("date=%Y-%m-%d", 2, "date=2024-02-29"),
        ("date=%Y-%m-%d", 7, "date=2024-02-24"),
        ("%Y/%j", 2, "2024/060"),
        ("%Y/%m/%d/%H", 2, "2024/02/29/23"),
        ("%Y/%m/%d/%H/%M", 32, "2024/02/29/23/59"),
        ("%Y-%m", 3, "2024-01"),
        ("%Y-%m", 4, "2023-12"),
        ("%Y-%m", 16, "2022-12"),
        ("%Y", 3, "2022"),
        ("date=%Y-%m-%d", 10**12, "date=0001-01-01"),
        ("%Y-%m", 10**12, "0001-01"),
    ],
)
def test_the_floor_is_the_oldest_folder_of_the_window(template: str, lookback: int, floor: str) -> None:
    assert TimeTemplate(template).oldest_folder(NOW, lookback) == floor


def test_a_window_of_months_is_right_on_the_last_day_of_a_month() -> None:
    assert TimeTemplate("%Y-%m").oldest_folder(datetime(2024, 3, 31, tzinfo=UTC).timestamp(), 2) == "2024-02"


def test_a_window_has_at_least_one_folder() -> None:
    with pytest.raises(ValueError, match="lookback is 0, expected 1 or greater"):
        TimeTemplate("%Y").oldest_folder(NOW, 0)


@pytest.mark.parametrize("template", ["x", "%m", "%d/%m/%Y", "%Y-%d", "%Y/%H", "%m-%Y", "%Y-%m-%H", "%H%Y", "%Y%M"])
def test_a_template_whose_folders_do_not_sort_as_their_times_do_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="do not sort as their times do"):
        TimeTemplate(template)


@pytest.mark.parametrize("template", ["", "/%Y", "../%Y", "%Y/../x", "%Y//%m", "./%Y"])
def test_a_template_cannot_leave_its_source(template: str) -> None:
    with pytest.raises(ValueError, match="expected folders relative to the source"):
        TimeTemplate(template)


@pytest.mark.parametrize("template", ["%y-%m", "%Y-%b", "%Y-%-m", "%Y%S", "%Y-%U", "%s", "%F", "%Y%"])
def test_directives_that_are_not_padded_digits_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match="expected only %Y %m %d %j %H %M"):
        TimeTemplate(template)


def test_a_template_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 200"):
        TimeTemplate("%Y" * 101)


def accepted(text: str) -> TimeTemplate | None:
    try:
        return TimeTemplate(text)
    except ValueError:
        return None


templates = st.lists(
    st.sampled_from(["%Y", "%m", "%d", "%j", "%H", "%M", "-", "/x", "date="]), min_size=1, max_size=7
).map("".join)
seconds = st.integers(-30_600_000_000, 253_402_214_400)  # the years 1000 to 9999
moments = seconds.map(lambda ts: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ts))


@given(text=templates, one=moments, step=st.integers(0, 10**7))
def test_folders_sort_as_their_times(text: str, one: datetime, step: int) -> None:
    template = accepted(text)
    other = min(one + timedelta(minutes=step), datetime(9999, 12, 31, tzinfo=UTC)) if one.year < 9900 else one
    if template is not None:
        assert template.oldest_folder(one.timestamp(), 1) <= template.oldest_folder(other.timestamp(), 1)


@given(text=templates, moment=moments)
def test_a_folder_equals_the_output_of_strftime_and_is_found_again(text: str, moment: datetime) -> None:
    template = accepted(text)
    if template is not None:
        folder = template.oldest_folder(moment.timestamp(), 1)
        assert folder == moment.strftime(text)
        assert template.folder_of(folder) == folder
        assert template.folder_of(f"{folder}/deeper") == folder


@given(text=templates)
def test_a_template_is_refused_only_if_two_of_its_folders_sort_wrongly(text: str) -> None:
    """So no template is refused unnecessarily."""
    if accepted(text) is None and "//" not in text and not text.startswith("/"):
        edges = product((2022, 2023), (1, 12), (1, 31), (0, 23), (0, 59))
        folders = [datetime(*edge, tzinfo=UTC).strftime(text) for edge in edges]
        assert folders != sorted(folders) or len(set(folders)) == 1


@given(text=templates, moment=moments, lookback=st.integers(1, 400))
def test_a_window_has_as_many_folders_as_the_lookback(text: str, moment: datetime, lookback: int) -> None:
    template = accepted(text)
    if template is None or moment.year < 1500:
        return
    floors = [template.oldest_folder(moment.timestamp(), back) for back in range(1, lookback + 1)]
    assert floors == sorted(set(floors), reverse=True)
    assert floors[-1] == template.oldest_folder(moment.timestamp(), lookback)


def test_leap_years_are_known() -> None:
    template = TimeTemplate("%Y/%j")
    found = [year for year in range(1990, 2030) if template.folder_of(f"{year}/366")]
    assert found == [year for year in range(1990, 2030) if calendar.isleap(year)]
