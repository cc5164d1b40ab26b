"""How far a run has to read: a topic that is written to without a pause has no end that a run could reach."""

from collections.abc import Mapping

from blizzard.state.topic_checkpoint import Partition


class RunGoal:
    """The ends that the partitions had in the first plan of a run; once all of it is read, those of the plan after
    it."""

    def __init__(self) -> None:
        self._ends: Mapping[Partition, int] | None = None

    def forget(self) -> None:
        """As a run does that begins anew at the committed offsets."""
        self._ends = None

    def is_reached(self, ends: Mapping[Partition, int], waits: Mapping[Partition, int]) -> bool:
        """Asked once by each plan. `ends`: of the partitions now. `waits`: how many offsets before these are still to
        be read, as far as they can be. Whether nothing is left of what was there in the first plan. The first one is
        none that has reached it."""
        goal = {**ends} if self._ends is None else self._ends
        is_left = any(wait > 0 and ends[each] - wait < goal.get(each, 0) for each, wait in waits.items())
        is_first, self._ends = self._ends is None, goal if is_left else None
        return not is_left and not is_first
