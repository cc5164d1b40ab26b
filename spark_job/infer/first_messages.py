"""`schema: infer`: the columns of a source of topics whose table has none yet, from its first messages."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from blizzard.errors import PermanentError
from blizzard.infer.storable import Storable
from spark_job.formats.messages.message_columns import Message
from spark_job.infer.first_records import FirstRecords, Inferred
from spark_job.infer.message_sample import MessageSample, PayloadTypes, observe_messages
from spark_job.ports.offset_range import OffsetRange

Messages = Generator[tuple[OffsetRange, Iterable[Message]]]


@dataclass(frozen=True, slots=True)
class FirstMessages:
    """`read`: the messages of the partitions of these ranges, from the beginning of each range to the end that the
    partition has now. `types`: new ones for the messages of a partition."""

    records: FirstRecords
    format_name: str
    read: Callable[[Sequence[OffsetRange]], Messages]
    types: Callable[[], PayloadTypes]

    def schema(self, ranges: Sequence[OffsetRange]) -> Inferred | None:
        """None: there is no message. Raises PermanentError if none holds a record with a field, ConfigError if the
        configuration does not fit what they hold, and what reading raises."""
        with closing(self.read(ranges)) as messages:
            sample = observe_messages(messages, [one.path for one in ranges], self.types)
        if not sample.messages:
            return None
        found = self.records.columns(sample.observed)
        if not sample.observed.records or not found.schema.columns:
            raise PermanentError(self._nothing_found(sample, found))
        return self.records.inferred(found, sample.observed, sample.first or "", partitions=sample.partitions)

    def _nothing_found(self, sample: MessageSample, found: Storable) -> str:
        if sample.observed.records and found.left_out:
            return self.records.failed_without_columns(found)
        if sample.observed.records:
            return self.records.failed(
                f"none of the {sample.observed.records:,} records in the first {sample.messages:,} messages has a "
                "field. Write the `schema`; the next run looks again"
            )
        example = f", such as {sample.fault}" if sample.fault else ""
        return self.records.failed(
            f"none of the first {sample.messages:,} messages holds a record that can be read as {self.format_name}"
            f"{example}. Correct `format`, or write the `schema`; the next run looks again"
        )
