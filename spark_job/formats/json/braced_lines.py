"""Blocks of lines that a JSON reader may take as one stream of objects."""

from dataclasses import dataclass

from spark_job.formats.lines import LineBlock


@dataclass(frozen=True, slots=True)
class BracedLines(LineBlock):
    """Lines of which each is known to begin with { and end with }, by `are_braced`."""


def are_braced(data: bytes, count: int) -> bool:
    """Whether each of these `count` lines begins with { and ends with }.

    If a JSON reader then reads exactly `count` values from the data, each line is exactly one object. No line can end
    between } and { within a value: inside a string a line feed is a control character, which JSON forbids, and outside
    of strings there would have to be a comma between them. So each value begins where a line begins and ends where a
    line ends, each line holds at least one value, and there are as many values as lines.
    """
    return data.startswith(b"{") and data.endswith(b"}") and data.count(b"}\n{") == count - 1
