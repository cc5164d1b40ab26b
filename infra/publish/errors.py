"""What publishing raises."""

from blizzard.errors import PermanentError


class PublishError(PermanentError):
    """It cannot be published as it is. The text says why, and what to do."""
