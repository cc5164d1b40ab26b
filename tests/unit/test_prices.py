"""What the stack uses, as counted, and what that costs."""

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.prices.price_list import FILE, Item, read_prices
from infra.prices.__main__ import bills, main
from infra.prices.bills import total
from infra.prices.quantities import count_quantities
from infra.template.code_facts import CodeFacts

CODE = CodeFacts({}, frozenset(), frozenset(), {"dispatcher": frozenset("AB"), "collector": frozenset("CDE")}, {})


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def template(schedule: str = "rate(1 minute)") -> dict[str, Any]:
    sizes = {name: resource("Lambda::Function", MemorySize=512) for name in FUNCTIONS}
    metrics = [{"Expression": "a+b"}, {"MetricStat": {}}, {"MetricStat": {}}]
    defaults = {"SweepSchedule": schedule, "DispatchSchedule": "rate(1 hour)", "BatchingWindowSecs": 10}
    return {
        "Parameters": {name: {"Default": value} for name, value in {**defaults, "WakeWindowSecs": 15}.items()},
        "Resources": {
            **sizes,
            "One": resource("CloudWatch::Alarm", MetricName="x"),
            "Sum": resource("CloudWatch::Alarm", Metrics=metrics),
            **{
                name: resource("Logs::MetricFilter", MetricTransformations=[{"MetricName": metric}])
                for name, metric in (("First", "Seconds"), ("Second", "Seconds"), ("Third", "Bytes"))
            },
            "OfTopics": resource("Logs::MetricFilter", MetricTransformations=[{"MetricName": "Lag", "Dimensions": []}]),
            "Plain": resource("SQS::Queue"),
            "Ordered": resource("SQS::Queue", FifoQueue=True),
            "Unread": resource("SQS::Queue"),
            **{
                f"Reads{queue}": resource("Lambda::EventSourceMapping", EventSourceArn={"Fn::GetAtt": [queue, "Arn"]})
                for queue in ("Plain", "Ordered")
            },
        },
    }


FUNCTIONS = ("SweeperFunction", "DispatcherFunction", "CollectorFunction")


def test_alarms_metrics_queues_and_invocations_are_counted() -> None:
    used = count_quantities(template(), CODE)
    assert used.alarm_metrics == 3
    assert used.idle_metrics == 7 + 2 * 2
    assert used.busy_metrics == 3 + 4 + 2
    assert (used.queues, used.fifo_queues, used.polls_of_a_queue) == (1, 1, 657_000)
    assert (used.sweeps, used.dispatches) == (43_800, 730)


def test_a_schedule_that_is_no_rate_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match=r"expected a default such as rate\(5 minutes\), found cron"):
        count_quantities(template("cron(0 * * * ? *)"), CODE)


def test_an_item_is_rounded_to_cents() -> None:
    assert Item("requests", 1_234_567, 0.0000004).dollars == 0.49


def test_another_price_list_gives_another_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(FILE.read_text())
    document["prices"]["dashboard_month"] = 4.0
    other = tmp_path / "elsewhere.json"
    other.write_text(json.dumps({**document, "region": "elsewhere"}))
    usual, more = (total(bills(read_prices(path))["A month without files"]) for path in (FILE, other))
    assert more - usual == pytest.approx(1.0)
    main(["--prices", str(other)])
    shown = capsys.readouterr().out
    assert shown.startswith("elsewhere, list prices of November 2026\n")
    assert "| dashboard | 1 | 4.00 | 4.00 |" in shown
