"""`python -m benchmarks.s3_stand_in [--latency-ms N] BUCKET=FOLDER …`: serve on a free port until terminated.

The first line of output has the port, as JSON. `--measure` prints the number of GETs per second instead.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.s3_stand_in import stand_in
from benchmarks.s3_stand_in.answers import CountingAnswers
from benchmarks.s3_stand_in.http import Connection
from benchmarks.s3_stand_in.objects import Bucket

OBJECTS = 1_000
REQUESTS = 20_000
AT_ONCE = 64


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.s3_stand_in", description="Serve folders as buckets of a fast local S3."
    )
    parser.add_argument("buckets", nargs="*", metavar="BUCKET=FOLDER")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="latency of each request")
    parser.add_argument("--measure", action="store_true", help="print how many GETs a second it can answer, and exit")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps({"gets_per_sec": round(gets_per_sec(options.latency_ms / 1000))}))
        return
    buckets = {name: Bucket(Path(folder)) for name, _, folder in (word.partition("=") for word in options.buckets)}
    asyncio.run(_serve(buckets, options.latency_ms / 1000))


async def _serve(buckets: dict[str, Bucket], latency_secs: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(Connection, CountingAnswers(buckets), latency_secs), "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    sys.stdout.close()
    await server.serve_forever()


def gets_per_sec(latency_secs: float = 0.0, requests: int = REQUESTS) -> float:
    """GETs per second of 500-byte objects, the size of the files of `small`. Client and server share the cores."""
    from obstore.store import S3Store

    with tempfile.TemporaryDirectory() as folder:
        for number in range(OBJECTS):
            Path(folder, f"{number:04}").write_bytes(os.urandom(500))
        with stand_in({"small": Path(folder)}, latency_secs=latency_secs) as server:
            store = S3Store(
                "small",
                aws_endpoint_url_s3=server.environment["AWS_ENDPOINT_URL"],
                region="us-east-1",
                virtual_hosted_style_request=False,
                access_key_id="local",
                secret_access_key="local",
                client_options={"allow_http": True},
            )

            async def get_some(count: int) -> None:
                for number in range(count):
                    await (await store.get_async(f"{number % OBJECTS:04}")).bytes_async()

            async def get_all() -> None:
                await asyncio.gather(*(get_some(requests // AT_ONCE) for _ in range(AT_ONCE)))

            began = time.perf_counter()
            asyncio.run(get_all())
            return requests // AT_ONCE * AT_ONCE / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
