"""Set-up of a checkout: virtual environment, Spark's extra jars, log store. Runs before any package is installed."""
