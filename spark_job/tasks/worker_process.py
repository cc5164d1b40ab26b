"""Settings of the processes that read files, and of the job's own."""

import gc
import sys
from zipimport import zipimporter

OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Of Python's garbage collector; by default it looks a hundred times as often."""


def collect_garbage_rarely() -> None:
    """A batch is hundreds of thousands of objects that stay. The collector would look through all of them again and
    again: a tenth of the time for 100,000 small files. Objects in cycles are few, and wait a little longer."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])


def forget_archives() -> None:
    """Drop the import system's finders for zip archives; an import from an archive creates its finder again.

    Before each task Spark calls `importlib.invalidate_caches`, and each finder then reads the directory of its archive
    in Python. PySpark is an archive with a finder for each of its packages: together some 0.2 seconds a task.
    """
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
