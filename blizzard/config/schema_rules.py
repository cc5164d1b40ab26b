"""What a source does with data that is not as its schema says."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RESCUED = "_rescued"
"""The column that takes what no other column does: JSON text, or null."""
_KEY = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The options `new_fields`, `misfits`, `keys` and `fields` of a source.

    `fields`: by column, the keys that lead to its value. `add` and `widen` are the driver's: for the reader they are
    `rescue`, and it tells the types of what it found.
    """

    new_fields: str = "count"
    misfits: str = "dead_letter"
    keys: str = "exact"
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def rescues_fields(self) -> bool:
        return self.new_fields in ("rescue", "add")

    @property
    def rescues_misfits(self) -> bool:
        return self.misfits in ("rescue", "widen")

    @property
    def rescues(self) -> bool:
        """Whether the source has the column `_rescued`."""
        return self.rescues_fields or self.rescues_misfits

    @property
    def refuses_fields(self) -> bool:
        return self.new_fields == "dead_letter"

    @property
    def looks_at_fields(self) -> bool:
        """Whether it takes more than counts of the fields that no column is for."""
        return self.new_fields != "count"

    @property
    def looks_at_records(self) -> bool:
        """Whether a record that is not as the schema says needs a closer look."""
        return self.looks_at_fields or self.rescues_misfits or self.ignores_case

    @property
    def tells_field_kinds(self) -> bool:
        return self.new_fields == "add"

    @property
    def tells_misfit_kinds(self) -> bool:
        return self.misfits == "widen"

    @property
    def ignores_case(self) -> bool:
        return self.keys == "ignore_case"


NO_RULES = SchemaRules()
"""What a source does that sets none of the options."""


def key_path(text: str) -> tuple[str, ...]:
    """The keys of a path: `address.city` are two, and so are `` `a.b`.city ``, where the first has a dot. A backtick
    within backticks is doubled, as in Spark. Raises ValueError."""
    keys, at = list[str](), 0
    while found := _KEY.match(text, at):
        keys.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        at = found.end()
        if at == len(text):
            return tuple(keys)
        if text[at] != ".":
            break
        at += 1
    raise ValueError(f"found {text!r:.80}, expected a key, or keys with dots between them; one with a dot as `a.b`")
