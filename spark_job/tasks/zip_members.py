"""The records of a zip file: those of its members, one after the other, numbered through.

A member is read twice. The first time shows how many records it has and that it is whole, so that a damaged one takes
one number, like a damaged record, and leaves no rows.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Any

from spark_job.formats.protocol import FileFault, Format, Readable
from spark_job.formats.zip_archive import Member, ZipArchive
from spark_job.tasks.file_content import FileContent
from spark_job.tasks.file_parts import NumberedBlock, Part, RefusedMember, explained

OpenMember = Callable[[str, Readable, int, ExitStack], FileContent]
"""From a member's name, its decompressed bytes, and their number; what it opens is closed with the stack."""


class ZipMembers:
    """Implements `FileParts`."""

    def __init__(
        self, file_format: Format[Any], formats: Collection[str], archive: ZipArchive, open_member: OpenMember
    ) -> None:
        self._format = file_format
        self._formats = formats
        self._archive = archive
        self._open_member = open_member
        self._bytes_before = 0
        self._content: FileContent | None = None

    @property
    def bytes_read(self) -> int:
        """Bytes of members, decompressed; not those of the first time."""
        return self._bytes_before + (0 if self._content is None else self._content.bytes_read)

    def parts(self, *, skip_records: int) -> Iterator[Part]:
        start = 0
        for member in self._archive.members:
            found = self._checked(member)
            if isinstance(found, str):
                refused = RefusedMember(member.name, f"member {member.name}: {found}", start)
                start = refused.end
                if start > skip_records:
                    yield refused
                continue
            if start + found > skip_records:
                yield from self._blocks(member, start, max(0, skip_records - start))
            start += found

    def _checked(self, member: Member) -> int | str:
        """The number of its records, or why it is refused."""
        if member.refusal is not None:
            return member.refusal
        with ExitStack() as stack:
            content = self._open(member, stack)
            try:
                blocks = self._format.blocks(content, first_record=0)
                return max((block.first_record + block.count for block in blocks), default=0)
            except FileFault as fault:
                return explained(fault, content, self._formats).reason

    def _blocks(self, member: Member, start: int, skip: int) -> Iterator[NumberedBlock]:
        with ExitStack() as stack:
            self._content = self._open(member, stack)
            for block in self._format.blocks(self._content, first_record=skip):
                yield NumberedBlock(block, start + block.first_record, member.name)
            self._bytes_before, self._content = self.bytes_read, None

    def _open(self, member: Member, stack: ExitStack) -> FileContent:
        return self._open_member(member.name, self._archive.open(member), member.info.file_size, stack)
