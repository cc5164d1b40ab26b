"""A Spark standalone cluster on this machine: a master and workers, each a process with a folder of its own."""
