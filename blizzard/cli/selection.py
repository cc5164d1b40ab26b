"""Which sources of a configuration a command is about, and which of their files."""

from collections.abc import Callable, Mapping, Sequence

from blizzard.config.model import Config, Pipeline, Source
from blizzard.errors import ConfigError
from blizzard.paths.pattern import Pattern
from blizzard.state.watermark import prefix_of

NO_FILES = (
    "it reads topics, and --to is about files. To fill a new table with what the brokers still have, give the pipeline "
    "another `table_uri` and the source `start: earliest`, and run it"
)


def selected_of_files(
    config: Config, pipelines: Sequence[str] | None, sources: Sequence[str] | None
) -> list[tuple[Pipeline, Source]]:
    """As `selected`. Raises ConfigError also for a source that reads topics."""
    found = selected(config, pipelines, sources)
    if problems := [f"source {source.id}: {NO_FILES}" for _, source in found if source.kafka is not None]:
        raise ConfigError(problems)
    return found


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


def matching(globs: Sequence[str] | None, option: str) -> Callable[[str], bool]:
    """Whether a path matches one of the patterns; without any, every path does. Raises ConfigError."""
    patterns = []
    for glob in globs or ():
        try:
            patterns.append(Pattern(glob))
        except ValueError as error:
            raise ConfigError([f"{option} {glob}: {error}"]) from error
    return lambda path: not patterns or any(pattern.matches(path) for pattern in patterns)
