"""The rules of a source with files of several formats."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.config.compressions import AUTO, COMPRESSIONS, ZIP, compression_of
from blizzard.config.formats import FILE_FORMATS, MIXED
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


class FileCompressions:
    """How each file of a source is compressed. `format_name` and `options` of the source's format; `compression` as
    `compression_of` takes it."""

    def __init__(self, format_name: str, options: Mapping[str, Any], compression: str) -> None:
        self._format = format_name
        self._compression = compression
        self._rules = ReadRules.of(format_name, options)

    def have_zip(self, paths: Iterable[str]) -> bool:
        """Whether one of these files is a zip. A batch may have many, so most are told by their names alone."""
        rules = self._rules.rules if self._rules is not None else ()
        if ZIP not in (self._compression, *(rule.compression for rule in rules)):
            paths = (path for path in paths if path.lower().endswith(COMPRESSIONS[ZIP]))
        return any(self.of(path) == ZIP for path in paths)

    def of(self, path: str) -> str:
        """One of COMPRESSIONS."""
        found = self._for(path)
        return "none" if found is None else compression_of(path, found[1])

    def of_member(self, path: str, member: str) -> str:
        """Of a member of the zip with this path: by its extension, unless the format takes all files as they are."""
        found = self._for(path)
        return compression_of(member, AUTO) if found and FILE_FORMATS[found[0]].may_be_compressed else "none"

    def _for(self, path: str) -> tuple[str, str] | None:
        """The format and the configured compression; None if no rule matches."""
        if self._rules is None:
            return self._format, self._compression
        index = self._rules.index(path)
        if index is None:
            return None
        rule = self._rules.rules[index]
        return rule.format, rule.compression
