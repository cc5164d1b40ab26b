"""Object storage behind one interface."""

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore, ObjectWriter

__all__ = ["ObjectInfo", "ObjectReader", "ObjectStore", "ObjectWriter"]
