"""`make demo`: ingests files from a local S3 into a Delta table through injected failures, and checks every row."""
