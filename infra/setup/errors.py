"""Errors of the set-up: one sentence that says what is missing and how to get it."""

from blizzard.errors import PermanentError


class SetupError(PermanentError):
    """Something is missing on the machine or in the network. Exit status 2."""
