"""What speaks for each setting that `blizzard init` proposes, in the words of a comment."""

from collections.abc import Sequence

from blizzard.infer.findings import RuleFound, SourceFound
from blizzard.infer.pace import MAX_DELAY_SECS

FROM_FOLDERS = "from the names of the folders"
EXISTS = "the table exists; what a run would change there, `blizzard validate FILE --against-table` says"
_SPELLINGS = 5
OWN_NAMES = "a table cannot have the names of these keys, or only by column mapping"
REACHES_BACK = "lookback reaches back to the oldest file; lower it after the first run"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` of them, and how many there are besides."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def by_content(rule: RuleFound) -> str:
    if rule.opened < 2:
        return "by the content of the file that was opened" if rule.opened else ""
    of_which = f"all {rule.opened:,}" if rule.files == rule.opened else f"{rule.files:,} of the {rule.opened:,}"
    return f"by the content of {of_which} files that were opened"


def by_compression(rule: RuleFound) -> str:
    if rule.compression == "auto":
        return "the names say what the content is"
    return "by content; the names say another one"


def by_spellings(source: SourceFound) -> str:
    shown = listed([" and ".join(names) for names in source.spellings], _SPELLINGS)
    return f"no record has two of {shown}"


def by_times(source: SourceFound) -> str:
    if source.settle_delay_secs is None:
        return source.settle_why
    how = "the most that is proposed" if source.settle_delay_secs == MAX_DELAY_SECS else "this is twice as long"
    return f"{source.settle_why}; {how}"
