"""The types of values that no column is for, in DDL."""


def joined_kind(one: str | None, other: str | None) -> str | None:
    """The narrowest type that holds the values of both. None: of no values."""
    if one is None or other is None or one == other:
        return one or other
    return "STRING"
