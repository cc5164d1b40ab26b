"""The answer of `blizzard audit` as text."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from blizzard.audit.audit import BAD
from blizzard.audit.reach import Fate
from blizzard.audit.report import AuditReport, FailedAudit, SampleAudit
from blizzard.cli.times import shown
from blizzard.log import one_line

SHOWN_NAMES = 20
SHOWN_PARTITIONS = 20


def show(report: AuditReport | FailedAudit) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(report.source, style="bold", markup=False)
    for line in lines_of(report) if isinstance(report, AuditReport) else _failed(report):
        console.print(one_line(line), markup=False)


def _failed(report: FailedAudit) -> Iterator[str]:
    yield f" problem        the source was not audited: {report.problem}"
    yield f" verdict        {report.verdict}"


def lines_of(report: AuditReport) -> Iterator[str]:
    """The answer for people, without its title."""
    totals = {str(fate): getattr(report, fate) for fate in Fate}
    yield f" objects        {report.objects:,}"
    for name, count in totals.items():
        yield f" {_words(name):<14} {count:,}{_rules(report) if name == Fate.SKIPPED else ''}"
    yield f" doubled        {report.doubled:,}"
    yield f" changed        {report.changed:,}"
    if report.gone:
        yield f" gone           {report.gone:,}, which the source no longer has"
    yield f" rows           {_rows(report)}"
    yield f" table version  {'none yet' if report.table_version is None else f'{report.table_version:,}'}"
    for kind in BAD:
        yield from _names(kind, report)
    yield from _partitions(report)
    for notice in report.notices:
        yield f" {notice.kind}: {notice.text}"
    if report.sample is not None:
        yield from _sample(report.sample)
    if report.repaired is not None:
        yield f" repaired: {_repaired(report.repaired)}"
    yield f" digest         {report.digest}"
    yield f" verdict        {report.verdict}"


def _repaired(count: int) -> str:
    return f"{count:,} files were announced again; the next run ingests them" if count else "nothing was to announce"


def _rules(report: AuditReport) -> str:
    return "".join(f", {count:,} by {rule}" for rule, count in sorted(report.skipped_by.items()))


def _rows(report: AuditReport) -> str:
    rows = report.rows
    if rows.problem is not None:
        return f"not compared: {rows.problem}"
    gone = f", {rows.gone:,} gone, {rows.unexplained:,} of them without a DELETE" if rows.gone else ""
    return f"{rows.found:,} found, {rows.expected:,} by the receipts{gone}"


def _sample(sample: SampleAudit) -> Iterator[str]:
    if sample.problem is not None:
        yield f" sample         could not be made, so no value was compared: {sample.problem}"
        return
    what = f"{sample.files:,} files and {sample.rows:,} rows read again"
    given = f", {sample.given:,} rows were given by an operator" if sample.given else ""
    yield f" sample         {what}, {len(sample.differ):,} files differ{given}"
    for file in sample.differ[:SHOWN_NAMES]:
        kinds = ("rows_missing", "rows_added", "values_different")
        yield f" differs: {file['path']}: {', '.join(f'{file[kind]:,} {_words(kind)}' for kind in kinds)}"
        for value in file["values"]:
            place = f"row {value['row']}, column {value['column']}"
            yield f"   {place}: {value['file']} in the file, {value['table']} in the table"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _names(kind: str, report: AuditReport) -> Iterator[str]:
    names = report.names[kind]
    for each in names[:SHOWN_NAMES]:
        facts = [_fact(name, value) for name, value in each.items() if name not in ("path", "etag")]
        yield f" {_words(kind)}: {each['path']}{' (' + ', '.join(facts) + ')' if facts else ''}"
    if len(names) > SHOWN_NAMES:
        yield f" {_words(kind)}: and {len(names) - SHOWN_NAMES:,} more; --json names all"


def _fact(name: str, value: Any) -> str:
    """Times as people read them."""
    if name.endswith("_ts"):
        return f"{_words(name.removesuffix('_ts'))} {shown(value)}"
    return f"{_words(name)} {value}"


def _partitions(report: AuditReport) -> Iterator[str]:
    """Those that are not simply committed."""
    odd = {name: counts for name, counts in report.partitions.items() if counts["committed"] != counts["objects"]}
    for name, counts in [*odd.items()][:SHOWN_PARTITIONS]:
        facts = (f"{count:,} {_words(fate)}" for fate, count in counts.items() if count)
        yield f" in {name or 'the root'}: {', '.join(facts)}"
    if len(odd) > SHOWN_PARTITIONS:
        yield f" in {len(odd) - SHOWN_PARTITIONS:,} more folders; --json has all"
