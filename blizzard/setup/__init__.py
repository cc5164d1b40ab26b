"""What Spark needs beside its Python package: jars, the log store, Java. For `blizzard setup` and `make setup`.

The latter runs before any package is there, so only the standard library is imported."""
