"""From a source to one of which files and records can be read once more."""

import time

from spark_job.repair.given_settings import given_settings
from spark_job.repair.repair_files import Repair, repair_files
from spark_job.repair.work import Work
from spark_job.wiring import SourceParts, new_id, read_settings, table_and_readers


def repair_of(parts: SourceParts, work: Work) -> Repair:
    """Nothing is opened or started yet."""
    source = parts.source
    table, [reader, given_reader] = table_and_readers(parts, read_settings(source), given_settings(source))
    return repair_files(
        parts.identity,
        parts.settings,
        work=work,
        table=table,
        reader=reader,
        given_reader=given_reader,
        state=parts.state,
        files=parts.files,
        clock=time.time,
        watch=parts.watch,
        new_id=new_id,
        sleep=time.sleep,
        log=parts.log,
    )
