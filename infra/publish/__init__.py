"""From build/ and a configuration to a bucket and the template's parameters (`make publish`)."""
