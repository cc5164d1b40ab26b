"""The goals. They are data, so that a report can only show them and not bend them; none is ever lowered."""

from benchmarks.stats import TIMES, Goal

GOALS = (
    Goal("big", "spark_warm", "throughput by that of Spark's own reader, warm", "at least", 1.3, TIMES),
    Goal("big", "spark_cold", "throughput by that of Spark's own reader, cold", "at least", 2.0, TIMES),
    Goal("big", "bare_limit", "time by that of the bare limit, warm", "at most", 1.6, TIMES),
    Goal("small", "spark_warm", "throughput by that of Spark's own reader, warm", "at least", 15.0, TIMES),
    Goal("small", "spark_cold", "throughput by that of Spark's own reader, cold", "at least", 15.0, TIMES),
    Goal("small", "streaming_warm", "throughput by that of Structured Streaming, warm", "at least", 5.0, TIMES),
    Goal("small", "streaming_cold", "throughput by that of Structured Streaming, cold", "at least", 5.0, TIMES),
    Goal("find", "flat", "time, slowest of the three sizes by fastest", "at most", 1.2, TIMES),
    Goal("find", "flat_first", "the same of a job's first batch, with recovery", "at most", 1.2, TIMES),
    Goal("history", "flat", "median commit of the last 50 by that of the first 50", "at most", 1.2, TIMES),
    Goal("history", "segments", "segments of the manifest, most at any time", "at most", 16.0),
    Goal("history", "log", "commits in the log that no Delta checkpoint covers, most at any time", "at most", 10.0),
    Goal(
        "history",
        "state",
        "bytes of the checkpoint's state, largest of the last 50 by the first 50",
        "at most",
        1.2,
        TIMES,
    ),
    Goal("wide", "spark_warm", "throughput by that of Spark's own reader, warm", "at least", 1.0, TIMES),
    Goal("wide", "differences", "values other than Spark's", "at most", 0.0),
    Goal("dirty", "clean", "time by that of the clean run, warm", "at most", 1.3, TIMES),
    Goal("skew", "idle", "share of the cores' time in which nothing of the job ran", "at most", 0.2),
    Goal("skew", "slots", "share of the time in which the idlest of Spark's slots had no task", "at most", 0.2),
    Goal(
        "skew", "memory", "memory that the large file adds, by `task_memory_bytes` of all cores", "at most", 1.0, TIMES
    ),
    Goal("s3", "big", "throughput by its own on the local disk, big", "at least", 0.8, TIMES),
    Goal("s3", "small", "throughput by its own on the local disk, small", "at least", 0.8, TIMES),
    Goal("latency", "p50", "file dropped to row visible, p50", "at most", 3.0, " s"),
    Goal("latency", "p99", "file dropped to row visible, p99", "at most", 8.0, " s"),
    Goal("plan", "secs", "planning 10,000 among 1,000,000", "at most", 1.0, " s"),
    Goal("plan", "mib", "memory of the process", "at most", 200.0, " MB"),
    Goal("collect", "secs", "3,000 events in one invoke", "at most", 1.0, " s"),
    Goal("collect", "mib", "memory of the process", "at most", 128.0, " MB"),
)


def goals_of(benchmark: str) -> list[Goal]:
    return [goal for goal in GOALS if goal.benchmark == benchmark]
