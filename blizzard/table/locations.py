"""Locations of tables."""

MISREAD = frozenset("%#\\")
"""deltalake reads a location as a URL, some parts of it twice: with one of these it may open another table."""
