"""The compressions that a source may name, each with the extensions by which `auto` recognises it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

ZIP = "zip"
"""The only one that holds several files, its members."""
COMPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "gzip": (".gz", ".gzip"),
    "zstd": (".zst", ".zstd"),
    "bzip2": (".bz2", ".bzip2"),
    "xz": (".xz",),
    "lz4": (".lz4",),
    "snappy": (".snappy", ".sz"),
    "deflate": (".deflate",),
    ZIP: (".zip",),
    "none": (),
}
AUTO = "auto"

if TYPE_CHECKING:
    CompressionName = str
else:
    CompressionName = Literal[(AUTO, *COMPRESSIONS)]


def compression_of(path: str, configured: str) -> str:
    """One of COMPRESSIONS; `auto` goes by the extension."""
    if configured != AUTO:
        return configured
    lowered = path.lower()
    return next((name for name, ends in COMPRESSIONS.items() if ends and lowered.endswith(ends)), "none")


def auto_help() -> str:
    """How `auto` decides."""
    named = ", ".join(f"{name} ({' and '.join(ends)})" for name, ends in COMPRESSIONS.items() if ends)
    return f"auto: from the file's extension: {named}, else none."
