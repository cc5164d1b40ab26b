"""What a soak has measured of whatever could grow, for as long as that lasts: a life of the job, one of its JVM, and of
the table all of the run as well."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.proof.growth import BOUNDS, Judgement, Of, judged
from tests.proof.soak.kill_schedule import JVM_ROUNDS, YOUNG

ALL_JUDGED_SECS, ALL_JUDGED_ROUNDS = 1_800.0, JVM_ROUNDS + max(YOUNG)
"""A run of this length, by either measure, must have checked each bound against enough samples of one process."""

NOT_GROWN, IN_ALL = "times that it had not grown", " in the whole run"
WANTED = [
    *(f"{NOT_GROWN}: {name}" for name in BOUNDS),
    *(f"{NOT_GROWN}{IN_ALL}: {name}" for name, bound in BOUNDS.items() if bound.of is Of.TABLE),
]
"""The counts of a run in which all was judged."""

Series = Mapping[str, Sequence[float]]


class Samples:
    """`counts` says what was judged, and of the longest series what it was at first and at last."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._life = _empty()
        self._jvm = _empty()
        self._table = _empty()
        self._most: Counter[str] = Counter()
        """Samples of the longest series that was judged so far, by what they are of."""
        self._longest: Counter[str] = Counter()
        """The same of all series, judged or not."""

    def note(self, name: str, amount: float) -> None:
        """`name`: one of BOUNDS."""
        whose = BOUNDS[name].of
        (self._jvm if whose is Of.JVM else self._life)[name].append(amount)
        if whose is Of.TABLE:
            self._table[name].append(amount)

    def job_begins(self) -> None:
        self._life.clear()

    def jvm_begins(self) -> None:
        self._jvm.clear()

    def grown(self) -> list[str]:
        """Descriptions of what has grown, of all that was measured often enough. Call it before a process is killed."""
        return [*self._judge("", {**self._life, **self._jvm}), *self._judge(IN_ALL, self._table)]

    def unjudged(self, secs: float, rounds: int) -> list[str]:
        """What was never checked, because no process ran long enough, in a run that should be long enough; empty after
        a shorter run."""
        if secs < ALL_JUDGED_SECS and rounds < ALL_JUDGED_ROUNDS:
            return []
        return [
            f"{name} ({self._longest[name]} samples at most, expected {bound.needed})"
            for name, bound in BOUNDS.items()
            if name not in self._most
        ]

    def latest(self) -> Iterator[str]:
        """In words."""
        return (f"{name} {values[-1]:,.4g}" for name, values in {**self._life, **self._jvm}.items() if values)

    def _judge(self, over: str, series: Series) -> Iterator[str]:
        for name, samples in series.items():
            self._longest[name] = max(self._longest[name], len(samples))
            if (found := judged(name, samples)) is None:
                continue
            if found.grew:
                yield f"{found}{over}"
            else:
                self._counts[f"{NOT_GROWN}{over}: {name}"] += 1
            if found.samples >= self._most[name]:
                self._most[name] = found.samples
                self._say(found)

    def _say(self, found: Judgement) -> None:
        for what, amount in (
            (f"{found.unit} at first", found.first),
            (f"{found.unit} at last", found.last),
            ("samples", found.samples),
        ):
            self._counts[f"{what}: {found.name}"] = round(amount)


def _empty() -> dict[str, list[float]]:
    return defaultdict(list)
