"""Object storage behind one interface."""

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore

__all__ = ["ObjectInfo", "ObjectReader", "ObjectStore"]
