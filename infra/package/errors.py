"""What packaging raises."""

from blizzard.errors import PermanentError


class PackageError(PermanentError):
    """Something cannot be packed as it is. The text says what, and what to do."""
