"""Many events: none is lost by duplicates or failures, and a full invocation fits into the smallest function."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.collect import BATCH_EVENTS, body, simulate
from blizzard.config.load import parse_config
from blizzard.config.publish import to_published

ROOT = Path(__file__).parents[2]
MEMORY_MB = 128
LAMBDA_RUNTIME_MB = 30
"""Lambda's own part of the process, which is not measured here; the bare interpreter is."""

CONFIG = """
pipelines:
  events:
    table_uri: {folder}/lake
    sources:
      landing: {{uri: "s3://landing/raw-events/", pattern: "**/*.ndjson.gz", schema: "id STRING"}}
"""

INVOKE = """
import json, sys, time
from pathlib import Path
from functions.collector import handler as function

class Context:
    aws_request_id = function_name = invoked_function_arn = "r"
    memory_limit_in_mb = 128

seconds = []
for _ in range(3):
    event = json.loads(Path(sys.argv[1]).read_text())
    begun = time.process_time()
    answer = function.handler(event, Context())
    seconds.append(time.process_time() - begun)
    assert answer == {"batchItemFailures": []}
# Unlike getrusage's, this peak does not begin with what the process was forked from.
peak_kb = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
print(json.dumps({"peak_mb": int(peak_kb) / 1024, "secs": min(seconds)}), file=sys.stderr)
"""


def test_every_file_is_in_the_manifest_despite_duplicates_and_failures() -> None:
    outcome = simulate(20_000, fail_every=8)
    assert (outcome.missing, outcome.distinct_paths) == (0, 20_000)
    assert outcome.deliveries > 20_000
    assert outcome.entries > 20_000, "some came again in another batch, and the job drops these"
    assert outcome.invocations < 200


def test_without_duplicates_and_failures_each_file_is_in_the_manifest_once() -> None:
    outcome = simulate(5_000, fail_every=0)
    assert outcome.missing == 0
    assert outcome.entries <= outcome.deliveries
    assert outcome.puts == outcome.invocations
    assert outcome.lists <= 2 * outcome.invocations + 1, "a warm collector lists before and after each append"


def test_a_full_invocation_takes_a_second_and_128_mb(tmp_path: Path) -> None:
    config, event = tmp_path / "config.json", tmp_path / "event.json"
    config.write_text(to_published(parse_config(CONFIG.format(folder=tmp_path), {})))
    records = [{"messageId": str(n), "receiptHandle": "x" * 400, "body": body(n)} for n in range(BATCH_EVENTS)]
    event.write_text(json.dumps({"Records": records}))
    environment = {
        "BLIZZARD_CONFIG": str(config),
        "AWS_LAMBDA_FUNCTION_NAME": "collector",
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
    }
    done = subprocess.run(
        [sys.executable, "-c", INVOKE, str(event)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stderr.splitlines()[-1])
    entries = [json.loads(path.read_text())["entries"] for path in (tmp_path / "lake").rglob("pending/*.json")]
    assert [len(segment) for segment in entries] == [BATCH_EVENTS] * 3
    assert measured["peak_mb"] < MEMORY_MB - LAMBDA_RUNTIME_MB
    assert measured["secs"] < 1.0, "processor seconds, since other tests may run at the same time"
