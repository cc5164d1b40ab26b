"""Errors of packaging."""

from blizzard.errors import PermanentError


class PackageError(PermanentError):
    """Packing failed. The text says why, and what to do."""
