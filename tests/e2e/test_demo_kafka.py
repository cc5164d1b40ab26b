"""`make demo-kafka` ends well."""

import subprocess
import sys

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
    assert "missing 0, doubled 0, never committed 0, in the wrong place 0" in ended.stdout
    assert "blizzard audit: good, 33,154 committed, 346 dead-lettered" in ended.stdout
    assert ended.stdout.endswith("Every message once.\n")
