"""Resource types AWS::Events::* and AWS::Scheduler::*."""

import json
from typing import Any

from infra.local.cloudformation.api_request import api_request
from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType

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


def _create_rule(context: ResourceContext, properties: Properties) -> CreatedResource:
    events = context.client("events")
    name = properties.get("Name") or context.generated_name[:64]
    desired = {key: value for key, value in properties.items() if key != "Targets"} | {"Name": name}
    if "EventPattern" in desired:
        desired["EventPattern"] = json.dumps(desired["EventPattern"])
    arn = events.put_rule(**api_request(events, "PutRule", desired))["RuleArn"]
    if targets := properties.get("Targets"):
        _put_targets(events, name, targets)
    return CreatedResource(name, {"Arn": arn})


def _put_targets(events: Any, name: str, targets: list[Properties]) -> None:
    events.put_targets(**api_request(events, "PutTargets", {"Rule": name, "Targets": targets}))


def _update_rule(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    kept = {target["Id"] for target in new.get("Targets", [])}
    if removed := [target["Id"] for target in old.get("Targets", []) if target["Id"] not in kept]:
        context.client("events").remove_targets(Rule=resource.name, Ids=removed)
    return _create_rule(context, new | {"Name": resource.name})


def _delete_rule(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    events = context.client("events")
    if targets := properties.get("Targets"):
        events.remove_targets(Rule=resource.name, Ids=[target["Id"] for target in targets])
    events.delete_rule(Name=resource.name)


def _schedule(context: ResourceContext, properties: Properties, name: str, operation: str) -> Properties:
    return api_request(context.client("scheduler"), operation, properties | {"Name": name})


def _create_schedule(context: ResourceContext, properties: Properties) -> CreatedResource:
    name = properties.get("Name") or context.generated_name[:64]
    arn = context.client("scheduler").create_schedule(**_schedule(context, properties, name, "CreateSchedule"))
    return CreatedResource(name, {"Arn": arn["ScheduleArn"]})


def _update_schedule(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    context.client("scheduler").update_schedule(**_schedule(context, new, resource.name, "UpdateSchedule"))
    return resource


def _delete_schedule(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    group = {"GroupName": properties["GroupName"]} if "GroupName" in properties else {}
    context.client("scheduler").delete_schedule(Name=resource.name, **group)


RESOURCE_TYPES = [
    ResourceType(
        "AWS::Events::Rule", _RULE, _create_rule, _update_rule, _delete_rule, frozenset({"Name", "EventBusName"})
    ),
    ResourceType(
        "AWS::Scheduler::Schedule",
        _SCHEDULE,
        _create_schedule,
        _update_schedule,
        _delete_schedule,
        frozenset({"Name", "GroupName"}),
    ),
]
