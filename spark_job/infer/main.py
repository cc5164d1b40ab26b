"""The process that looks at files for `blizzard init`: JSON lines say how far it is, and the last one what it found."""

import csv
import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from blizzard.environment import variables
from blizzard.errors import BlizzardError, BucketMissing
from blizzard.infer.budget import Budget
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.protocol import Limits
from spark_job.infer.describe import Place
from spark_job.infer.inspect import DELTA_LOG, CannotTell, Inspection


def main(request: str) -> None:
    """`request`: JSON with `uri`, which ends in `/`, `table_uri`, `sample_files` and `sample_bytes`."""
    wanted: Mapping[str, Any] = json.loads(request)
    csv.field_size_limit(Limits().max_record_bytes)
    try:
        s3 = S3Settings.from_environment(variables())
        store = open_store(wanted["uri"], s3)
        budget = Budget(wanted["sample_files"], wanted["sample_bytes"])
        place = Place(wanted["uri"], wanted["table_uri"])
        inspection = Inspection(store, place, budget, time.time(), tell, is_table=partial(is_table, s3))
        tell(found=inspection.findings().as_json())
    except CannotTell as error:
        tell(cannot_tell=str(error))
    except BucketMissing as error:
        tell(cannot_tell=f"{wanted['uri']}: there is no such bucket or folder ({error})")
    except BlizzardError as error:
        tell(cannot_tell=f"{wanted['uri']}: {error}")


def is_table(s3: S3Settings, uri: str) -> bool:
    """By one request. Of a place that may not be listed nothing is said: whoever may read the files need not have
    rights there yet."""
    try:
        return next(iter(open_store(uri, s3, may_be_missing=True).list(DELTA_LOG)), None) is not None
    except BlizzardError:
        return False


def tell(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
