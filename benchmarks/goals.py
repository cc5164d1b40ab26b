"""The goals of all benchmarks, as data. A goal is never lowered to fit a result."""

from benchmarks.stats import TIMES, Goal

GOALS = (
    Goal("big", "spark_warm", "throughput relative to Spark's own reader, warm", "at least", 1.3, TIMES),
    Goal("big", "spark_cold", "throughput relative to Spark's own reader, cold", "at least", 2.0, TIMES),
    Goal("big", "bare_limit", "time relative to the bare limit, warm", "at most", 1.6, TIMES),
    Goal("small", "spark_warm", "throughput relative to Spark's own reader, warm", "at least", 15.0, TIMES),
    Goal("small", "spark_cold", "throughput relative to Spark's own reader, cold", "at least", 15.0, TIMES),
    Goal("small", "streaming_warm", "throughput relative to Structured Streaming, warm", "at least", 5.0, TIMES),
    Goal("small", "streaming_cold", "throughput relative to Structured Streaming, cold", "at least", 5.0, TIMES),
    Goal(
        "find", "flat", "time of the slowest of three sizes relative to the fastest, running job", "at most", 1.2, TIMES
    ),
    Goal("find", "flat_first", "the same for the first batch of a new job, with recovery", "at most", 1.2, TIMES),
    Goal("history", "flat", "median time of the last 50 commits relative to the first 50", "at most", 1.2, TIMES),
    Goal("history", "segments", "segments of the manifest, maximum", "at most", 16.0),
    Goal("history", "log", "commits in the log since the last Delta checkpoint, maximum", "at most", 10.0),
    Goal(
        "history",
        "state",
        "bytes of state, maximum of the last 50 commits relative to the first 50",
        "at most",
        1.2,
        TIMES,
    ),
    Goal("wide", "spark_warm", "throughput relative to Spark's own reader, warm", "at least", 1.0, TIMES),
    Goal("wide", "differences", "values that differ from Spark's", "at most", 0.0),
    Goal("dirty", "clean", "time relative to the clean run, warm", "at most", 1.3, TIMES),
    Goal("skew", "idle", "idle share of the cores: no process of the job runs", "at most", 0.2),
    Goal("skew", "slots", "idle share of Spark's idlest slot: no task runs", "at most", 0.2),
    Goal(
        "skew",
        "memory",
        "memory added by the large file, relative to `task_memory_bytes` of all cores",
        "at most",
        1.0,
        TIMES,
    ),
    Goal("s3", "big", "throughput relative to the local disk, big", "at least", 0.8, TIMES),
    Goal("s3", "small", "throughput relative to the local disk, small", "at least", 0.8, TIMES),
    Goal("latency", "p50", "file dropped to row visible, p50", "at most", 3.0, " s"),
    Goal("latency", "p99", "file dropped to row visible, p99", "at most", 8.0, " s"),
    Goal("names", "local disk", "time relative to names in order, local disk", "at most", 1.15, TIMES),
    Goal("names", "S3", "time relative to names in order, S3", "at most", 1.15, TIMES),
    Goal("names", "new_small", "100 new files among 10,000, running job on S3", "at most", 20.0, " ms"),
    Goal("names", "new_middle", "the same among 1,000,000", "at most", 30.0, " ms"),
    Goal("names", "new_large", "the same among 10,000,000", "at most", 60.0, " ms"),
    Goal("names", "first_secs", "the same, first batch after the start", "at most", 0.3, " s"),
    Goal("names", "first_mb", "bytes that the first batch reads", "at most", 64.0, " MB"),
    Goal("names", "memory", "memory of a process with the ledger of 10,000,000 files", "at most", 256.0, " MB"),
    Goal("names", "memory_simulated", "the same with 100,000,000, simulated", "at most", 256.0, " MB"),
    Goal("names", "stored", "bytes of the ledger on storage, a file", "at most", 48.0, " bytes"),
    Goal("names", "written", "bytes of the ledger written over a file's life", "at most", 240.0, " bytes"),
    Goal("names", "race_secs", "lost race to next batch planned", "at most", 1.0, " s"),
    Goal("names", "race_queries", "Spark jobs in this time", "at most", 0.0),
    Goal("names", "p50", "file of a random name dropped to row visible, p50", "at most", 0.7, " s"),
    Goal("names", "p99", "the same, p99", "at most", 1.6, " s"),
    Goal("names", "missed", "sweeps until the file of a lost event is found, most", "at most", 2.0),
    Goal("names", "metadata", "`userMetadata` of a commit, 100,000 folders, most", "at most", 32.0, " KiB"),
    Goal("names", "folders", "LISTs of an ordinary sweep of 100,000 folders, 1,000 active", "at most", 1_100.0),
    Goal("plan", "secs", "planning a batch of 10,000 among 1,000,000 entries", "at most", 1.0, " s"),
    Goal("plan", "mib", "memory of the process", "at most", 200.0, " MB"),
    Goal("collect", "secs", "3,000 events in one invocation", "at most", 1.0, " s"),
    Goal("collect", "mib", "memory of the process", "at most", 128.0, " MB"),
)


def goals_of(benchmark: str) -> list[Goal]:
    return [goal for goal in GOALS if goal.benchmark == benchmark]
