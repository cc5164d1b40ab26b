"""Python for Spark, task after task in one process."""

import gc
import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from spark_job.tasks.worker_process import (
    OBJECTS_BETWEEN_COLLECTIONS,
    collect_garbage_rarely,
    forget_archives,
)


def test_archives_are_not_read_again_and_can_still_be_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("first", "second"):
            file.writestr(f"blizzard_{name}/__init__.py", "")
            file.writestr(f"blizzard_{name}/part.py", f"name = {name!r}")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("blizzard_first.part").name == "first"

    def finders() -> list[str]:
        return [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]

    assert finders()
    others = {path for path in sys.path_importer_cache if path not in finders()}
    forget_archives()
    assert finders() == []
    assert others <= {*sys.path_importer_cache}
    importlib.invalidate_caches()
    assert importlib.import_module("blizzard_second.part").name == "second"
    for name in ("blizzard_first", "blizzard_second"):
        for module in (name, f"{name}.part"):
            del sys.modules[module]


def test_garbage_is_collected_rarely_but_still_is() -> None:
    before = gc.get_threshold()
    try:
        collect_garbage_rarely()
        assert gc.isenabled()
        assert gc.get_threshold() == (OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    finally:
        gc.set_threshold(*before)
