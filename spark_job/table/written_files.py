"""The files of a batch, as a commit sees them."""

from collections.abc import Sequence
from typing import Protocol

from spark_job.write.parquet_files import DataFile, TableLayout


class WrittenFiles(Protocol):
    """The data files of a batch, and the layout they were written for."""

    @property
    def data_files(self) -> Sequence[DataFile]: ...

    @property
    def layout(self) -> TableLayout: ...
