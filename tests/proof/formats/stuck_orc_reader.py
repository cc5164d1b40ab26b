"""The process that reads ORC, broken on purpose: it never gets on with a damaged file."""

import time

from spark_job.formats.orc import reader_process
from spark_job.formats.orc.reader_process import OrcFile

_whole = OrcFile.description


def _description(file: OrcFile) -> bytes:
    try:
        return _whole(file)
    except Exception:  # noqa: BLE001 - whatever it is
        while True:
            time.sleep(1)


if __name__ == "__main__":
    OrcFile.description = _description  # type: ignore[method-assign]
    reader_process.main()
