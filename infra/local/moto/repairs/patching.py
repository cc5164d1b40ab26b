"""Replaces names of moto."""

from collections.abc import Callable
from typing import Any, TypeVar

Instance = TypeVar("Instance")


def wrap(owner: object, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Replace an attribute by `wrapper(original)`. Raises AttributeError where moto no longer has the name."""
    setattr(owner, name, wrapper(getattr(owner, name)))


def replace(owner: object, name: str, replacement: object) -> None:
    """Raises AttributeError where moto no longer has the name."""
    getattr(owner, name)
    setattr(owner, name, replacement)


def shallow_copy(instance: Instance) -> Instance:
    """Unlike `copy.copy`, does not call `__new__`, where moto registers every model instance and never frees it."""
    twin = object.__new__(type(instance))
    twin.__dict__.update(instance.__dict__)
    return twin
