"""The process that reads ORC, broken on purpose: a damaged file may take as much as a large one, and takes 600 MiB."""

from spark_job.formats.orc import reader_process
from spark_job.formats.orc.reader_process import OrcFile

_whole = OrcFile.description


def _description(file: OrcFile) -> bytes:
    try:
        return _whole(file)
    except Exception:
        assert len(b"\1" * (600 << 20)) == 600 << 20
        raise


if __name__ == "__main__":
    reader_process.MAX_BYTES = 0  # type: ignore[misc]
    OrcFile.description = _description  # type: ignore[method-assign]
    reader_process.main()
