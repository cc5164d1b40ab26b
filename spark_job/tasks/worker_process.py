"""What a process that runs Python for Spark need not do again for each task."""

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Let go of the finders of archives, which are made anew where something is imported from one.

    Before each task Spark calls `importlib.invalidate_caches`, and each finder then reads its archive's directory in
    Python. PySpark comes as an archive, with a finder for each of its packages: together some 0.2 seconds a task.
    """
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
