"""Calls that several expressions have in common, which are evaluated once for a batch."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from blizzard.config.expressions.syntax import Call, Expression, calls_of
from spark_job.expressions.evaluated import Evaluated


class CommonParts:
    """Of some expressions. Threads share it."""

    def __init__(self, expressions: Iterable[Expression]) -> None:
        self._expressions = tuple(expressions)  # while they live, nothing else has the ids of their calls
        texts = {id(call): repr(call) for one in self._expressions for call in calls_of(one)}
        often = Counter(texts.values())
        self._keys = {at: text for at, text in texts.items() if often[text] > 1}

    def begin(self) -> "KnownParts":
        """For one batch of rows."""
        return KnownParts(self._keys)


class KnownParts:
    """What was evaluated of one batch."""

    def __init__(self, keys: Mapping[int, str]) -> None:
        self._keys = keys
        self._known: dict[str, Evaluated] = {}

    def of(self, call: Call, evaluate: Callable[[], Evaluated]) -> Evaluated:
        key = self._keys.get(id(call))
        if key is None:
            return evaluate()
        if key not in self._known:
            self._known[key] = evaluate()
        return self._known[key]
