"""Which sources of a configuration a command is about, and which of their files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from blizzard.config.model import Config, Pipeline, Source
from blizzard.errors import ConfigError
from blizzard.paths.pattern import Pattern, bytes_expression_of, literal
from blizzard.state.watermark import prefix_of
from blizzard.storage.keys import is_relative_path
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

NO_FILES = (
    "it reads topics, and --to is about files. A new table with all rows: copy those of the old one and its folder "
    "`_blizzard`, give the pipeline the new `table_uri`, and start `blizzard rebuild FILE` without --to: runs go on "
    "behind the last row. Or one with what the brokers still have: give the pipeline another `table_uri` and the "
    "source `start: earliest`, and run it. docs/kafka.md#another-table has both step by step"
)


def selected_of_files(
    config: Config, pipelines: Sequence[str] | None, sources: Sequence[str] | None
) -> list[tuple[Pipeline, Source]]:
    """As `selected`. Raises ConfigError also for a source that reads topics."""
    found = selected(config, pipelines, sources)
    if problems := [f"source {source.id}: {NO_FILES}" for _, source in found if source.kafka is not None]:
        raise ConfigError(problems)
    return found


def refuse_empty(options: Mapping[str, str | None]) -> None:
    """`options`: by name, with texts; None: not given. Raises ConfigError for an empty text, such as that of a variable
    that is not set: it would mean everything."""
    if empty := [name for name, text in options.items() if text == ""]:
        raise ConfigError([f"{name}: found an empty text; expected some, or leave the option out" for name in empty])


def refuse_options_of_files(sources: Sequence[tuple[Pipeline, Source]], options: Mapping[str, object]) -> None:
    """`options`: by name, those that only files know. Raises ConfigError for one that is set."""
    topics = [source.id for _, source in sources if source.kafka is not None]
    if problems := [_about_files(name, topics[0]) for name, value in options.items() if value and topics]:
        raise ConfigError(problems)


def _about_files(option: str, source_id: str) -> str:
    return f"{option} is about files, and source {source_id} reads topics; name other sources with --source"


def selected(
    config: Config, pipelines: Sequence[str] | None, sources: Sequence[str] | None
) -> list[tuple[Pipeline, Source]]:
    """Those of these pipelines and of these names, in the order of the file; None or nothing: all. A source is named by
    its name or, like `status` does, with its pipeline. Raises ConfigError for a name that there is not."""
    every = [*config.sources()]
    unknown = [
        f"--pipeline {name}: expected one of {', '.join(config.pipelines)}"
        for name in pipelines or ()
        if name not in config.pipelines
    ]
    found = [(pipeline, source) for pipeline, source in every if not pipelines or pipeline.name in pipelines]
    ids = [source.id for _, source in found]
    names = {name for _, source in found for name in (source.name, source.id)}
    unknown += [
        f"--source {name}: expected one of {', '.join(ids)}"
        for name in sources or ()
        if not unknown and name not in names
    ]
    if unknown:
        raise ConfigError(unknown)
    return [(pipeline, source) for pipeline, source in found if not sources or {source.name, source.id} & {*sources}]


def prefix_of_folder(partition: str | None) -> str:
    """Of the paths of files in this folder of a source, and below it; None, and then empty: of all. Raises ConfigError
    for what is no folder of a source."""
    if partition is None:
        return ""
    folder = partition.strip("/ ")
    if not folder or ".." in folder.split("/"):
        expected = "expected a folder of the source, such as date=2026-11-21"
        whole = "Without it all files are meant; `blizzard replace` wants --path '**' then"
        raise ConfigError([f"--partition: {expected}, found {partition!r}. {whole}"])
    return prefix_of(folder)


@dataclass(frozen=True, slots=True)
class GivenPaths:
    """What an option is given: each text is a pattern, and it is the path that reads the same, too. `wrong`: why some
    are no patterns."""

    texts: Sequence[str]
    option: str
    patterns: Sequence[Pattern]
    wrong: Mapping[str, str]
    _met: set[str] = field(default_factory=set)

    def matches(self, path: str) -> bool:
        """Without any text every path does."""
        if path in self.wrong:
            self._met.add(path)
        return not self.texts or path in self.texts or any(pattern.matches(path) for pattern in self.patterns)

    def bytes_expression(self) -> str | None:
        """As that of a pattern, of all that matches; None: every path does."""
        expressions = [pattern.bytes_expression() for pattern in self.patterns]
        return "|".join([*expressions, *map(bytes_expression_of, self.texts)]) or None

    def check(self, there: Callable[[str], bool]) -> None:
        """Raises ConfigError for a text that is no pattern, and no path that was asked for or is `there`."""
        met = self._met
        if wrong := [why for text, why in self.wrong.items() if text not in met and not there(text)]:
            raise ConfigError([f"{self.option} {why}" for why in wrong])


def given_paths(
    texts: Sequence[str] | None, option: str, as_pattern: Callable[[str], str] = lambda text: text
) -> GivenPaths:
    """`as_pattern`: which pattern a text means."""
    patterns, wrong = list[Pattern](), dict[str, str]()
    for text in texts or ():
        try:
            patterns.append(Pattern(as_pattern(text)))
        except ValueError as error:
            wrong[text] = f"{text}: {error}"
    return GivenPaths(texts or (), option, patterns, wrong)


def patterns_of(
    texts: Sequence[str] | None, option: str, sources: Sequence[tuple[Pipeline, Source]], settings: S3Settings
) -> list[str]:
    """As patterns only, for a process that knows nothing else. Raises ConfigError for a text that is none, and no file
    of the sources."""
    given = given_paths(texts, option)
    given.check(lambda text: is_file_of(sources, settings, text))
    found = [text for text in given.texts if text not in given.wrong]
    return found + [as_path for text in given.texts if (as_path := literal(text)) != text]


def is_file_of(sources: Sequence[tuple[Pipeline, Source]], settings: S3Settings, path: str) -> bool:
    """Whether one of the sources has a file there. Errors of storage."""
    places = [source.uri for _, source in sources if source.kafka is None]
    return is_relative_path(path) and any(open_store(uri, settings).head(path) is not None for uri in places)
