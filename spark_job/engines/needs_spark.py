"""What the local engine leaves to Spark, and a machine that has no Spark for it."""

from blizzard.errors import PermanentError, SetupError

REPLACING = "replacing the rows of overwritten files in"


class NeedsSpark(PermanentError):
    """Nothing was written. `reason` completes "Spark is needed for …". Reasons of one `kind` differ only in the
    `example` at their end."""

    def __init__(self, kind: str, example: str = "") -> None:
        reason = f"{kind}{example}"
        super().__init__(
            f"Spark is needed for {reason}. Nothing is lost. Use `engine: auto` or `engine: spark`, on a machine that "
            "has Java and Delta's jars."
        )
        self.kind = kind
        self.reason = reason


def writing_twice(table_uri: str, reason: str) -> NeedsSpark:
    """`reason`: as `why_spark_must_write` gives it."""
    return NeedsSpark(f"writing to table {table_uri}, because of {reason}")


class SparkMissing(SetupError):
    """Spark is needed and cannot start. `problem`: what the machine lacks, and how to get it."""

    def __init__(self, needed: NeedsSpark, problem: str) -> None:
        super().__init__(f"Spark is needed for {needed.reason}. Nothing is lost: the next run goes on here. {problem}")
        self.problem = problem
