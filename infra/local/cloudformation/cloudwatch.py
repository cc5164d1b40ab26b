"""Resource types AWS::Logs::* and AWS::CloudWatch::*."""

from infra.local.cloudformation.api_request import api_request, camel_case
from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType, tags_of

_ALARM = frozenset(
    {
        "ActionsEnabled",
        "AlarmActions",
        "AlarmDescription",
        "AlarmName",
        "ComparisonOperator",
        "DatapointsToAlarm",
        "Dimensions",
        "EvaluateLowSampleCountPercentile",
        "EvaluationPeriods",
        "ExtendedStatistic",
        "InsufficientDataActions",
        "MetricName",
        "Metrics",
        "Namespace",
        "OKActions",
        "Period",
        "Statistic",
        "Tags",
        "Threshold",
        "TreatMissingData",
        "Unit",
    }
)


def _create_group(context: ResourceContext, properties: Properties) -> CreatedResource:
    logs = context.client("logs")
    name = properties.get("LogGroupName") or context.generated_name
    logs.create_log_group(logGroupName=name, tags=tags_of(properties))
    resource = CreatedResource(
        name, {"Arn": f"arn:aws:logs:{logs.meta.region_name}:{_account(context)}:log-group:{name}:*"}
    )
    return _update_group(context, resource, properties, {})


def _account(context: ResourceContext) -> str:
    return str(context.client("sts").get_caller_identity()["Account"])


def _update_group(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    logs = context.client("logs")
    if new.get("RetentionInDays"):
        logs.put_retention_policy(logGroupName=resource.name, retentionInDays=int(new["RetentionInDays"]))
    elif old.get("RetentionInDays"):
        logs.delete_retention_policy(logGroupName=resource.name)
    if new.get("KmsKeyId"):
        logs.associate_kms_key(logGroupName=resource.name, kmsKeyId=new["KmsKeyId"])
    elif old.get("KmsKeyId"):
        logs.disassociate_kms_key(logGroupName=resource.name)
    return resource


def _delete_group(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("logs").delete_log_group(logGroupName=resource.name)


def _create_filter(context: ResourceContext, properties: Properties) -> CreatedResource:
    logs = context.client("logs")
    name = properties.get("FilterName") or context.generated_name
    logs.put_metric_filter(**api_request(logs, "PutMetricFilter", _filter(properties) | {"filterName": name}))
    return CreatedResource(name)


def _filter(properties: Properties) -> Properties:
    transformations = [
        {name: value for name, value in camel_case(transformation).items() if name != "dimensions"}
        | ({"dimensions": _dimensions(transformation)} if "Dimensions" in transformation else {})
        for transformation in properties["MetricTransformations"]
    ]
    return {
        "logGroupName": properties["LogGroupName"],
        "filterPattern": properties["FilterPattern"],
        "metricTransformations": transformations,
    }


def _dimensions(transformation: Properties) -> dict[str, str]:
    return {dimension["Key"]: dimension["Value"] for dimension in transformation["Dimensions"]}


def _update_filter(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    return _create_filter(context, new | {"FilterName": resource.name})


def _delete_filter(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("logs").delete_metric_filter(logGroupName=properties["LogGroupName"], filterName=resource.name)


def _create_alarm(context: ResourceContext, properties: Properties) -> CreatedResource:
    cloudwatch = context.client("cloudwatch")
    name = properties.get("AlarmName") or context.generated_name
    cloudwatch.put_metric_alarm(**api_request(cloudwatch, "PutMetricAlarm", properties | {"AlarmName": name}))
    [alarm] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return CreatedResource(name, {"Arn": alarm["AlarmArn"]})


def _update_alarm(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    return _create_alarm(context, new | {"AlarmName": resource.name})


def _delete_alarm(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("cloudwatch").delete_alarms(AlarmNames=[resource.name])


def _create_dashboard(context: ResourceContext, properties: Properties) -> CreatedResource:
    name = properties.get("DashboardName") or context.generated_name
    context.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=properties["DashboardBody"])
    return CreatedResource(name)


def _update_dashboard(
    context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties
) -> CreatedResource:
    return _create_dashboard(context, new | {"DashboardName": resource.name})


def _delete_dashboard(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    context.client("cloudwatch").delete_dashboards(DashboardNames=[resource.name])


RESOURCE_TYPES = [
    ResourceType(
        "AWS::Logs::LogGroup",
        frozenset({"KmsKeyId", "LogGroupName", "RetentionInDays", "Tags"}),
        _create_group,
        _update_group,
        _delete_group,
        frozenset({"LogGroupName"}),
    ),
    ResourceType(
        "AWS::Logs::MetricFilter",
        frozenset({"FilterName", "FilterPattern", "LogGroupName", "MetricTransformations"}),
        _create_filter,
        _update_filter,
        _delete_filter,
        frozenset({"FilterName", "LogGroupName"}),
    ),
    ResourceType(
        "AWS::CloudWatch::Alarm", _ALARM, _create_alarm, _update_alarm, _delete_alarm, frozenset({"AlarmName"})
    ),
    ResourceType(
        "AWS::CloudWatch::Dashboard",
        frozenset({"DashboardBody", "DashboardName"}),
        _create_dashboard,
        _update_dashboard,
        _delete_dashboard,
        frozenset({"DashboardName"}),
    ),
]
