"""The campaigns of the proof by the names that the command line knows."""

from collections.abc import Mapping
from importlib import import_module

from tests.proof.campaign import Campaign

MODULES: Mapping[str, str] = {
    "small-worlds": "tests.proof.interleavings.campaign",
    "kill": "tests.proof.kill.campaign",
    "kill-calls": "tests.proof.kill_calls.campaign",
    "race": "tests.proof.race.campaign",
    "race-calls": "tests.proof.race.calls",
    "bad-storage": "tests.proof.bad_storage.campaign",
    "bad-input": "tests.proof.bad_input.campaign",
    "formats": "tests.proof.formats.campaign",
    "engines": "tests.proof.engines.campaign",
    "cluster": "tests.proof.cluster.campaign",
    "log-life": "tests.proof.log_life.campaign",
    "takeover": "tests.proof.takeover.campaign",
    "kafka": "tests.proof.kafka.campaign",
    "rebuild": "tests.proof.rebuild.campaign",
    "soak": "tests.proof.soak.campaign",
    "audit": "tests.proof.audit.campaign",
}
"""Each is the `CAMPAIGN` of a module, which is imported only when it is run."""


def known() -> list[str]:
    return [*MODULES]


def load(module: str) -> Campaign:
    campaign: Campaign = import_module(module).CAMPAIGN
    return campaign
