"""Replaces attributes of moto's classes and modules."""

from collections.abc import Callable
from typing import Any, TypeVar

Instance = TypeVar("Instance")


def wrap(owner: object, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Replace an attribute with `wrapper(original)`. Raises AttributeError if moto no longer has it."""
    setattr(owner, name, wrapper(getattr(owner, name)))


def replace(owner: object, name: str, replacement: object) -> None:
    """Raises AttributeError if moto no longer has the attribute."""
    getattr(owner, name)
    setattr(owner, name, replacement)


def shallow_copy(instance: Instance) -> Instance:
    """Unlike `copy.copy`, does not call `__new__`, where moto registers every model instance and never frees it."""
    twin = object.__new__(type(instance))
    twin.__dict__.update(instance.__dict__)
    return twin
