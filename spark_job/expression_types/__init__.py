"""The types of expressions that only Spark evaluates, and what it refuses, for `blizzard validate --ask-spark`."""
