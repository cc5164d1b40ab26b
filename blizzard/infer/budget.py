"""How much of the files is read, at most."""

from dataclasses import dataclass

MAX_GROUPS = 30
"""Of files with one extension in one folder, each of which gets a share of the files to look into."""
FIRST_BYTES = 64 << 10
"""Of each file at least, so that its format can be told."""
LEAST_FILES = 3
"""Of each group."""
MORE_BYTES = 16 << 20
"""Of all files together, where no record ends within the bytes that are read first."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`bytes`: decompressed, of all files together."""

    files: int
    bytes: int

    def of_groups(self, count: int) -> int:
        """Files of each group."""
        return max(LEAST_FILES, self.files // max(1, count))

    def of_file(self, groups: int, files: int) -> int:
        """Bytes of each of so many files of one group."""
        return max(FIRST_BYTES, self.bytes // max(1, groups * files))

    @property
    def most_files(self) -> int:
        return max(self.files, LEAST_FILES * MAX_GROUPS)

    @property
    def most_bytes(self) -> int:
        """Without `MORE_BYTES`."""
        return max(self.bytes, FIRST_BYTES * self.most_files)
