"""What a rebuild found and did, as lines for people."""

from collections.abc import Iterator
from typing import Any

from blizzard.cli.rebuild_process import Told
from blizzard.log import one_line

SHOWN = 10
"""So many names are in the text."""
BLOCKING = {
    "gone": "are in the old table, and the source does not have them any more",
    "refused": "are dead-lettered in the new table, and ingested in the old one",
    "fewer_rows": "have rows that the new table lacks, such as repaired records",
}
"""Files with rows that `--without-gone` leaves out."""
NOT_COUNTED = ("without_others", "with_deleted", "with_changed")
"""The options of a swap that go on together where rows were not counted."""
MISSING = {
    "missing": "are in the old table and in the source, but not in the new table: start the command again",
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
            yield f"{source}: rebuilt, {_size(after)}, {_sequence(after)}; {state}"
        elif not found["problems"]:
            yield f"{source}: nothing is wrong; {_size(found)}, {_sequence(found)}"
        elif not short:
            yield from _planned(source, found)
    for source, error in told.refused.items():
        yield f"{source}: refused: {error}"


def _size(found: dict[str, Any]) -> str:
    return f"{found['files']:,} {'partitions' if found['kind'] == 'topics' else 'files'}"


def _sequence(found: dict[str, Any]) -> str:
    return "no commit yet" if found["sequence"] is None else f"sequence {found['sequence']:,}"


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
        left_out = _wish(told, "without_gone", "say --without-gone to go on without their rows")
        blocking = {kind: f"{text}{left_out}" for kind, text in BLOCKING.items()}
        for kind, text in {**MISSING, **blocking, **NOTED}.items():
            if found[kind]:
                yield f"  {found[kind]:,} files {text}: {_names(found, kind)}"
        if found["deleted"]:
            yield _deleted(told, found)
        if found["changed"]:
            yield _changed(told, found)
        if found["not_compared"]:
            yield f"  the values of these columns were not compared: {', '.join(found['not_compared'])}"
        if found["problem"]:
            yield _not_counted(told, found)
    yield from _others(told)


def _wish(told: Told, option: str, otherwise: str) -> str:
    """What an option does, if it was given; `otherwise`: what is to be done without it."""
    return f", which --{option.replace('_', '-')} accepts" if told.accepted.get(option) else f": {otherwise}"


def _not_counted(told: Told, found: dict[str, Any]) -> str:
    wanted = [f"--{name.replace('_', '-')}" for name in NOT_COUNTED if not told.accepted.get(name)]
    hint = f"say {', '.join(wanted)} to go on all the same" if wanted else "the options that were given accept this"
    return (
        "  rows were not counted, so nobody knows whether the new table lacks rows of others, or has rows that were "
        f"deleted or values that were changed: {found['problem']}. {hint[0].upper()}{hint[1:]}"
    )


def _deleted(told: Told, found: dict[str, Any]) -> str:
    lost = (
        f", or data files of the table are lost ({found['lost_data_files']:,} of them: `blizzard audit` names them)"
        if found["lost_data_files"]
        else ""
    )
    otherwise = "delete them there, too, and start the command again, or say --with-deleted"
    return (
        f"  {found['deleted_rows']:,} rows of {found['deleted']:,} files are no longer in the old table, so somebody "
        f"has deleted them{lost}, and they come back with the new one{_wish(told, 'with_deleted', otherwise)}: "
        f"{_names(found, 'deleted')}"
    )


def _changed(told: Told, found: dict[str, Any]) -> str:
    otherwise = "change them in the new one, too, and start the command again, or say --with-changed"
    return (
        f"  {found['changed_rows']:,} rows of {found['changed']:,} files have other values in the new table: "
        "somebody has changed them in one of the two, or their files were read otherwise then"
        f"{_wish(told, 'with_changed', otherwise)}: {_names(found, 'changed')}"
    )


def _names(found: dict[str, Any], kind: str) -> str:
    names = found["names"][kind][:SHOWN]
    more = f" and {found[kind] - len(names):,} more" if found[kind] > len(names) else ""
    return f"{', '.join(names)}{more}"


def _others(told: Told) -> Iterator[str]:
    otherwise = "insert them there and start the command again, or say --without-others to go on without them"
    for each in told.others:
        whose = "name no source" if each["source"] is None else f"are of {each['source']}, which is no source of it"
        has = f", which has {each['new_rows']:,} of them" if each["new_rows"] else ""
        yield (
            f"{each['rows']:,} rows of the old table {whose}: nothing brings them into the new table{has}"
            f"{_wish(told, 'without_others', otherwise)}"
        )


def _swap_steps(told: Told) -> Iterator[str]:
    if told.compared:
        yield "the old table gets no more rows then, and stays as it is; every job needs the changed configuration:"
        yield "  1. commit to the old table, without rows, that the new one has taken its place"
        yield "  2. ingest into the new table what has come since, and compare again"
        yield "  3. change `table_uri` in the configuration"
