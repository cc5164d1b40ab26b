"""What set-up raises: one sentence that says what is missing and how to get it."""

from blizzard.errors import PermanentError


class SetupError(PermanentError):
    """The machine or the network lacks something. Ends the set-up with status 2."""
