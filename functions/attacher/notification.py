"""A bucket's notification configuration as a value: with the stack's own entry, without it, and what is in its way.

A configuration has the form of GetBucketNotificationConfiguration. Nothing of it is changed in place, and whatever is
not the stack's own stays as it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

QUEUES = "QueueConfigurations"
KINDS = ("TopicConfigurations", QUEUES, "LambdaFunctionConfigurations")
ARNS = ("TopicArn", "QueueArn", "LambdaFunctionArn")
EVENTS = "s3:ObjectCreated:*"
NOT_ENCODED = "/!-_.*'()"
"""Besides letters and digits: S3 compares the value of a filter with the encoded key, so `date=` matches nothing."""

Configuration = Mapping[str, Any]
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attachment:
    """The stack's own entry. `family`: how the ids of all entries of the stack begin."""

    entry_id: str
    family: str
    queue_arn: str
    prefix: str

    def entry(self) -> Entry:
        entry = {"Id": self.entry_id, "QueueArn": self.queue_arn, "Events": [EVENTS]}
        if not self.prefix:
            return entry  # S3 refuses a filter without rules
        rule = {"Name": "prefix", "Value": quote(self.prefix, safe=NOT_ENCODED)}
        return {**entry, "Filter": {"Key": {"FilterRules": [rule]}}}

    def owns(self, entry: Entry) -> bool:
        """Its own entry, or one for the stack's queue that is in the way: another parameter of the stack set it, since
        a bucket may move between parameters, or it is of the time when the stack created the bucket."""
        found = str(entry.get("Id", ""))
        if found == self.entry_id:
            return True
        return entry.get("QueueArn") == self.queue_arn and (
            found.startswith(self.family) or _overlap(entry, self.entry())
        )


def attached(configuration: Configuration, attachment: Attachment) -> Configuration:
    """With exactly one entry of the stack. The same object when nothing has to change."""
    entries = list(configuration.get(QUEUES, ()))
    own = [entry for entry in entries if attachment.owns(entry)]
    wanted = attachment.entry()
    if [_content(entry) for entry in own] == [_content(wanted)]:
        return configuration
    return {**configuration, QUEUES: [*(entry for entry in entries if not attachment.owns(entry)), wanted]}


def detached(configuration: Configuration, entry_id: str) -> Configuration:
    """Without the entry of this id. The same object when there is none."""
    entries = list(configuration.get(QUEUES, ()))
    others = [entry for entry in entries if entry.get("Id") != entry_id]
    if len(others) == len(entries):
        return configuration
    rest = {name: value for name, value in configuration.items() if name != QUEUES}
    return {**rest, QUEUES: others} if others else rest


def has_entry(configuration: Configuration, entry: Entry) -> bool:
    return _content(entry) in [_content(found) for found in configuration.get(QUEUES, ())]


def lost(before: Configuration, after: Configuration) -> list[str]:
    """What `before` has and `after` has not, or has differently."""
    kept = {name: _content(entry) for name, entry in _named(after)}
    gone = [name for name, entry in _named(before) if kept.get(name) != _content(entry)]
    flag = "EventBridgeConfiguration"
    return [*gone, *([flag] if flag in before and flag not in after else [])]


def overlapping(configuration: Configuration, attachment: Attachment) -> list[str]:
    """The ids of others' entries that would announce some of the same objects. S3 refuses that, and names none."""
    wanted = attachment.entry()
    others = [(name, entry) for name, entry in _named(configuration) if not attachment.owns(entry)]
    return [name for name, entry in others if _overlap(entry, wanted)]


def _named(configuration: Configuration) -> Iterator[tuple[str, Entry]]:
    """S3 gives an id to each entry that is set without one."""
    for kind in KINDS:
        yield from ((str(entry.get("Id", "")), entry) for entry in configuration.get(kind, ()))


def _content(entry: Entry) -> tuple[str, str, frozenset[str], frozenset[tuple[str, str]]]:
    """What an entry says, however it is spelled: S3 answers `Prefix` for `prefix`."""
    arn = next((str(entry[name]) for name in ARNS if name in entry), "")
    return str(entry.get("Id", "")), arn, frozenset(entry.get("Events", ())), frozenset(_rules(entry).items())


def _rules(entry: Entry) -> dict[str, str]:
    rules: Iterable[Mapping[str, str]] = entry.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    return {rule["Name"].lower(): unquote(rule["Value"]) for rule in rules}


def _overlap(one: Entry, other: Entry) -> bool:
    return _same_events(one, other) and _same_keys(one, other)


def _same_events(one: Entry, other: Entry) -> bool:
    return any(_includes(mine, yours) or _includes(yours, mine) for mine in one["Events"] for yours in other["Events"])


def _includes(event: str, other: str) -> bool:
    return event == other or (event.endswith(":*") and other.startswith(event.removesuffix("*")))


def _same_keys(one: Entry, other: Entry) -> bool:
    mine, yours = _rules(one), _rules(other)
    prefixes, suffixes = [[rules.get(name, "") for rules in (mine, yours)] for name in ("prefix", "suffix")]
    return (prefixes[0].startswith(prefixes[1]) or prefixes[1].startswith(prefixes[0])) and (
        suffixes[0].endswith(suffixes[1]) or suffixes[1].endswith(suffixes[0])
    )
