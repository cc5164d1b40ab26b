"""Where the traffic of the soak goes: S3 as a stand-in has it, behind a proxy that fails at times; or local files."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.s3_stand_in import CREDENTIALS, stand_in
from blizzard.environment import temporary_variables
from blizzard.storage.base import ObjectStore
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from tests.proof.bad_storage.proxy import BadStorage, Plan, bad_storage
from tests.proof.kill.jvm import Jvm
from tests.proof.places import LocalPlace, Place

LANDING, LAKE = "landing", "lake"
RATE = 0.01
STRETCHES, STRETCH_SECS = 0.0002, (0.2, 3.0)
"""Short outages: about one in a hundred commits meets one."""
STALL_SECS = 2.0


@dataclass(frozen=True, slots=True)
class Grounds:
    """`table`: the folder of this machine in which the table's objects lie. `proxy`: what fails; None: nothing does."""

    place: Place
    table: Path
    proxy: BadStorage | None = None

    def jvm(self, folder: Path) -> Jvm:
        """A new one, in which this place can be reached."""
        environment = self.place.environment
        return Jvm(folder, environment=environment, s3_endpoint=environment.get("AWS_ENDPOINT_URL"))

    def be_well(self) -> None:
        """From here on nothing fails."""
        if self.proxy is not None:
            self.proxy.plan.end()
            self.proxy.plan = Plan(0)

    def forget(self) -> None:
        """What the proxy keeps for others."""
        if self.proxy is not None:
            self.proxy.created.clear()


class StoodInPlace:
    """What lands, and what is compared at the end, goes past the proxy; all else through it."""

    name = "S3"

    def __init__(self, calm_endpoint: str, proxy_endpoint: str) -> None:
        self.environment: Mapping[str, str] = {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy_endpoint}
        self.options: Mapping[str, str] = {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": calm_endpoint,
            "AWS_ALLOW_HTTP": "true",
        }
        self.table_uri = f"s3://{LAKE}/table"
        self._calm = S3Settings(calm_endpoint, CREDENTIALS["AWS_REGION"])
        self._bad = S3Settings(proxy_endpoint, CREDENTIALS["AWS_REGION"])

    def uri(self, source: str) -> str:
        return f"s3://{LANDING}/{source}/"

    def landing(self, source: str) -> ObjectStore:
        return S3Store(LANDING, f"{source}/", self._bad)

    def table(self) -> ObjectStore:
        return S3Store(LAKE, "table/", self._bad)

    def put(self, source: str, path: str, body: bytes) -> None:
        S3Store(LANDING, f"{source}/", self._calm).put(path, body)

    def objects(self, source: str) -> Iterator[tuple[str, bytes]]:
        store = S3Store(LANDING, f"{source}/", self._calm)
        return ((info.key, store.get(info.key)) for info in store.list())


def local(folder: Path) -> Grounds:
    place = LocalPlace(folder / LAKE)
    return Grounds(place, Path(place.table_uri))


@contextmanager
def failing_s3(folder: Path, seed: object, counts: Counter[str]) -> Iterator[Grounds]:
    """`counts`: of what the proxy does."""
    buckets = {name: folder / name for name in (LANDING, LAKE)}
    with temporary_variables(CREDENTIALS), stand_in(buckets, latency_secs=0.0) as s3:
        endpoint = s3.environment["AWS_ENDPOINT_URL"]
        with bad_storage(endpoint) as proxy:
            proxy.stall_secs = STALL_SECS
            proxy.plan = Plan(seed, RATE, STRETCHES, STRETCH_SECS, counts=counts)
            yield Grounds(StoodInPlace(endpoint, proxy.endpoint), folder / LAKE / "table", proxy)
