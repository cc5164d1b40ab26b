"""`make demo-kafka` ends well."""

import re
import subprocess
import sys

from infra.local.demo.topics import PARTITIONS
from infra.local.processes.checkout import CHECKOUT


def test_the_demo_of_topics_accounts_for_every_message() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "infra.local.demo.topics"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=CHECKOUT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"the job reads a batch of {PARTITIONS} partitions, and is killed before it commits" in ended.stdout
    assert re.search(r"a new job has committed [1-9][\d,]* rows;", ended.stdout)
    assert "missing 0, doubled 0, never committed 0, in the wrong place 0" in ended.stdout
    assert "blizzard audit: good, 33,154 committed, 346 dead-lettered" in ended.stdout
    assert ended.stdout.endswith("Every message once.\n")
