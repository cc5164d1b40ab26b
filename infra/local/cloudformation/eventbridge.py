"""AWS::Events::… and AWS::Scheduler::…"""

import json
from typing import Any

from infra.local.cloudformation.api_request import request
from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties

_RULE = frozenset({"Description", "EventBusName", "EventPattern", "Name", "ScheduleExpression", "State", "Targets"})
_SCHEDULE = frozenset(
    {
        "Description",
        "EndDate",
        "FlexibleTimeWindow",
        "GroupName",
        "Name",
        "ScheduleExpression",
        "ScheduleExpressionTimezone",
        "StartDate",
        "State",
        "Target",
    }
)


def _create_rule(place: Place, properties: Properties) -> Made:
    events = place.client("events")
    name = properties.get("Name") or place.generated[:64]
    wanted = {key: value for key, value in properties.items() if key != "Targets"} | {"Name": name}
    if "EventPattern" in wanted:
        wanted["EventPattern"] = json.dumps(wanted["EventPattern"])
    arn = events.put_rule(**request(events, "PutRule", wanted))["RuleArn"]
    if targets := properties.get("Targets"):
        _put_targets(events, name, targets)
    return Made(name, {"Arn": arn})


def _put_targets(events: Any, name: str, targets: list[Properties]) -> None:
    events.put_targets(**request(events, "PutTargets", {"Rule": name, "Targets": targets}))


def _update_rule(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    kept = {target["Id"] for target in new.get("Targets", [])}
    if gone := [target["Id"] for target in old.get("Targets", []) if target["Id"] not in kept]:
        place.client("events").remove_targets(Rule=made.name, Ids=gone)
    return _create_rule(place, new | {"Name": made.name})


def _delete_rule(place: Place, made: Made, properties: Properties) -> None:
    events = place.client("events")
    if targets := properties.get("Targets"):
        events.remove_targets(Rule=made.name, Ids=[target["Id"] for target in targets])
    events.delete_rule(Name=made.name)


def _schedule(place: Place, properties: Properties, name: str, operation: str) -> Properties:
    return request(place.client("scheduler"), operation, properties | {"Name": name})


def _create_schedule(place: Place, properties: Properties) -> Made:
    name = properties.get("Name") or place.generated[:64]
    arn = place.client("scheduler").create_schedule(**_schedule(place, properties, name, "CreateSchedule"))
    return Made(name, {"Arn": arn["ScheduleArn"]})


def _update_schedule(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    place.client("scheduler").update_schedule(**_schedule(place, new, made.name, "UpdateSchedule"))
    return made


def _delete_schedule(place: Place, made: Made, properties: Properties) -> None:
    group = {"GroupName": properties["GroupName"]} if "GroupName" in properties else {}
    place.client("scheduler").delete_schedule(Name=made.name, **group)


KINDS = [
    Kind("AWS::Events::Rule", _RULE, _create_rule, _update_rule, _delete_rule, frozenset({"Name", "EventBusName"})),
    Kind(
        "AWS::Scheduler::Schedule",
        _SCHEDULE,
        _create_schedule,
        _update_schedule,
        _delete_schedule,
        frozenset({"Name", "GroupName"}),
    ),
]
