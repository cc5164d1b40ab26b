"""Reproducible archives: the same files give the same bytes, at any time on any machine."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip can hold."""
LEVEL = 6
MODE = 0o644
UNIX = 3


def make_zip(files: Mapping[str, bytes]) -> bytes:
    """`files`: content by name in the archive. Entries are sorted, readable by all, and have no dates."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = UNIX
            entry.external_attr = (0o100000 | MODE) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, LEVEL)
    return out.getvalue()


def make_tar_gz(files: Mapping[str, bytes], level: int | None = None) -> bytes:
    """As make_zip; entries have no owner. `level` of compression: LEVEL without."""
    out = io.BytesIO()
    # Without a file name and a time, which gzip would put into the header.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=level or LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), MODE
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()
