"""The files of a batch, as a commit sees them."""

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql.types import StructType

from blizzard.state.unknown_fields import UnknownFields
from spark_job.write.data_file import DataFile, TableLayout


class WrittenFiles(Protocol):
    """The data files of a batch, and the layout and the columns of records that they were written for."""

    @property
    def data_files(self) -> Sequence[DataFile]: ...

    @property
    def layout(self) -> TableLayout: ...

    @property
    def record_type(self) -> StructType: ...

    @property
    def unknown_fields(self) -> UnknownFields: ...

    @property
    def misfits(self) -> UnknownFields: ...
