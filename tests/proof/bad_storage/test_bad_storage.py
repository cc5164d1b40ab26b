"""Nothing is lost or doubled over bad storage, errors say what happened, and deliberate faults are found."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from benchmarks.s3_stand_in import CREDENTIALS, stand_in
from blizzard.dispatch.service import ServiceBusy
from blizzard.environment import temporary_variables
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.memory import MemoryStore
from tests.proof.bad_storage import campaign
from tests.proof.bad_storage.campaign import CAMPAIGN, LOST_ANSWER
from tests.proof.bad_storage.dispatch import Runs
from tests.proof.bad_storage.proxy import DELAYED, MOST_LOSSES_OF_ONE, STRETCH, BadStorage, Outage, Plan, bad_storage
from tests.proof.bad_storage.real import IN_A_ROW, LATE, LOST_BY_CHANCE, SHORT, SparkBadStorage
from tests.proof.bad_storage.rounds import COMMITS, ROUNDS_A_TABLE, BadRound, CheapBadStorage
from tests.proof.bad_storage.spark import Ended, SparkJobs, spark_jobs
from tests.proof.bad_storage.variants import OF_REAL_JOB
from tests.proof.bad_storage.world import LAKE, LANDING, numbers_gone_wrong
from tests.proof.breaks import NO_LOOK, TWO_RUNS, UNCONDITIONAL_PUT
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.job_engines import JOBS_OF, LOCAL, SPARK, WENT_ON_FOR_THE_OTHER, found_with, went_on
from tests.proof.reduce import reduced
from tests.unit.dispatch_world import published_source
from tests.unit.fakes import Clock

CORE = frozenset({LOST_ANSWER, UNCONDITIONAL_PUT, TWO_RUNS})
TRIED = {CAMPAIGN.name: CORE | frozenset(OF_REAL_JOB)}
WORST = {
    "faults": 51,
    "answers lost of a segment": 1,
    "answers lost of a run's record": 1,
    "commits without an answer": 1,
    "runs of the dispatcher": 2,
    **dict.fromkeys((f"{who} ended well" for who in ("collector", "sweeper", "job", "dispatcher", "status")), 1),
}
"""The minimum of each count, without which a run has shown nothing."""
MOST_SEEDS = 10
"""Threads decide the number of requests, and so which of them fail: further seeds are tried until the worst faults
occurred."""
MOST_ROUNDS, FEWEST_FAULTS = 8, 1
"""Further runs of the real job until it has met more faults than this, apart from commits with lost responses."""


def short(folder: Path, rounds: int, variant: str = "", seed: int = 1) -> Run:
    return Run(seed, Budget(time.monotonic, rounds=rounds), folder, variant)


Rounds = Callable[[Run], SparkBadStorage]


@pytest.fixture(scope="module")
def over_a_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BadStorage, Rounds]]:
    """Rounds with the real job over a proxy, in one process for all tests."""
    folder = tmp_path_factory.mktemp("bad-storage")
    with ExitStack() as stack:
        stack.enter_context(temporary_variables(CREDENTIALS))
        s3 = stack.enter_context(stand_in({name: folder / name for name in (LANDING, LAKE)}, latency_secs=0.0))
        proxy = stack.enter_context(bad_storage(s3.environment["AWS_ENDPOINT_URL"]))
        jobs: list[SparkJobs] = []

        def one() -> SparkJobs:
            if not jobs:
                jobs.append(stack.enter_context(spark_jobs(folder, proxy, s3.environment)))
            return jobs[0]

        yield proxy, partial(SparkBadStorage, jobs=one, proxy=proxy)


def test_every_record_is_in_the_table_once_after_storage_faults(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, MOST_SEEDS + 1):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        run = short(folder, 2, seed=seed)
        CAMPAIGN.run(run)
        assert run.counts["seconds of outage"] >= 2
        counts.update(run.counts)
        if all(counts[what] >= least for what, least in WORST.items()):
            return
    pytest.fail(f"after {MOST_SEEDS} seeds expected at least {WORST}, found {counts}")


@pytest.mark.parametrize("variant", sorted(CORE))
def test_each_variant_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(short(tmp_path, 12, variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why)


@pytest.mark.spark
@pytest.mark.parametrize("variant", sorted(OF_REAL_JOB))
def test_the_real_job_broken_on_purpose_is_found_with_each_engine(tmp_path: Path, variant: str) -> None:
    run = short(tmp_path, 12, variant)
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(run)
    assert CAMPAIGN.variants[variant].finds(failed.value.why)
    assert {engine: run.counts[found_with(engine)] for engine in JOBS_OF} == {"spark": 1, "auto": 1}


@pytest.mark.spark
def test_the_real_job_succeeds_or_ends_with_a_clear_error_and_resumes(
    tmp_path: Path, over_a_proxy: tuple[BadStorage, Rounds]
) -> None:
    run = short(tmp_path, 1)
    rounds = over_a_proxy[1](run)
    for number in range(MOST_ROUNDS):
        rounds.round(number, random.Random(number + 8), runs=1)
        assert run.counts["answers lost of a Delta commit that was known again"] == number + 1
        assert run.counts["records of the real job"] > 0
        if run.counts["faults"] > number + 1 + FEWEST_FAULTS:
            return
    pytest.fail(f"{MOST_ROUNDS} runs over bad storage met too few faults: {run.counts}")


@pytest.mark.spark
def test_the_real_job_survives_lost_responses_delays_and_repeated_outages(
    tmp_path: Path, over_a_proxy: tuple[BadStorage, Rounds]
) -> None:
    run = short(tmp_path, 1)
    rounds = over_a_proxy[1](run)
    for number in range(MOST_ROUNDS):
        rng = random.Random(number)
        rounds.commits(number, rng, SHORT, well=False)
        rounds.slowly(number, rng, SHORT, well=False)
        rounds.outages(number, rng, SHORT)
        assert run.counts[IN_A_ROW] == SHORT.in_a_row * (number + 1)
        assert run.counts["records of the real job"] > 0
        if run.counts[LOST_BY_CHANCE] and run.counts[LATE]:
            return
    pytest.fail(f"after {MOST_ROUNDS} rounds no answer was lost by chance, or nothing was late: {run.counts}")


@pytest.mark.spark
def test_after_a_job_that_gave_up_the_other_engine_goes_on(
    tmp_path: Path, over_a_proxy: tuple[BadStorage, Rounds]
) -> None:
    run = short(tmp_path, 1)
    rounds = over_a_proxy[1](run)
    for number in range(MOST_ROUNDS):
        rounds.until_given_up(number, random.Random(number))
        if all(run.counts[both] for both in WENT_ON_FOR_THE_OTHER):
            return
    pytest.fail(f"after {MOST_ROUNDS} rounds not both engines gave up: {run.counts}")


@pytest.mark.spark
def test_a_failure_without_spark_is_reduced_to_the_smallest_steps(tmp_path: Path) -> None:
    bad = BadRound(7, 1.0, ("1", "2"))
    run = short(tmp_path, 1, NO_LOOK)
    with ExitStack() as stack:
        stack.enter_context(temporary_variables(CREDENTIALS))
        s3 = stack.enter_context(stand_in({name: tmp_path / name for name in (LANDING, LAKE)}, latency_secs=0.0))
        endpoint = s3.environment["AWS_ENDPOINT_URL"]
        again = CheapBadStorage(run, stack.enter_context(bad_storage(endpoint)), endpoint).again(bad)
        again([*bad.turns, STRETCH])
        # Half of these parts fail, so few tries are needed.
        found = reduced(Failed("as seen"), [STRETCH, *bad.turns, COMMITS], again, lambda: True)
    assert found.steps[0].startswith("on a new table 2 of 4 are enough: ")
    assert CAMPAIGN.variants[NO_LOOK].finds(found.steps[0])
    assert found.steps[1:] == ["round 7: 100% of all requests fail, with commits without an answer, for 1 turns"]


def test_twelve_rounds_include_long_outages_and_rounds_of_the_real_job() -> None:
    came: list[str] = []

    class Rounds:
        def __init__(self, name: str) -> None:
            self.name, self.rounds = name, 0

        @property
        def outage_is_due(self) -> bool:
            return self.rounds % ROUNDS_A_TABLE == ROUNDS_A_TABLE // 2

        def round(self, *_: object) -> None:
            came.append(self.name)
            self.rounds += 1

        def turn(self, turn: int, *_: object) -> None:
            came.append(f"{self.name}, turn {turn}")

        def outage(self, number: int, rng: random.Random, secs: tuple[float, float]) -> None:
            came.append(f"outage of {secs[0]:.0f} s: {self.name}")
            self.rounds += 1

    core, real = Rounds("core"), Rounds("real job")
    for number in range(12):
        campaign._long(number, random.Random(1), core, real)  # type: ignore[arg-type]
    assert [each for each in came if "turn" in each] == [f"real job, turn {turn}" for turn in range(4)]
    assert came.count("core") == 6
    assert came.count("outage of 60 s: core") == came.count("outage of 60 s: real job") == 1


def test_each_kind_of_round_of_the_real_job_occurs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over_a_proxy: tuple[BadStorage, Rounds]
) -> None:
    came: list[str] = []
    kinds = ("round", "commits", "slowly", "until_given_up", "outages")
    for kind in kinds:
        monkeypatch.setattr(SparkBadStorage, kind, lambda *_, kind=kind: came.append(kind))
    rounds = over_a_proxy[1](short(tmp_path, 1))
    for turn in range(campaign.ROUNDS_FOR_EACH_KIND // campaign.SPARK_EVERY):
        rounds.turn(turn, turn, random.Random(1))
    assert {*came} == {*kinds}


def test_outages_follow_one_another_and_each_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now_secs = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_secs)
    plan = Plan(1, outage=Outage(0, 10.0, "500 before"), then=[Outage(2, 5.0, "reset before")])

    def due() -> str:
        return plan.due("GET", "/landing/a", "read")[0]

    assert due() == "500 before"
    now_secs = 111.0
    assert [due(), plan.outage_is_over, due(), due(), due()] == ["", False, "", "", "reset before"]
    now_secs = 117.0
    assert [due(), plan.outage_is_over] == ["", True]
    plan.end()
    assert plan.counts["seconds of outage"] == 15


def test_random_faults_lose_the_responses_of_one_commit_up_to_the_limit() -> None:
    plan = Plan(1, commit_losses=1.0, losses=("answer lost",))
    commit, other = "/lake/_delta_log/0.json", "/lake/pending/0.json"
    found = [plan.due("PUT", commit, "conditional write")[0] for _ in range(MOST_LOSSES_OF_ONE + 1)]
    assert found == ["answer lost"] * MOST_LOSSES_OF_ONE + [""]
    assert plan.due("PUT", other, "conditional write")[0] == plan.due("GET", commit, "read")[0] == ""


def test_delays_are_counted_and_disallowed_faults_do_not_occur() -> None:
    late = Plan(1, delays=1.0, delay_secs=(0.1, 0.2))
    assert late.due("GET", "/landing/a", "read")[0] == DELAYED
    plan = Plan(1, 1.0, only=["reset before"])
    found = {plan.due("GET", f"/landing/{n}", "read")[0] for n in range(100)}
    assert found == {"", "reset before"}


def test_an_outage_begins_and_ends_at_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    now_secs = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_secs)
    plan = Plan(1, outage=Outage(after_requests=1, secs=60.0, fault="500 before"))

    def due() -> str:
        return plan.due("GET", "/landing/a", "read")[0]

    assert [due(), due(), plan.outage_is_over] == ["", "500 before", False]
    now_secs = 159.0
    assert [due(), plan.outage_left_secs(), plan.outage_is_over] == ["500 before", 1.0, False]
    now_secs = 161.0
    assert [plan.outage_is_over, due()] == [True, ""]
    plan.end()
    assert plan.counts["seconds of outage"] == 60
    assert plan.counts["fault in an outage: 500 before"] == 2


def test_stretches_differ_in_fault_and_duration() -> None:
    plan = Plan(3, stretches=1.0, stretch_secs=(0.0, 0.0))
    found = {plan.due("GET", f"/landing/{n}", "read")[0] for n in range(50)}
    plan.end()
    assert found == {""}
    assert len([what for what in plan.counts if what.startswith("outages: ")]) > 1


def test_a_number_written_by_two_writers_is_found() -> None:
    for folder in ("_runs/events", "events_landing/pending"):
        path, body = f"/lake/table-1/_blizzard/{folder}/7.json", b'{"writer": "a", "written_ts": 1.0}'
        assert not numbers_gone_wrong([(path, body), (path, body)])
        assert numbers_gone_wrong([(path, body), (path, b"{}")]) == f"{path} was written twice, by two writers"


def test_unreadable_run_records_and_records_without_a_run_are_found() -> None:
    clock, source = Clock(), published_source()
    store, runs, others = MemoryStore(clock), Runs(source, clock), Runs(source, clock)
    arrived = Entry("a.txt", 1, "etag", clock())
    Manifest(store, source.state_prefix, source.id).append([arrived], writer_id="w", now_ts=clock())
    runs.dispatch(store, "one")
    runs.dispatch(store, "two")
    assert [runs.service.started, runs.at_once(), runs.records_gone_wrong(store)] == [1, "", ""]
    assert "which nobody started" in others.records_gone_wrong(store)
    store.put(f"_blizzard/_runs/{source.pipeline}/{0:020d}.json", b"{torn")
    assert runs.records_gone_wrong(store).startswith("a run's record cannot be read: ")


def test_a_service_that_ignores_tokens_has_two_runs_at_once() -> None:
    clock, source = Clock(), published_source()
    found = []
    for honest in (True, False):
        service = Runs(source, clock, honest=honest).service
        started = {service.start(source.pipeline, "token") for _ in range(2)}
        found.append((len(started), service.most_active, service.active(source.pipeline)))
    assert found == [(1, 1, "token"), (2, 2, None)]


def test_a_start_whose_response_is_lost_is_carried_out() -> None:
    service = Runs(published_source(), Clock()).service
    service.losses.append(True)
    with pytest.raises(ServiceBusy):
        service.start("events", "token")
    assert service.start("events", "token") == "token"
    assert service.started == 1


def test_runs_that_go_on_after_one_that_gave_up_are_counted_by_engine(tmp_path: Path) -> None:
    run = short(tmp_path, 1)
    rounds = SparkBadStorage(run, lambda: pytest.fail("nobody runs"), None)  # type: ignore[arg-type]
    for engine, code in (("spark", 1), ("auto", 1), ("spark", 0), ("auto", 0), ("auto", 1), ("auto", 0)):
        rounds._count_engines(engine, Ended(code, []))
    assert run.counts == {went_on(LOCAL, SPARK): 1, went_on(LOCAL, LOCAL): 1}


def test_after_a_run_that_gave_up_it_is_the_turn_of_the_other_engine(tmp_path: Path) -> None:
    rounds = SparkBadStorage(short(tmp_path, 1), lambda: pytest.fail("nobody runs"), None)  # type: ignore[arg-type]
    rng = random.Random(1)
    for gave_up, other in (("spark", "auto"), ("auto", "spark")):
        rounds._count_engines(gave_up, Ended(1, []))
        assert {rounds._engine(rng) for _ in range(20)} == {other}
    rounds._count_engines("spark", Ended(0, []))
    assert {rounds._engine(rng) for _ in range(20)} == {*JOBS_OF}
    rounds._engines = ["auto"]
    rounds._count_engines("auto", Ended(1, []))
    assert rounds._engine(rng) == "auto"
