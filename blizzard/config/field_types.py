"""The types of a configuration's values, by where they are written."""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr

from blizzard.config.model import Config
from blizzard.config.problems import Path


def section_at(path: Path) -> type[BaseModel] | None:
    """The model of the mapping at this path; None when there is no model for it."""
    return _model_in([*_types_along(path)][-1])


def keys_of(section: type[BaseModel] | None) -> dict[str, Any]:
    """Keys as written in the file, each with the type of its value."""
    fields = section.model_fields.items() if section else ()
    return {field.alias or name: field.annotation for name, field in fields}


def has_key(kind: Any, key: str) -> bool:
    """Whether values of this type are mappings that may have the key."""
    return key in keys_of(_model_in(kind))


def is_secret(path: Path) -> bool:
    """Whether what is written at this path may be a secret: the value of such a field, or one inside it; or what stands
    in place of a section that has such a field, as an address with a login in place of a registry."""
    types = [*_types_along(path)]
    return any(map(_holds_secret, types)) or any(map(_holds_secret, keys_of(_model_in(types[-1])).values()))


def _types_along(path: Path) -> Iterator[Any]:
    """Of the whole file, then of the value at each part of the path; None where there is no such value."""
    kind: Any = Config
    yield kind
    for part in path:
        inner = _model_in(kind)
        if isinstance(part, int):
            kind = inner
        else:
            kind = keys_of(inner).get(str(part)) if get_origin(kind) is not dict else get_args(kind)[1]
        yield kind


def _holds_secret(kind: Any) -> bool:
    """Itself, or in a list, a mapping or a union. A section is no secret because of its fields."""
    if isinstance(kind, type):
        return issubclass(kind, SecretStr | SecretBytes)
    return any(map(_holds_secret, get_args(kind)))


def _of_list(kind: Any) -> tuple[Any, ...]:
    """The type of the items; empty if it is no list."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) is list else ()


def _model_in(kind: Any) -> type[BaseModel] | None:
    """The model in `Model` or `Model | None`."""
    options = (kind, *get_args(kind)) if get_origin(kind) is not dict else ()
    options = tuple(chain.from_iterable((option, *_of_list(option)) for option in options))
    return next((option for option in options if isinstance(option, type) and issubclass(option, BaseModel)), None)
