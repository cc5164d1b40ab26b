"""`pipelines.yaml`: its fields, reading it, and publishing it."""
