"""Publishes build/ and a configuration to a bucket, and sets the template's parameters (`make publish`)."""
