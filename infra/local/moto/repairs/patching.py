"""How a repair gets into moto."""

from collections.abc import Callable
from typing import Any, TypeVar

Instance = TypeVar("Instance")


def wrap(owner: object, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Put `wrapper(what moto has)` in its place; AttributeError where moto no longer has the name."""
    setattr(owner, name, wrapper(getattr(owner, name)))


def replace(owner: object, name: str, replacement: object) -> None:
    """Put `replacement` in the place of what moto has; AttributeError where moto no longer has the name."""
    getattr(owner, name)
    setattr(owner, name, replacement)


def shallow_copy(instance: Instance) -> Instance:
    """Unlike `copy.copy`, which calls `__new__`: there moto notes every model, and keeps it for good."""
    twin = object.__new__(type(instance))
    twin.__dict__.update(instance.__dict__)
    return twin
