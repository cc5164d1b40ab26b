from blizzard.errors import BlizzardError


class KafkaFailed(BlizzardError):
    """A broker did not start, or did not end, in time. The text has the last lines of its log."""
