"""`make demo`: files land in a local S3, their rows in a Delta table, whatever happens on the way."""
