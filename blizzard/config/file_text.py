"""The text of a file beside the configuration, which is read with it: what is published, or sent to tasks, has no files
beside it."""

import posixpath
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

MAX_BYTES = 1 << 20


def with_text(value: Any, info: ValidationInfo, *, file: str, text: str) -> Any:
    """Of a section as it is written: if it has the field `file`, its text is the field `text` instead. Raises
    ValueError."""
    if not isinstance(value, dict) or value.get(text) is not None or not isinstance(value.get(file), str):
        return value
    folder = info.context.get("folder") if isinstance(info.context, dict) else None
    return {**value, text: _text_of(value[file], folder, file), file: None}


def _text_of(file: str, folder: str | None, field: str) -> str:
    if file == "~" or file.startswith("~/"):
        raise ValueError(f"{field}: found {file!r:.200}; `~` is not expanded here; write ${{HOME}}{file[1:]}")
    if not file.startswith("/") and folder is None:
        raise ValueError(f"{field}: found the relative path {file!r:.200}; expected an absolute one")
    path = posixpath.join(folder or "/", file)
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ValueError(f"{field}: {path!r:.300} cannot be read: {why}; expected a file with text") from error
    if len(data) > MAX_BYTES:
        raise ValueError(f"{field}: {path!r:.300} has more than {MAX_BYTES:,} bytes")
    return text
