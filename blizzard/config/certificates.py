"""Certificates of authorities in a configuration: as a file beside it, or as text. And paths of files that are not."""

from typing import Any

from pydantic import ValidationInfo

from blizzard.config.file_text import with_text

_BEGIN = "-----BEGIN CERTIFICATE-----"
_A_KEY = "PRIVATE KEY"
"""Of whichever kind: RSA, EC, ENCRYPTED and others stand before it."""


def certificates(text: str) -> str:
    """Raises ValueError, which shows nothing of the text: it may be a key."""
    if _A_KEY in text:
        raise ValueError(
            "found a private key, which tasks and the published configuration would get; expected certificates of "
            "authorities alone: take the key out"
        )
    if _BEGIN not in text:
        raise ValueError(f"found no certificate; expected certificates in PEM, each of which begins with {_BEGIN}")
    return text


def file_name(text: str) -> str:
    """Raises ValueError if it is what such a file holds; the client would print it as a name that it does not find."""
    if "-----BEGIN" in text or "\n" in text:
        raise ValueError("found the text of a file; expected its path")
    return text


def with_certificates(value: Any, info: ValidationInfo) -> Any:
    """Of a section with `ca_location` and `ca_pem`, as it is written. Raises ValueError."""
    if isinstance(value, dict) and value.get("ca_location") is not None and value.get("ca_pem") is not None:
        raise ValueError("ca_location and ca_pem say the same in two ways; remove one of them")
    if isinstance(value, dict) and isinstance(value.get("ca_location"), str):
        try:
            file_name(value["ca_location"])
        except ValueError as error:
            raise ValueError(f"ca_location: {error}, or `ca_pem` in place of it") from error
    return with_text(value, info, file="ca_location", text="ca_pem")
