"""No credentials in errors, logs, Spark's settings or storage, though AWS repeats them in each refusal."""

import io
import json
import re
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from logging import StreamHandler

import pytest

from blizzard.config import spark_settings
from blizzard.config.published import PublishedPipeline
from blizzard.dispatch.dispatcher import Dispatcher, Logs
from blizzard.errors import BlizzardError
from blizzard.log import JsonLog
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.base import ObjectStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.report import SweepKind
from functions.dispatcher.emr import EmrServerless
from functions.dispatcher.job_request import JobSettings
from functions.runtime import FunctionLog, function_logger, make_runtime
from spark_job.formats.protocol import Limits
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.write.data_file import TableLayout
from tests.echoing import (
    ENVIRONMENT,
    REFUSALS,
    SECRET,
    SECRETS,
    TOKEN,
    EchoingS3,
    RefusingServer,
    serving,
)
from tests.unit import emr_client
from tests.unit.dispatch_world import PIPELINE, POLICY, published_source
from tests.unit.echoed_world import EchoedWorld, impatient
from tests.unit.fakes import Clock


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def refusing(credentials: None) -> Iterator[RefusingServer]:
    server = RefusingServer()
    with serving(server):
        yield server


def repeated(text: str) -> list[str]:
    """The credentials that are in it."""
    return [secret for secret in SECRETS if secret in text]


# --- What is said ---


def chain(error: BaseException | None) -> Iterator[str]:
    """What a traceback would print: the error, and those that it came from."""
    while error is not None:
        yield f"{error!r} {error}"
        error = error.__cause__ or error.__context__


def asked(store: ObjectStore) -> Iterator[BlizzardError]:
    """The errors of every call that a store has."""

    def read() -> None:
        with store.open("a.ndjson") as reader:
            reader.read()

    def write() -> None:
        with store.writer("a.ndjson") as writer:
            writer.write(b"x")

    every: list[Callable[[], object]] = [
        lambda: [*store.list()],
        lambda: [*store.list_folders()],
        lambda: store.head("a.ndjson"),
        lambda: store.get("a.ndjson"),
        lambda: store.create("a.ndjson", b"x"),
        lambda: store.put("a.ndjson", b"x"),
        lambda: store.delete(["a.ndjson"]),
        read,
        write,
    ]
    for call in every:
        try:
            call()
        except BlizzardError as error:
            yield error


@pytest.mark.parametrize("code", REFUSALS)
def test_no_error_and_no_line_of_the_log_holds_credentials(refusing: RefusingServer, code: str) -> None:
    refusing.code = code
    said = io.StringIO()
    store = open_store("s3://landing/raw/", impatient(refusing.endpoint), log=JsonLog(said, lambda: 0.0))
    errors = [*asked(store)]
    assert len(errors) >= 7
    assert repeated("\n".join([*map(str, errors), said.getvalue()])) == []
    traces = "\n".join(text for error in errors for text in chain(error))
    assert TOKEN not in traces
    assert SECRET not in traces


def test_an_error_of_an_unreachable_endpoint_names_it_without_credentials(credentials: None) -> None:
    unreachable = S3Settings("http://127.0.0.1:9", "eu-west-1", max_attempts=1, connect_timeout_secs=0.5)
    errors = [*asked(open_store("s3://landing/raw/", unreachable))]
    assert errors
    assert repeated("\n".join(map(str, errors))) == []


