"""All fakes in one module, for tests that need several of them."""

from tests.unit.memory_reader import POISON, REFUSED, MemoryReader
from tests.unit.memory_table import MemoryDelta, MemoryRows, MemoryTable, Row
from tests.unit.source_world import DAY_SECS, Days, World, settings
from tests.unit.watched_calls import Calls, Clock, Crash, WatchedStore, crash

__all__ = [
    "DAY_SECS",
    "POISON",
    "REFUSED",
    "Calls",
    "Clock",
    "Crash",
    "Days",
    "MemoryDelta",
    "MemoryReader",
    "MemoryRows",
    "MemoryTable",
    "Row",
    "WatchedStore",
    "World",
    "crash",
    "settings",
]
