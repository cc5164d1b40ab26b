"""Errors of publishing."""

from blizzard.errors import PermanentError


class PublishError(PermanentError):
    """Publishing failed. The text says why, and what to do."""
