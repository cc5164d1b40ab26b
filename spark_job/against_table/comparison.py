"""What a comparison finds."""

from dataclasses import dataclass, field

from blizzard.config.engine_name import EngineName
from spark_job.engines.needs_spark import NeedsSpark


@dataclass(slots=True)
class Comparison:
    """Of one source with its table. `version`: of the table; None: there is none yet. `refused`: why the run would end
    without a commit, mostly before it reads anything."""

    source: str
    table_uri: str
    version: int | None
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def leaves_to_spark(self, error: NeedsSpark, engine: str) -> None:
        """What the local engine refuses: the other ones go on with Spark."""
        named = EngineName(engine)
        if not named.has_spark:
            self.refused.append(str(error))
        elif not named.needs_spark:
            self.notes.append(f"Spark is needed for {error.reason}")
