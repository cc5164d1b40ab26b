"""What a rebuild found and did, as lines for people."""

from collections.abc import Iterator
from typing import Any

from blizzard.cli.rebuild_process import Told
from blizzard.log import one_line

SHOWN = 10
"""So many names are in the text."""
BLOCKING = {
    "missing": "are in the old table and in the source, but not in the new table: start the command again",
    "gone": "are in the old table, and the source does not have them any more: say --without-gone to go on without "
    "their rows",
    "refused": "are dead-lettered in the new table, and ingested in the old one: --without-gone goes on without their "
    "rows",
    "fewer_rows": "have rows that the new table lacks, such as repaired records: --without-gone goes on without these",
}
NOTED = {
    "overwritten": "have another content in the new table: they were overwritten",
    "other_rows": "have more rows in the new table",
}


def plan_lines(told: Told) -> list[str]:
    """What is about to be done, before the question."""
    return [one_line(line) for line in (*_states(told), *_tables(told), *_swap_steps(told))]


def result_lines(told: Told) -> list[str]:
    lines = [] if told.declined else [*_states(told, short=bool(told.rebuilt)), *_tables(told)]
    if told.compared and not told.swapped and not told.declined:
        lines.append("the new table did not take the place of the old one")
    return [one_line(line) for line in (*lines, *told.notes)]


def _states(told: Told, *, short: bool = False) -> Iterator[str]:
    for source, found in told.found.items():
        if source in told.refused:
            continue
        after = told.rebuilt.get(source)
        if after is not None:
            state = "well" if not after["problems"] else "not well yet: start the command again"
            yield f"{source}: rebuilt, {_size(after)}, sequence {after['sequence']:,}; {state}"
        elif not found["problems"]:
            yield f"{source}: nothing is wrong; {_size(found)}, sequence {found['sequence']:,}"
        elif not short:
            yield from _planned(source, found)
    for source, error in told.refused.items():
        yield f"{source}: refused: {error}"


def _size(found: dict[str, Any]) -> str:
    return f"{found['files']:,} {'partitions' if found['kind'] == 'topics' else 'files'}"


def _planned(source: str, found: dict[str, Any]) -> Iterator[str]:
    for problem in found["problems"]:
        yield f"{source}: {problem['text']}"
    in_part = f", {found['in_progress']:,} of them ingested in part" if found["kind"] == "files" else ""
    yield f"  {_size(found)} are known then{in_part}"
    if found["read_again"]:
        yield (
            f"  {found['read_again']:,} files that were ingested have no row in the table: they are read again. If "
            "somebody has deleted their rows on purpose, they come back"
        )
    for number, step in enumerate(found["steps"], 1):
        yield f"  {number}. {step}"


def _tables(told: Told) -> Iterator[str]:
    for source, found in told.compared.items():
        yield (
            f"{source}: {found['files']:,} files and {found['rows']:,} rows in the old table, "
            f"{found['new_files']:,} files and {found['new_rows']:,} rows in the new one"
        )
        for kind, text in {**BLOCKING, **NOTED}.items():
            if found[kind]:
                yield f"  {found[kind]:,} files {text}: {_names(found, kind)}"
        if found["deleted"]:
            yield from _deleted(found)
        if found["changed"]:
            yield from _changed(found)
        if found["not_compared"]:
            yield f"  the values of these columns were not compared: {', '.join(found['not_compared'])}"
        if found["problem"]:
            yield (
                "  rows were not counted, so nobody knows whether the new table lacks rows of others, or has rows that "
                f"were deleted or values that were changed: {found['problem']}. --without-others, --with-deleted and "
                "--with-changed together go on all the same"
            )
    if told.others:
        yield from _others(told.others)


def _deleted(found: dict[str, Any]) -> Iterator[str]:
    lost = (
        f", or data files of the table are lost ({found['lost_data_files']:,} of them: `blizzard audit` names them)"
        if found["lost_data_files"]
        else ""
    )
    yield (
        f"  {found['deleted_rows']:,} rows of {found['deleted']:,} files are no longer in the old table, so somebody "
        f"has deleted them{lost}, and they come back with the new one: delete them there, too, and start the command "
        f"again, or say --with-deleted: {_names(found, 'deleted')}"
    )


def _changed(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"  {found['changed_rows']:,} rows of {found['changed']:,} files have other values in the new table: "
        "somebody has changed them in one of the two, or their files were read otherwise then. Change them in the new "
        f"one, too, and start the command again, or say --with-changed: {_names(found, 'changed')}"
    )


def _names(found: dict[str, Any], kind: str) -> str:
    names = found["names"][kind][:SHOWN]
    more = f" and {found[kind] - len(names):,} more" if found[kind] > len(names) else ""
    return f"{', '.join(names)}{more}"


def _others(others: list[dict[str, Any]]) -> Iterator[str]:
    for each in others:
        whose = "name no source" if each["source"] is None else f"are of {each['source']}, which is no source of it"
        has = f", which has {each['new_rows']:,} of them" if each["new_rows"] else ""
        yield (
            f"{each['rows']:,} rows of the old table {whose}: nothing brings them into the new table{has}. Insert them "
            "there and start the command again, or say --without-others to go on without them"
        )


def _swap_steps(told: Told) -> Iterator[str]:
    if told.compared:
        yield "the old table gets no more rows then, and stays as it is; every job needs the changed configuration:"
        yield "  1. commit to the old table, without rows, that the new one has taken its place"
        yield "  2. ingest into the new table what has come since, and compare again"
        yield "  3. change `table_uri` in the configuration"
