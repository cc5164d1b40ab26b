"""The blocks of a source that are the same for all formats: its limits, and when what is done."""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from blizzard.config.section import Section, no_bool
from blizzard.paths.partition import TimeTemplate

_PREFIXES = tuple(enumerate("kmgt", 1))
_UNITS = {"": 1, "b": 1, **{f"{k}b": 1000**n for n, k in _PREFIXES}, **{f"{k}ib": 1024**n for n, k in _PREFIXES}}
_SIZE_PATTERN = r"^\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*((?:[KkMmGgTt][Ii]?)?[Bb]|)\s*$"
_SIZE = re.compile(_SIZE_PATTERN.replace("$", r"\Z"))


def _size_bytes(value: object) -> object:
    if not isinstance(value, str):
        return no_bool(value)
    match = _SIZE.match(value)
    size = Decimal(match[1]) * _UNITS[match[2].lower()] if match else None
    if size is None or size != int(size):
        raise ValueError(f"found {value!r:.80}, expected a size such as 1GiB, 512 MB or 1048576 (a number of bytes)")
    return int(size)


def _prefix_template(text: str) -> str:
    TimeTemplate(text)
    return text


Count = Annotated[int, Field(ge=1), BeforeValidator(no_bool)]
Secs = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(no_bool)]
PositiveSecs = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(no_bool)]
Bytes = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(_size_bytes),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "pattern": _SIZE_PATTERN}),
]


class PartitionFilter(Section):
    """Which dated folders of a source are still open."""

    prefix_template: Annotated[str, AfterValidator(_prefix_template)] = Field(
        description="The leading folders of a file's path as a strftime template in UTC, such as date=%Y-%m-%d. "
        "Start with %Y, then add as many of %m, %d, %H, %M as needed, in this order. %j can replace %m and %d.",
        examples=["date=%Y-%m-%d", "year=%Y/month=%m/day=%d"],
    )
    lookback: Count = Field(
        description="How many of the latest folders stay open, including the current one, counted in the template's "
        "finest unit. An older folder is closed after it had no new files for a while. The first run starts with the "
        "oldest open folder."
    )


class Checkpoint(Section):
    """The limits of a batch. The limit that is reached first ends the batch."""

    interval_files: Count = Field(default=1000, description="Maximum number of files in one batch.")
    interval_bytes: Bytes = Field(
        default=1 << 30, description="Maximum size of one batch in bytes of stored files; of messages, about."
    )
    interval_records: Count = Field(default=1_000_000, description="Maximum number of a topic's messages in one batch.")
    interval_secs: Secs = Field(
        default=60, description="Seconds after the last commit at which a batch is started although it is not full."
    )


class Sweep(Section):
    """How often a source is listed for files that no event announced."""

    interval_secs: PositiveSecs = Field(
        default=60,
        description="Seconds between two sweeps of the source, by `blizzard run` or by the sweeper on AWS, which runs "
        "once a minute. Also how long `blizzard run` waits before it retries a source after a failure.",
    )
    late_interval_secs: PositiveSecs = Field(
        default=3600,
        description="Seconds between two late sweeps, which look for files that sort before files already ingested.",
    )
    late_overlap_secs: Secs = Field(
        default=86_400,
        description="How many seconds before the start of the previous late sweep a late sweep looks back. Set it to "
        "at least the duration of the longest upload: S3 dates a multipart object by the start of its upload.",
    )
    unordered_requests: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = Field(
        default=60,
        description="For how many LIST requests, of 1,000 files each, a sweep lists folders whose files are named in "
        "no order. 0: only late sweeps look there.",
    )
    quiet_secs: Secs = Field(
        default=86_400,
        description="In a source with more than 1,000 folders, a folder without a new file for so many seconds is "
        "looked at only once in this time. 0: each sweep looks at all folders.",
    )


class Limits(Section):
    """Limits that keep memory and state bounded."""

    max_record_bytes: Bytes = Field(
        default=16 << 20,
        description="Maximum size of one record. A file with a larger one is dead-lettered; of topics, the message.",
    )
    max_file_bytes: Bytes = Field(
        default=64 << 30, description="Maximum size of one file, decompressed. A larger file is dead-lettered."
    )
    max_tracked_files: Count = Field(
        default=1000,
        description="No longer used: the checkpoint does not name ingested files any more. Still accepted.",
    )
    task_memory_bytes: Bytes = Field(
        default=256 << 20,
        description="Approximate memory of one task of the job: prefetched objects, lines, and rows that are not "
        "written yet. Spark's memoryOverhead has to cover it for every core of an executor.",
    )


class Retries(Section):
    """How transient errors of storage and Delta are retried."""

    max_attempts: Count = Field(default=8, description="Maximum number of attempts of one call, including the first.")
    max_backoff_secs: PositiveSecs = Field(default=20, description="Maximum seconds between two attempts.")
