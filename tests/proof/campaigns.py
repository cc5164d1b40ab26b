"""The campaigns of the proof by the names that the command line knows."""

from collections.abc import Mapping
from importlib import import_module

from tests.proof.campaign import Campaign

MODULES: Mapping[str, str] = {
    "small-worlds": "tests.proof.every_way",
    "kill": "tests.proof.kill",
    "kill-calls": "tests.proof.kill_calls",
    "race": "tests.proof.race",
    "race-calls": "tests.proof.race_calls",
    "bad-storage": "tests.proof.bad_storage",
    "bad-input": "tests.proof.bad_input",
    "log-life": "tests.proof.log_life",
    "takeover": "tests.proof.takeover",
    "soak": "tests.proof.soak",
}
"""Each is the `CAMPAIGN` of a module, which is imported only when it is run."""


def known() -> list[str]:
    return [*MODULES]


def load(module: str) -> Campaign:
    campaign: Campaign = import_module(module).CAMPAIGN
    return campaign
