"""Texts by which CSV files say that there is no value, and which of them may be values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blizzard.infer.reasons import listed
from blizzard.infer.text import TextForms, text_type
from blizzard.infer.types import STRING, VOID, merge_all

NULL_WORDS = ("NULL", "null", "NA", "N/A", "n/a", "None", "\\N", "-")
_NO_VALUES = ("\\N", "-")
"""Marks that no column has as a text."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class NullWords:
    """`words`: to be read as null, in all columns. `notes`: what that means for which column."""

    words: tuple[str, ...]
    notes: tuple[str, ...]


def null_words(columns: Mapping[str, Sequence[str]], forms: TextForms) -> NullWords:
    """Words that stand among values of another type than STRING, unless a column of texts holds them, too: there they
    may be values, such as NA for Namibia. `columns`: the distinct values that are not empty."""
    typed, texts = dict[str, list[str]](), dict[str, list[str]]()
    for name, values in columns.items():
        if words := [value for value in values if value in NULL_WORDS]:
            kind = merge_all(text_type(value, forms) for value in values if value not in NULL_WORDS)
            for word in words:
                (texts if kind in (STRING, VOID) else typed).setdefault(word, []).append(name)
    taken = [word for word in typed if word in _NO_VALUES or word not in texts]
    notes = [_taken(word, typed[word], texts.get(word, [])) for word in taken]
    notes += [_left(word, typed[word], texts[word]) for word in typed if word not in taken]
    return NullWords(tuple(taken), tuple(notes))


def _taken(word: str, typed: Sequence[str], texts: Sequence[str]) -> str:
    also = f", and so does {names_shown(texts)}" if texts else ""
    return (
        f"{word!r} is read as null, in every column, because {names_shown(typed)} holds it beside values of "
        f"another type{also}; take it out of null_values if it is a value anywhere"
    )


def _left(word: str, typed: Sequence[str], texts: Sequence[str]) -> str:
    return (
        f"{word!r} is a text in {names_shown(texts)}, so it is not read as null, and {names_shown(typed)} "
        "stays STRING; if it means null in every column, add it to null_values and correct the types"
    )


def names_shown(columns: Sequence[str]) -> str:
    return listed(columns, _SHOWN)
