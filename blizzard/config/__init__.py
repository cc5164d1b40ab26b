"""`pipelines.yaml`: what it may say, reading it, and publishing it."""
