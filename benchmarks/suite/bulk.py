"""`big` and `small`: every contender loads a backlog."""

from benchmarks import timeline
from benchmarks.contenders import Work
from benchmarks.data import dataset
from benchmarks.goals import goals_of
from benchmarks.result import Result
from benchmarks.rounds import ContenderRuns, interleaved
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals, number, ratio
from benchmarks.suite import comparison


def big(options: RunOptions) -> Result:
    return _run("big", options)


def small(options: RunOptions) -> Result:
    return _run("small", options)


def _run(name: str, options: RunOptions) -> Result:
    data = dataset(name, options.scale, options.report_progress, cache=options.cache)
    works = {who: Work(who, data, "", 2, options.cores, settings=comparison.BULK) for who in comparison.supported(data)}
    mtimes = timeline.MtimeRecorder()
    series = interleaved(works, options, inspect_table=mtimes.inspect_table)
    moments = timeline.moments_of(series, mtimes)
    titles = {who: series[who].title for who in moments}
    return Result(
        name,
        f"{data.rows:,} records in {data.files:,} gzip files, {number(data.stored_bytes / 1e6)} MB, into Delta",
        (comparison.table(data, series), timeline.table(moments, titles)),
        tuple(evaluate_goals(goals_of(name), measured(series), {})),
        notes=(*timeline.notes(moments, titles), comparison.parts_note(series["blizzard"])),
        bars=comparison.bars(series),
        raw=comparison.raw(data, series) | {"moments": moments},
    )


def measured(series: dict[str, ContenderRuns]) -> dict[str, Spread]:
    """Measurements by goal. Throughput ratios: time of the other contender divided by Blizzard's; inverse for the bare
    limit."""
    ours, spark, streaming, bare = (series[n] for n in ("blizzard", "spark_reader", "streaming", "bare_limit"))
    return {
        "spark_warm": ratio(spark.warm(), ours.warm()),
        "spark_cold": ratio(spark.cold(), ours.cold()),
        "streaming_warm": ratio(streaming.warm(), ours.warm()),
        "streaming_cold": ratio(streaming.cold(), ours.cold()),
        "bare_limit": ratio(ours.warm(), bare.warm()),
    }
