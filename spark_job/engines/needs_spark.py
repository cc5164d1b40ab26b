"""What the local engine leaves to Spark."""

from blizzard.errors import PermanentError


class NeedsSpark(PermanentError):
    """Nothing was written. `reason` completes "Spark is needed for …"."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Spark is needed for {reason}. Nothing is lost. Use `engine: auto` or `engine: spark`, on a machine that "
            "has Java and Delta's jars."
        )
        self.reason = reason
