"""The rules of a source with files of several formats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.config.formats import MIXED
from blizzard.paths.pattern import Pattern

NO_RULE = "none of the source's rules matches its path; add one, or narrow `pattern` of the source"


@dataclass(frozen=True, slots=True)
class ReadRule:
    """`options`: of the format, as JSON values."""

    pattern: Pattern
    format: str
    compression: str
    options: Mapping[str, Any]


class ReadRules:
    """The first rule that matches a file reads it."""

    def __init__(self, rules: Sequence[ReadRule]) -> None:
        self.rules = rules

    @classmethod
    def of(cls, format_name: str, options: Mapping[str, Any]) -> "ReadRules | None":
        """From the options of a source's format. None: it has one format for all files."""
        if format_name != MIXED:
            return None
        return cls(
            [
                ReadRule(Pattern(rule["pattern"]), rule["format"], rule["compression"], rule["options"])
                for rule in options["rules"]
            ]
        )

    def index(self, path: str) -> int | None:
        """Of the rule for the file of this path, relative to the source; None: no rule matches."""
        return next((at for at, rule in enumerate(self.rules) if rule.pattern.matches(path)), None)
