"""Files that others made, read by the formats and by another reader of each."""
