"""Certificates of authorities in a configuration: as a file beside it, or as text."""

from typing import Any

from pydantic import ValidationInfo

from blizzard.config.file_text import with_text

_BEGIN = "-----BEGIN CERTIFICATE-----"


def certificates(text: str) -> str:
    """Raises ValueError."""
    if _BEGIN not in text:
        raise ValueError(f"found {text!r:.60}, expected certificates in PEM, each of which begins with {_BEGIN}")
    return text


def with_certificates(value: Any, info: ValidationInfo) -> Any:
    """Of a section with `ca_location` and `ca_pem`, as it is written. Raises ValueError."""
    if isinstance(value, dict) and value.get("ca_location") is not None and value.get("ca_pem") is not None:
        raise ValueError("ca_location and ca_pem say the same in two ways; remove one of them")
    return with_text(value, info, file="ca_location", text="ca_pem")
