"""The entry of spark-submit: another Python than that of the archive is refused with a sentence, before any import."""

import ast
import subprocess
import sys

import pytest

from blizzard.config.spark_settings import EMR_PYTHON
from infra.package.build import ROOT
from spark_job.submit import PYTHON, wrong_python

ENTRY = ROOT / "spark_job" / "submit.py"


def test_the_archive_is_built_for_the_python_that_is_expected() -> None:
    assert ".".join(map(str, PYTHON)) == EMR_PYTHON


@pytest.mark.parametrize("found", [(3, 9), (3, 12)])
def test_another_python_is_refused(found: tuple[int, int]) -> None:
    reason = wrong_python(found, "/usr/bin/python3")
    assert reason is not None
    assert "expected Python 3.11" in reason
    assert f"found {found[0]}.{found[1]} (/usr/bin/python3)" in reason


def test_this_python_is_accepted() -> None:
    assert wrong_python(PYTHON, sys.executable) is None


def test_it_is_refused_before_anything_is_imported() -> None:
    """Run without the packages of the job: only the check can answer."""
    pretended = f"import sys, runpy; sys.version_info = (3, 9, 16); runpy.run_path({str(ENTRY)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", pretended], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("blizzard: expected Python 3.11")


def test_the_arguments_of_a_probe_do_not_reach_the_job() -> None:
    pretended = f"import sys, runpy; sys.version_info = (3, 11, 0); runpy.run_path({str(ENTRY)!r}, run_name='__main__')"
    command = [sys.executable, "-c", pretended, "--probe", "../up", "--config", "s3://artifacts/config-0.json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --probe: expected letters a to z, digits and hyphens, found '../up'" in done.stderr


def test_an_old_python_understands_the_entry() -> None:
    """Its syntax, and nothing that is evaluated before the check, such as annotations."""
    parsed = ast.parse(ENTRY.read_text(), feature_version=(3, 7))
    annotated = [
        node for node in ast.walk(parsed) if getattr(node, "annotation", None) or getattr(node, "returns", None)
    ]
    assert annotated == []
    imported = [node for node in parsed.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imported] == ["import sys"]
