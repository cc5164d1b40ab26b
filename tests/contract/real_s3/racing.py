"""Two processes that write the same keys at the same moments."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

from blizzard.errors import AlreadyExists
from blizzard.storage.s3 import S3Settings, S3Store
from tests.fixtures_versitygw import REGION, S3Server

PATIENCE_SECS = 120
_together: Barrier


def race(writer: "Callable[..., list[int]]", *places: tuple[str, ...]) -> list[list[int]]:
    """One process for each place, which gets `writer(who, *place)`. Returns which rounds each of them won."""
    spawn = get_context("spawn")
    barrier = spawn.Barrier(len(places))
    with ProcessPoolExecutor(len(places), spawn, _remember, (barrier,)) as processes:
        running = [processes.submit(writer, who, *place) for who, place in enumerate(places)]
        return [each.result() for each in running]


def _remember(barrier: Barrier) -> None:
    global _together
    _together = barrier


def meet() -> None:
    """Wait until the other process is here too."""
    _together.wait(PATIENCE_SECS)


def create_objects(who: int, endpoint: str, bucket: str, prefix: str, rounds: str) -> list[int]:
    """The rounds in which this process created the object."""
    store, won = S3Store(bucket, prefix, S3Settings(endpoint, REGION)), []
    for number in range(int(rounds)):
        meet()
        try:
            store.create(f"{number:04}", b"%d" % who)
        except AlreadyExists:
            continue
        won.append(number)
    return won


def complete_uploads(who: int, endpoint: str, bucket: str, prefix: str, rounds: str) -> list[int]:
    """The rounds in which this process completed its upload of the object."""
    client, won = S3Server(endpoint, Path()).client(), []
    for number in range(int(rounds)):
        place = {"Bucket": bucket, "Key": f"{prefix}{number:04}"}
        upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}
        part = client.upload_part(**upload, PartNumber=1, Body=b"%d" % who)
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        meet()
        try:
            client.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
        except client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
            client.abort_multipart_upload(**upload)
        else:
            won.append(number)
    return won
