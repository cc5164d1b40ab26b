"""AWS::Logs::… and AWS::CloudWatch::…"""

from infra.local.cloudformation.api_request import camel_case, request
from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties, tags_of

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


def _create_group(place: Place, properties: Properties) -> Made:
    logs = place.client("logs")
    name = properties.get("LogGroupName") or place.generated
    logs.create_log_group(logGroupName=name, tags=tags_of(properties))
    made = Made(name, {"Arn": f"arn:aws:logs:{logs.meta.region_name}:{_account(place)}:log-group:{name}:*"})
    return _update_group(place, made, properties, {})


def _account(place: Place) -> str:
    return str(place.client("sts").get_caller_identity()["Account"])


def _update_group(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    logs = place.client("logs")
    if new.get("RetentionInDays"):
        logs.put_retention_policy(logGroupName=made.name, retentionInDays=int(new["RetentionInDays"]))
    elif old.get("RetentionInDays"):
        logs.delete_retention_policy(logGroupName=made.name)
    return made


def _delete_group(place: Place, made: Made, properties: Properties) -> None:
    place.client("logs").delete_log_group(logGroupName=made.name)


def _create_filter(place: Place, properties: Properties) -> Made:
    logs = place.client("logs")
    name = properties.get("FilterName") or place.generated
    logs.put_metric_filter(**request(logs, "PutMetricFilter", _filter(properties) | {"filterName": name}))
    return Made(name)


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


def _update_filter(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    return _create_filter(place, new | {"FilterName": made.name})


def _delete_filter(place: Place, made: Made, properties: Properties) -> None:
    place.client("logs").delete_metric_filter(logGroupName=properties["LogGroupName"], filterName=made.name)


def _create_alarm(place: Place, properties: Properties) -> Made:
    cloudwatch = place.client("cloudwatch")
    name = properties.get("AlarmName") or place.generated
    cloudwatch.put_metric_alarm(**request(cloudwatch, "PutMetricAlarm", properties | {"AlarmName": name}))
    [alarm] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return Made(name, {"Arn": alarm["AlarmArn"]})


def _update_alarm(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    return _create_alarm(place, new | {"AlarmName": made.name})


def _delete_alarm(place: Place, made: Made, properties: Properties) -> None:
    place.client("cloudwatch").delete_alarms(AlarmNames=[made.name])


def _create_dashboard(place: Place, properties: Properties) -> Made:
    name = properties.get("DashboardName") or place.generated
    place.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=properties["DashboardBody"])
    return Made(name)


def _update_dashboard(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    return _create_dashboard(place, new | {"DashboardName": made.name})


def _delete_dashboard(place: Place, made: Made, properties: Properties) -> None:
    place.client("cloudwatch").delete_dashboards(DashboardNames=[made.name])


KINDS = [
    Kind(
        "AWS::Logs::LogGroup",
        frozenset({"LogGroupName", "RetentionInDays", "Tags"}),
        _create_group,
        _update_group,
        _delete_group,
        frozenset({"LogGroupName"}),
    ),
    Kind(
        "AWS::Logs::MetricFilter",
        frozenset({"FilterName", "FilterPattern", "LogGroupName", "MetricTransformations"}),
        _create_filter,
        _update_filter,
        _delete_filter,
        frozenset({"FilterName", "LogGroupName"}),
    ),
    Kind("AWS::CloudWatch::Alarm", _ALARM, _create_alarm, _update_alarm, _delete_alarm, frozenset({"AlarmName"})),
    Kind(
        "AWS::CloudWatch::Dashboard",
        frozenset({"DashboardBody", "DashboardName"}),
        _create_dashboard,
        _update_dashboard,
        _delete_dashboard,
        frozenset({"DashboardName"}),
    ),
]
