"""Programs that only check, each in an environment of its own: their packages disagree with ours, or are many."""
