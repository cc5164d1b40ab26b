"""A state machine of the whole protocol, with random arrivals, stale sweeps, crashes, races and damage."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import note
from hypothesis.errors import InvalidArgument
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from blizzard.errors import RetryableError
from blizzard.manifest.segments import Entry
from blizzard.state.batch import OnOverwrite
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.checkpoint_codec import BaseSettings
from blizzard.state.watermark import SourceProgress, split_path
from blizzard.sweep.sweeper import OutOfTime
from spark_job.loop.ingest import MAX_LAG_SEGMENTS, Ingest
from tests.unit import fakes
from tests.unit.fakes import DAY_SECS, POISON, Crash, Days, World, crash

PARTITIONS = st.sampled_from(["", "misc", "today", "today/h=1", "yesterday", "long ago"])
LETTERS = st.sampled_from("abcdef")
KINDS = st.sampled_from(["normal", "normal", "normal", "empty", "large", "poison", "with a bad record", "foreign"])
DISTURBANCES = st.none() | st.tuples(
    st.integers(1, 70),
    st.sampled_from(
        [
            "crash",
            "crash",
            "another job",
            "wipe",
            "file",
            "sweep",
            "late sweep",
            "spoil state",
            "forget copy",
            "lose bases",
        ]
    ),
)
STALENESS = st.sampled_from([0, 0, 0, 1, 2, 5, 99])
"""How many commits old the state is from which a sweep starts."""
MAX_CALLS = 20_000
"""A run with more calls is taken for an endless loop."""


@dataclass(slots=True)
class Put:
    """A file that was put into the source."""

    kind: str
    records: tuple[str, ...]
    old: bool
    """Whether its partition had already left the window."""
    hidden: bool
    """Whether a watermark may already have been above it."""
    announced: bool = False


class Protocol(RuleBasedStateMachine):
    """Files are never overwritten here, so each must be in the table exactly once."""

    policy = OnOverwrite.IGNORE

    def __init__(self) -> None:
        super().__init__()
        self.world = World(
            fakes.settings(
                on_overwrite=self.policy,
                window=Days(),
                interval_files=3,
                interval_bytes=60,
                late_overlap_secs=1.0,
                max_attempts=50,
                bases=BaseSettings(max_commit_bytes=160, fraction=3),
            )
        )
        self.puts: dict[str, Put] = {}
        self.undelivered: list[Entry] = []
        self.delivered: list[Entry] = []
        self.running: Ingest | None = None
        self.busy = False
        self.checked = 0

    # -- arrivals

    @rule(files=st.lists(st.tuples(PARTITIONS, LETTERS, KINDS, st.booleans()), min_size=1, max_size=6))
    def write_files(self, files: list[tuple[str, str, str, bool]]) -> None:
        for partition, letter, kind, deliver in files:
            self._put_file(partition, letter, kind, deliver)

    @rule(letters=st.lists(LETTERS, min_size=5, max_size=9), partition=st.sampled_from(["misc", "today"]))
    def put_many_and_announce_them_in_any_order(self, letters: list[str], partition: str) -> None:
        for letter in letters:
            self._put_file(partition, letter, "normal", deliver=False)
        self._deliver(self.undelivered[-len(letters) :][::-1])

    def _put_file(self, partition: str, letter: str, kind: str, deliver: bool) -> None:
        folder = self._folder(partition)
        name = f"{letter}{len(self.puts):03d}" + (".tmp" if kind == "foreign" else ".txt")
        path = f"{folder}/{name}" if folder else name
        self._write(path, kind)
        if deliver and kind != "foreign":
            self._deliver(self.undelivered[-1:])

    def _write(self, path: str, kind: str) -> None:
        partition, name = split_path(path)
        count = {"empty": 0, "large": 20}.get(kind, 2)
        records = [f"{name}-{len(self.world.contents)}-{n}" for n in range(count)]
        if kind == "with a bad record":
            records[0] = "!" + records[0]
        raw = POISON + name.encode() if kind == "poison" else None
        hidden = self.busy or self._may_be_passed(path)
        self.puts[path] = Put(kind, tuple(records), self._is_old(partition), hidden)
        event = self.world.put(path, *records, raw=raw)
        if kind != "foreign":
            self.undelivered.append(event)

    def _folder(self, partition: str) -> str:
        now_ts = self.world.clock.now_ts
        days = {"today": 1, "yesterday": 2, "long ago": 6}
        day, slash, rest = partition.partition("/")
        return Days().oldest_folder(now_ts, days[day]) + slash + rest if day in days else partition

    def _is_old(self, partition: str) -> bool:
        folder = Days().folder_of(partition)
        return folder is not None and folder < Days().oldest_folder(self.world.clock.now_ts, 2)

    def _may_be_passed(self, path: str) -> bool:
        partition, name = split_path(path)
        folder = Days().folder_of(partition)
        for state in self.world.states():
            if SourceProgress.from_checkpoint(state, Days().folder_of).is_settled(path):
                return True
        for sweep in self.world.sweeps():
            if any(mark.partition == partition and name <= mark.through for mark in sweep.marks):
                return True
            if sweep.closing is not None and folder is not None and folder <= sweep.closing.through:
                return True
        return False

    @precondition(lambda self: self.undelivered)
    @rule(data=st.data())
    def deliver_some(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.undelivered), min_size=1, max_size=4, unique=True))
        self._deliver(chosen)

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        self._deliver([data.draw(st.sampled_from(self.delivered))])

    def _deliver(self, events: list[Entry]) -> None:
        self.world.deliver(*events)
        for event in events:
            self.puts[event.path].announced = True
            self.delivered.append(event)
            if event in self.undelivered:
                self.undelivered.remove(event)

    @precondition(lambda self: self.puts)
    @rule(data=st.data())
    def delete_file(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.puts)))
        self.world.source.delete([path])

    @rule(secs=st.sampled_from([5.0, 61.0, 400.0, DAY_SECS]))
    def time_passes(self, secs: float) -> None:
        self.world.clock.advance(secs)

    # -- work

    @rule(staleness=STALENESS, disturbance=DISTURBANCES, secs=st.sampled_from([None, None, 0.002, 0.01, 0.03]))
    def sweep(self, staleness: int, disturbance: tuple[int, str] | None, secs: float | None) -> None:
        self._disturbed(lambda: self._sweep(staleness, secs, late=False), disturbance)

    @rule(staleness=STALENESS, disturbance=DISTURBANCES, secs=st.sampled_from([None, None, 0.002, 0.01, 0.03]))
    def late_sweep(self, staleness: int, disturbance: tuple[int, str] | None, secs: float | None) -> None:
        self._disturbed(lambda: self._sweep(staleness, secs, late=True), disturbance)

    def _sweep(self, staleness: int = 0, secs: float | None = None, *, late: bool) -> None:
        deadline_ts = float("inf") if secs is None else self.world.clock.now_ts + secs
        begin = self.world.late_sweep if late else self.world.sweep
        with suppress(OutOfTime):
            begin(self._state(staleness), deadline_ts=deadline_ts, segment_entries=3)

    def _state(self, staleness: int) -> Checkpoint | None:
        """The state so many commits ago. None: the copy."""
        states = self.world.states()
        if not staleness:
            return None
        return states[-1 - staleness] if len(states) > staleness else self.world.unknown()

    @rule(disturbance=DISTURBANCES)
    def drain(self, disturbance: tuple[int, str] | None) -> None:
        self._disturbed(lambda: self.world.job().drain(), disturbance)

    @rule(draining=st.booleans(), turns=st.integers(1, 4), disturbance=DISTURBANCES)
    def turn(self, draining: bool, turns: int, disturbance: tuple[int, str] | None) -> None:
        self._disturbed(lambda: self._turn(draining, turns), disturbance)

    def _turn(self, draining: bool, turns: int) -> None:
        self.running = self.running or self.world.job()
        for _ in range(turns):
            try:
                self.running.step(draining=draining)
            except RetryableError:
                return

    # -- harm

    @rule(
        harm=st.sampled_from(
            [
                "wipe",
                "corrupt a segment",
                "forget copy",
                "spoil state",
                "lose bases",
                "tear a base",
                "lose a commit",
                "lose an answer",
                "job dies",
            ]
        ),
        which=st.integers(0, 9),
    )
    def do_harm(self, harm: str, which: int) -> None:
        world = self.world
        numbers = world.segments()
        if harm == "wipe":
            self._wipe()
        elif harm == "corrupt a segment" and numbers:
            number = numbers[which % len(numbers)]
            self._unannounce([number])
            world.corrupt_segment(number)
        elif harm == "forget copy":
            world.forget_copy()
        elif harm == "spoil state":
            self._spoil_state()
        elif harm == "lose bases":
            self._lose_bases()
        elif harm == "tear a base" and (bases := world.bases()):
            world.state.put(bases[which % len(bases)], b"torn")
        elif harm == "lose a commit":
            world.delta.faults.append("lost")
        elif harm == "lose an answer":
            world.delta.faults.append("answer lost")
        elif harm == "job dies":
            self.running = None

    def _wipe(self) -> None:
        self._unannounce(self.world.segments())
        self.world.wipe()

    def _unannounce(self, numbers: list[int]) -> None:
        """The events in these segments are lost, unless they were consumed already."""
        for number in numbers:
            for path in self.world.paths_of(number):
                self.puts[path].announced = False

    def _spoil_state(self) -> None:
        delta = self.world.delta
        if delta.commits:
            delta.spoil(delta.commits[-1].version)

    def _lose_bases(self) -> None:
        self.world.state.delete(self.world.bases())

    def _disturbed(self, work: Callable[[], object], disturbance: tuple[int, str] | None) -> None:
        """Do the work; just before the n-th of its calls, something else happens."""
        if disturbance is not None:
            n, name = disturbance
            self.world.calls.before(n, self._action(name))
        self.world.calls.at_most(MAX_CALLS)
        try:
            work()
        except Crash:
            self.running = None
        finally:
            self.world.calls.forget()

    def _action(self, name: str) -> Callable[[], None]:
        def put() -> None:
            self.busy = True
            self._put_file("today", "a", "normal", deliver=False)
            self.busy = False

        actions: dict[str, Callable[[], object]] = {
            "crash": crash,
            "another job": self.world.drain,
            "wipe": self._wipe,
            "file": put,
            "sweep": lambda: self._sweep(late=False),
            "late sweep": lambda: self._sweep(late=True),
            "spoil state": self._spoil_state,
            "forget copy": self.world.forget_copy,
            "lose bases": self._lose_bases,
        }

        def act() -> None:
            with suppress(InvalidArgument):  # a thread that asks for a file's size takes no notes
                note(f"    meanwhile: {name}")
            actions[name]()

        return act

    # -- what must hold after each step

    @invariant()
    def nothing_is_doubled(self) -> None:
        assert self.world.doubled() == []

    @invariant()
    def every_row_is_the_source_s(self) -> None:
        for row in self.world.delta.rows:
            assert self.world.contents[row.path, row.etag].decode().splitlines()[row.row] == row.value

    @invariant()
    def each_commit_follows_the_one_before(self) -> None:
        commits = [commit for commit in self.world.delta.commits if commit.txns]
        assert [next(iter(commit.txns.values())) for commit in commits] == list(range(len(commits)))

    @invariant()
    def states_are_bounded_and_watermarks_only_grow(self) -> None:
        commits = self.world.delta.commits
        for version in range(max(self.checked, 1), len(commits)):
            state, before = self.world.state_of(version), self.world.state_of(version - 1)
            if state is None:
                continue
            settling = SourceProgress.from_checkpoint(state, Days().folder_of)
            assert state.sequence == commits[version].txns[self.world.identity.app_id]
            assert FINISHED not in state.files.values()
            assert all(self._may_be_in_progress(path) for path in state.files)
            if before is not None:
                for partition, name in before.partition_watermarks.items():
                    assert settling.is_closed(partition) or state.partition_watermarks[partition] >= name
        self.checked = len(commits)

    def _may_be_in_progress(self, path: str) -> bool:
        """Whether the file is, or was, larger than a batch."""
        limit = self.world.settings.rules.interval_bytes
        return any(len(data) > limit for (name, _), data in self.world.contents.items() if name == path)

    @invariant()
    def what_is_settled_is_in_the_table_or_dead_lettered(self) -> None:
        states = self.world.states()
        if not states:
            return
        settling = SourceProgress.from_checkpoint(states[-1], Days().folder_of)
        held, dead = self.world.files(), self.world.dead_files()
        for path, put in self.puts.items():
            is_there = self.world.source.head(path) is not None and path.endswith(".txt")
            if is_there and not put.hidden and not self._needs_its_event(path, put) and settling.is_settled(path):
                assert path in dead or self._good(put) == held.get(path, []), path

    @invariant()
    def only_bad_files_are_dead_lettered(self) -> None:
        for path in self.world.dead_files():
            assert self.puts[path].kind == "poison" or self.world.source.head(path) is None

    @staticmethod
    def _good(put: Put) -> list[str]:
        return [record for record in put.records if not record.startswith("!")]

    def _needs_its_event(self, path: str, put: Put) -> bool:
        """A cold start skips files older than the window; sweeps skip files that come after their day has left it."""
        folder = Days().folder_of(split_path(path)[0])
        return put.old or (folder is not None and folder <= self.world.cold_through())

    # -- what must hold in the end

    def teardown(self) -> None:
        self.world.delta.faults.clear()
        self.world.calls.at_most(3 * MAX_CALLS)
        self.world.settle()
        self.everything_is_there()
        commits = len(self.world.delta.commits)
        self.world.drain()
        assert len(self.world.delta.commits) == commits
        assert len(self.world.segments()) <= MAX_LAG_SEGMENTS + 2

    def everything_is_there(self) -> None:
        held, dead, records = self.world.files(), self.world.dead_files(), self.world.dead_records()
        for path, put in self.puts.items():
            if put.kind == "foreign":
                assert path not in held
            elif self.world.source.head(path) is None or (self._needs_its_event(path, put) and not put.announced):
                assert held.get(path, []) in ([], self._good(put)) or path in dead
            elif put.kind == "poison":
                assert path in dead, path
            else:
                assert held.get(path, []) == self._good(put), path
                assert len(set(records.get(path, []))) == len(put.records) - len(self._good(put))
