"""Tools that only check. Each has its own environment, because of many or conflicting dependencies."""