def test_an_error_of_a_queue_names_it_without_credentials(
    refusing: RefusingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", refusing.endpoint)
    output = io.StringIO()
    log = FunctionLog(function_logger("test-credentials", StreamHandler(output)))
    queue = {"BLIZZARD_WAKE_QUEUE_URL": f"{refusing.endpoint}/1/wake.fifo", "BLIZZARD_WAKE_WINDOW_SECS": "15"}
    environ = {**ENVIRONMENT, "AWS_ENDPOINT_URL": refusing.endpoint, **queue}
    assert make_runtime(environ, log).waker().wake(["events"], now_ts=0.0) == 1
    assert "The request signature we calculated does not match" in output.getvalue()
    assert repeated(output.getvalue()) == []


# --- What travels ---


def test_nothing_sent_to_spark_or_its_tasks_holds_credentials(credentials: None) -> None:
    endpoint = "http://127.0.0.1:9"
    conf = spark_settings.settings(jars_dir="jars", s3_endpoint=endpoint, s3_region="eu-west-1")
    destination = Destination(
        "s3://lake/events", TableLayout("", (), (), 32, 1), "left/", "{}", Provenance("a:b", 0, {})
    )
    task = Task("s3://landing/raw/", S3Settings(endpoint), ReadSettings("ndjson", limits=Limits()), destination)
    assert repeated(json.dumps(conf) + task.to_json()) == []
    assert not any(re.search(r"(access|secret)[.-]?key|session[.-]?token|password", name, re.I) for name in conf)


# --- What is kept ---


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def echoed(credentials: None, s3_endpoint: str, said: io.StringIO) -> Iterator[tuple[EchoingS3, EchoedWorld]]:
    proxy = EchoingS3(s3_endpoint)
    with serving(proxy):
        yield proxy, EchoedWorld(proxy, s3_endpoint, said)


def test_no_object_below_the_table_and_no_commit_holds_credentials(
    echoed: tuple[EchoingS3, EchoedWorld], said: io.StringIO
) -> None:
    proxy, world = echoed
    for name in ("a", "b", "c", "denied", "unheard"):
        world.landing.put(f"{name}.txt", f"{name}\n".encode())
    gone = world.landing.put("gone.txt", b"x\n")
    world.deliver(world.source_event("a.txt"), Entry("gone.txt", gone.size, gone.etag, gone.modified_ts))
    world.landing.delete(["gone.txt"])
    for kind in SweepKind:
        world.source_sweep().sweep(kind)
    world.drain()
    world.landing.put("d.txt", b"d\n")
    for kind in SweepKind:
        world.source_sweep().sweep(kind)
    proxy.everything = "SignatureDoesNotMatch"
    with pytest.raises(BlizzardError) as refused:
        world.drain()
    proxy.everything = ""
    kept = world.kept()
    found = {part for key in kept for part in key.split("/")[1:3]}
    assert {"pending", "receipts", "dead_letters"} <= found
    assert {world.identity.copy_key, world.identity.report_key} <= kept.keys()
    assert world.files() == {f"{name}.txt": [name] for name in "abc"}
    assert {path: error.partition(" answered ")[2][:3] for path, error in world.dead_files().items()} == {
        "denied.txt": "403",
        "unheard.txt": "418",
        "gone.txt": "",
    }
    assert min(proxy.refused[code] for code in ("InternalError", "AccessDenied", "Unheard")) > 0
    assert [key for key, body in kept.items() if repeated(body)] == []
    assert [state for state in world.delta.ever_committed if repeated(state or "")] == []
    assert repeated(f"{refused.value}{said.getvalue()}{world.log}") == []


class NobodyRuns(EmrServerless):
    """Lets every start be tried: it is not asked what is there already."""

    def active(self, pipeline: str) -> str | None:
        return None


def test_no_record_of_a_run_holds_credentials(refusing: RefusingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", refusing.endpoint)
    runtime = make_runtime({**ENVIRONMENT, "AWS_ENDPOINT_URL": refusing.endpoint}, FunctionLog(function_logger("t")))
    client = partial(runtime.client, "emr-serverless", max_attempts=1)
    store, lines = MemoryStore(Clock()), io.StringIO()
    source = published_source()
    Manifest(store, source.state_prefix, source.id).append([Entry("a", 1, "e", 0.0)], writer_id="w", now_ts=0.0)
    log = JsonLog(lines, lambda: 0.0)
    for number in range(3):
        dispatched = Dispatcher(
            PublishedPipeline(PIPELINE, "memory://store/", 0.0, (source,)),
            store=store,
            service=NobodyRuns(JobSettings.from_environment(emr_client.ENVIRONMENT), client),
            policy=POLICY,
            clock=lambda now_ts=100_000.0 * number: now_ts,
            new_id=lambda: uuid.uuid4().hex,
            log=Logs(log, log, log),
        ).dispatch()
        assert dispatched.error is None
    kept = {info.key: store.get(info.key).decode() for info in store.list("_blizzard/_runs/")}
    assert sum("The request signature we calculated does not match" in body for body in kept.values()) == 3
    assert [key for key, body in kept.items() if repeated(body)] == []
    assert repeated(lines.getvalue()) == []
