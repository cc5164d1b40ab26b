"""The whole protocol under random arrivals, sweeps from stale states, crashes between any two calls, races and harm."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import invariant, precondition, rule

from blizzard.state.batch import OnOverwrite
from tests.unit.protocol_machine import KINDS, Protocol


class Overwriting(Protocol):
    """Files are overwritten too: the rows of a path are always those of one version."""

    @precondition(lambda self: self.puts)
    @rule(data=st.data(), kind=KINDS, deliver=st.booleans())
    def overwrite(self, data: st.DataObject, kind: str, deliver: bool) -> None:
        path = data.draw(st.sampled_from(sorted(path for path in self.puts if path.endswith(".txt")) or [""]))
        if path and self.world.source.head(path) is not None:
            self._write(path, "normal" if kind == "foreign" else kind)
            if deliver:
                self._deliver(self.undelivered[-1:])

    @invariant()
    def rows_of_a_file_are_of_one_version(self) -> None:
        versions = {(row.path, row.etag) for row in self.world.delta.rows}
        assert len(versions) == len({path for path, _ in versions})

    def what_is_settled_is_in_the_table_or_dead_lettered(self) -> None:
        """Which version must be there shows only in the end."""

    def only_bad_files_are_dead_lettered(self) -> None:
        """A file may have been bad in any of its versions."""

    def everything_is_there(self) -> None:
        held, dead = self.world.files(), self.world.dead_contents()
        for path, put in self.puts.items():
            info = self.world.source.head(path)
            if put.kind == "foreign" or info is None or (self._needs_its_event(path, put) and not put.announced):
                continue
            if put.kind == "poison" or self.policy is OnOverwrite.DEAD_LETTER:
                assert (path, info.etag) in dead or held.get(path, []) == self._good(put), path
            elif self.policy is OnOverwrite.REPLACE:
                assert held.get(path, []) == self._good(put), path


class Replacing(Overwriting):
    policy = OnOverwrite.REPLACE


class Refusing(Overwriting):
    policy = OnOverwrite.DEAD_LETTER


def with_examples(machine: type[Protocol], examples: int) -> type:
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples, stateful_step_count=50, derandomize=True, deadline=None, database=None
    )
    return case


TestProtocol = with_examples(Protocol, 150)
TestReplacing = with_examples(Replacing, 75)
TestRefusing = with_examples(Refusing, 60)
