"""What the listing of a local source leaves out: links, names that are not UTF-8, and what is no regular file."""

from dataclasses import dataclass, field

from blizzard.audit.source import AuditedSource
from blizzard.storage.keys import is_relative_path

OBJECTS_NOT_LISTED = "objects_not_listed"


@dataclass(slots=True)
class LeftOut:
    """The log of a store. `found`: why, by path; bytes that are not UTF-8 are escaped in it."""

    found: dict[str, str] = field(default_factory=dict)

    def __call__(self, event: str, /, **fields: object) -> None:
        if event == "object_skipped":
            self.found[str(fields["key"])] = str(fields["reason"])


def why_left_out(source: AuditedSource, path: str) -> str | None:
    """Why no listing of the source has this path, although something is there; None: nothing is there, or it is listed.
    Raises the errors of a listing, also if a folder of the path is a link."""
    name, left_out = path.rstrip("/"), LeftOut()
    if not is_relative_path(name):
        return None
    for _ in source.files_telling(left_out).list(name, recursive=False):
        pass
    printable = name.encode(errors="backslashreplace").decode()
    return left_out.found.get(printable) or left_out.found.get(f"{printable}/")
