"""Archives that are the same, byte for byte, whenever and wherever they are made of the same files."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

# Zip's own beginning of time.
EPOCH = (1980, 1, 1, 0, 0, 0)
LEVEL = 6
MODE = 0o644
UNIX = 3


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """By name in the archive, sorted; readable by all, without dates."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = UNIX
            entry.external_attr = (0o100000 | MODE) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, LEVEL)
    return out.getvalue()


def tar_gz_of(files: Mapping[str, bytes]) -> bytes:
    """As zip_of; owned by nobody."""
    out = io.BytesIO()
    # The file name would be in the header, and the time.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), MODE
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()
