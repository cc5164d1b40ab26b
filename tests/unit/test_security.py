"""What docs/security.md promises and no other test shows: no code from data, no shell, pinned dependencies, no
credentials in anything that is printed, forged events that do no harm; and that every test named there exists."""

import ast
import io
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from blizzard import spark_settings
from blizzard.errors import BlizzardError
from blizzard.log import JsonLog
from blizzard.manifest import Entry
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.decode import Limits
from spark_job.origin import Origin
from spark_job.task import ReadSettings
from spark_job.tasks import Task
from spark_job.write import Destination, TableLayout
from tests.unit.fakes import World

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
SHIPPED = ("blizzard", "functions", "spark_job", "infra")


@cache
def trees() -> dict[str, ast.Module]:
    files = (file for folder in SHIPPED for file in sorted((ROOT / folder).rglob("*.py")))
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in files}


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Each call with its file and what is called, as it is written."""
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield file, node, ast.unparse(node.func)


def imported() -> Iterator[tuple[str, str]]:
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((file, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield file, node.module


# --- The page ---


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text())
    assert len(named) > 30
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text())
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"


# --- No code, no template and no shell from data ---


def test_nothing_is_evaluated() -> None:
    forbidden = {"eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec", "importlib.__import__"}
    assert [(file, node.lineno) for file, node, name in calls() if name in forbidden] == []


def test_modules_are_imported_by_names_that_the_code_has() -> None:
    """One of our own commands; on the local Lambda the handler that the template names."""
    found = {file for file, _, name in calls() if name.rpartition(".")[2] == "import_module"}
    assert found == {"blizzard/cli/__init__.py", "infra/local/lambda_bootstrap.py"}


def test_nothing_is_read_that_can_build_objects() -> None:
    builders = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib", "yaml"}
    assert [(file, module) for file, module in imported() if module.partition(".")[0] in builders] == []
    loaders = [ast.unparse(node) for _, node, name in calls() if name.rpartition(".")[2] == "YAML"]
    assert loaders == ["YAML(typ='safe', pure=True)"]


def test_no_text_of_data_is_a_template() -> None:
    """`str.format` on anything but a text that stands in the code reads attributes of what it is given."""
    engines = {"jinja2", "mako", "chevron", "django"}
    assert [(file, module) for file, module in imported() if module.partition(".")[0] in engines] == []
    found = set()
    for file, node, name in calls():
        last = name.rpartition(".")[2]
        literal = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
        spark = [ast.unparse(arg) for arg in node.args] == ["'delta'"]
        if last in ("format_map", "vformat", "Template", "safe_substitute"):
            found.add(file)
        if last == "format" and isinstance(node.func, ast.Attribute) and not literal and not spark:
            found.add(file)
    assert found == {"infra/package/build.py"}, "names of files, from a table beside it"


def test_no_command_goes_through_a_shell() -> None:
    shells = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn"}
    found = [(file, node.lineno) for file, node, name in calls() if name in shells]
    found += [(file, node.lineno) for file, node, _ in calls() if any(word.arg == "shell" for word in node.keywords)]
    assert found == []


def test_a_command_is_a_list_of_words_and_not_one_text() -> None:
    starts = {"run", "Popen", "call", "check_call", "check_output"}
    for file, node, name in calls():
        if name.startswith("subprocess.") and name.rpartition(".")[2] in starts:
            first = node.args[0] if node.args else None
            assert not isinstance(first, ast.Constant | ast.JoinedStr | ast.BinOp), f"{file}:{node.lineno}"


def test_tls_is_never_left_out() -> None:
    off = [
        (file, node.lineno)
        for file, node, _ in calls()
        for word in node.keywords
        if word.arg in ("verify", "use_ssl", "check_hostname") and getattr(word.value, "value", None) is False
    ]
    assert off == []


# --- Dependencies ---


LOCKS = (
    "requirements.lock",
    "functions/requirements.txt",
    *(f"infra/tools/{tool}.lock" for tool in ("checkov", "sam", "uv")),
)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_has_one_version_and_its_hashes(lock: str) -> None:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE)
    entries = [entry for entry in re.split(r"(?<!\\)\n", text) if entry.strip()]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9][a-z0-9._-]*==[^\s;*]+ ", entry), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry[:80]


def test_every_jar_has_its_hash() -> None:
    lines = [line for line in (ROOT / "infra/setup/jars.lock").read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert all(re.match(r"[0-9a-f]{64}  \S+\.jar  [\w.-]+:[\w.-]+:[\w.-]+", line) for line in lines)


def test_packages_are_installed_with_their_hashes_and_none_beside_them() -> None:
    for file in ("infra/setup/venv.py", "infra/package/wheels.py", "infra/tools/environments.py"):
        assert "--require-hashes" in (ROOT / file).read_text(), file


# --- Credentials ---


ACCESS_KEY, SECRET, TOKEN = "AKIAQQQQQQQQQQQQQQQQ", "s3cr3t-key-of-a-test/ABCDEFGH", "t0ken-of-a-session-QQQQQQQQQQ=="
SIGNATURE = "5ignature0123456789abcdef"
REFUSALS = {
    "SignatureDoesNotMatch": 403,
    "AccessDenied": 403,
    "ExpiredToken": 400,
    "InvalidAccessKeyId": 403,
    "InternalError": 500,
    "NoSuchBucket": 404,
    "Unheard": 418,
}


class Refusing(BaseHTTPRequestHandler):
    """Answers each request with an error that repeats what it was sent, as S3 does for a wrong signature."""

    code = "AccessDenied"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = f"<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><StringToSign>{self.headers.get('X-Amz-Security-Token')}"
        said += f"</StringToSign><SignatureProvided>{SIGNATURE} {self.headers.get('Authorization')}</SignatureProvided>"
        body = '<?xml version="1.0" encoding="UTF-8"?>\n'
        body += f"<Error><Code>{self.code}</Code><Message>No.</Message>{said}</Error>"
        self.send_response(REFUSALS[self.code])
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body.encode())

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - as the server wants it

    def log_message(self, *said: object) -> None:
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


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
def test_no_error_and_no_line_of_the_log_holds_credentials(
    endpoint: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refusing, "code", code)
    said = io.StringIO()
    settings = S3Settings(endpoint, "eu-west-1", max_attempts=2, first_backoff_secs=0.001, max_backoff_secs=0.001)
    store = open_store("s3://landing/raw/", settings, log=JsonLog(said, lambda: 0.0))
    errors = [*asked(store)]
    assert len(errors) >= 7
    printed = "\n".join([*(str(error) for error in errors), said.getvalue()])
    for secret in (SECRET, TOKEN, SIGNATURE, ACCESS_KEY):
        assert secret not in printed
    traces = "\n".join(text for error in errors for text in chain(error))
    for secret in (SECRET, TOKEN):
        assert secret not in traces


def test_an_endpoint_that_cannot_be_reached_is_named_without_credentials(endpoint: str) -> None:
    settings = S3Settings("http://127.0.0.1:9", "eu-west-1", max_attempts=1, connect_timeout_secs=0.5)
    errors = [*asked(open_store("s3://landing/raw/", settings))]
    assert errors
    assert not any(secret in str(error) for error in errors for secret in (SECRET, TOKEN, ACCESS_KEY))


def test_what_travels_to_spark_and_to_its_tasks_holds_no_credentials(endpoint: str) -> None:
    conf = spark_settings.settings(jars_dir="jars", s3_endpoint=endpoint, s3_region="eu-west-1")
    destination = Destination("s3://lake/events", TableLayout("", (), (), 32, 1), "left/", "{}", Origin("a:b", 0, {}))
    task = Task("s3://landing/raw/", S3Settings(endpoint), ReadSettings(limits=Limits()), destination)
    texts = json.dumps(conf) + task.to_json()
    assert not any(secret in texts for secret in (SECRET, TOKEN, ACCESS_KEY))
    assert not any(re.search(r"(access|secret)[.-]?key|session[.-]?token|password", name, re.I) for name in conf)


# --- Exit codes ---


@pytest.mark.parametrize(
    "text", ["", "pipelines: {'e v': {table_uri: s3://lake/events}}", "a: &a [*a]", "\0", "[" * 9_999]
)
def test_the_job_refuses_a_bad_configuration_with_2_and_lines_of_json(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pipelines\n{}.yaml"
    file.write_text(text)
    job = [sys.executable, "-m", "spark_job.main", "--config", str(file), "--once"]
    done = subprocess.run(job, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["event"] for line in lines} == {"configuration_wrong"}


# --- Forged events ---


FORGED = Entry("c.txt", 10, "f" * 32, 100_000.0)
"""Of a file that is not there yet."""


@pytest.mark.parametrize(
    "forged",
    [
        FORGED,
        replace(FORGED, event_ts=-6e10),
        replace(FORGED, event_ts=2e11),
        replace(FORGED, size=0),
        replace(FORGED, size=2**63 - 1),
        replace(FORGED, sequencer="F" * 1_000),
        replace(FORGED, version_id="another"),
        replace(FORGED, path="zzzz.txt"),
    ],
    ids=["plain", "long ago", "far ahead", "empty", "huge", "last", "version", "above all"],
)
@pytest.mark.parametrize("known", [False, True], ids=["before the file", "after the file"])
def test_a_forged_event_loses_and_doubles_nothing(forged: Entry, known: bool) -> None:
    world = World()
    world.arrive("a.txt", "a0")
    if known:
        world.arrive("c.txt", "c0", "c1")
    world.drain()
    world.deliver(forged)
    world.drain()
    if not known:
        world.arrive("c.txt", "c0", "c1")
        world.drain()
    world.settle()
    world.arrive("d.txt", "d0")
    world.settle()
    world.settle()
    assert world.files() == {"a.txt": ["a0"], "c.txt": ["c0", "c1"], "d.txt": ["d0"]}
    assert world.doubled() == []
    assert set(world.dead_files()) <= {"c.txt", "zzzz.txt"}
