"""What the local engine leaves to Spark."""

from blizzard.errors import PermanentError


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
