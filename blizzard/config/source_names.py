"""What the names of a pipeline and its source give: the source's id, and where its state is."""


def source_id(pipeline: str, source: str) -> str:
    return f"{pipeline}:{source}"


def state_prefix(pipeline: str, source: str) -> str:
    """Relative to the table's URI, without a `/` at its end."""
    return f"_blizzard/{pipeline}_{source}"
