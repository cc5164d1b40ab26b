"""The README is short, and its figures are those of the pages that it quotes."""

import re

from tests.unit.documents import row_of, section, text


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(text("README.md").splitlines()) <= 150


def test_the_proof_figures_in_the_readme_are_those_of_the_proof_page() -> None:
    lost, doubled, kills, races, compared = (
        row_of("docs/proof.md", name)[1]
        for name in ("**records lost", "**records doubled", "processes killed", "races", "records compared")
    )
    _, losses, doubles, *_ = row_of("README.md", "Blizzard |")
    assert f"**{lost}** of {compared} compared records lost" in losses
    assert f"**{doubled}** doubled, over {kills} kills and {races} races" in doubles


def test_the_benchmark_figures_in_the_readme_are_those_of_the_performance_page() -> None:
    measured = section("docs/performance.md", "## In short").splitlines()
    times = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in measured
        if "Delta, second run" in line or "the same, first run" in line
    ]
    assert len(times) == 4
    for what, ours, sparks, _, goal, verdict in times:
        assert f"| {what} | {ours} s | {sparks} s | {goal}, {verdict} |" in text("README.md")
    ratio = row_of("docs/performance.md", "throughput over S3")[1].split()[0]
    assert re.search(rf"reaches {re.escape(ratio)} of the throughput\s+of a local disk", text("README.md"))


def test_the_figures_of_the_local_engine_in_the_readme_are_those_of_the_performance_page() -> None:
    def measured(goal: str) -> float:
        return float(row_of("docs/performance.md", f"engine | {goal}")[3].split()[0])

    secs, mb = measured("`blizzard run --once`, three small files"), measured("peak memory of a run of three files")
    told = f"{secs:.1f} seconds from the start of the process to its exit, and {round(mb, -1):.0f} MB."
    assert f"Three small files take {told}" in text("README.md")
    loop = 1 / measured("big, whole process")
    assert f"beside the local engine it takes {loop:.2f} of the time" in text("README.md")
