"""`big` and `small`: a backlog, by every contender."""

from benchmarks import timeline
from benchmarks.contenders import Work
from benchmarks.data import dataset
from benchmarks.figures import Spread, judge, number, ratio
from benchmarks.goals import goals_of
from benchmarks.result import Result
from benchmarks.rounds import Series, interleaved
from benchmarks.setting import Setting
from benchmarks.suite import contest


def big(setting: Setting) -> Result:
    return _run("big", setting)


def small(setting: Setting) -> Result:
    return _run("small", setting)


def _run(name: str, setting: Setting) -> Result:
    data = dataset(name, setting.scale, setting.say, cache=setting.cache)
    works = {who: Work(who, data, "", 2, setting.cores, settings=contest.BULK) for who in contest.able(data)}
    landings = timeline.Landings()
    series = interleaved(works, setting, look=landings.look)
    moments = timeline.moments_of(series, landings)
    titles = {who: series[who].title for who in moments}
    return Result(
        name,
        f"{data.rows:,} records in {data.files:,} gzip files, {number(data.stored_bytes / 1e6)} MB, into Delta",
        (contest.table(data, series), timeline.table(moments, titles)),
        tuple(judge(goals_of(name), measured(series), {})),
        notes=(*timeline.notes(moments, titles), contest.parts_note(series["blizzard"])),
        bars=contest.bars(series),
        raw=contest.raw(data, series) | {"moments": moments},
    )


def measured(series: dict[str, Series]) -> dict[str, Spread]:
    """By goal: how many times as long the other took, and the reverse for the bare limit."""
    ours, spark, streaming, bare = (series[n] for n in ("blizzard", "spark_reader", "streaming", "bare_limit"))
    return {
        "spark_warm": ratio(spark.warm(), ours.warm()),
        "spark_cold": ratio(spark.cold(), ours.cold()),
        "streaming_warm": ratio(streaming.warm(), ours.warm()),
        "streaming_cold": ratio(streaming.cold(), ours.cold()),
        "bare_limit": ratio(ours.warm(), bare.warm()),
    }
