"""AWS::EMRServerless::…"""

from infra.local.cloudformation.api_request import camel_case, request
from infra.local.cloudformation.resource_type import Kind, Made, Place, Properties, tags_of

_APPLICATION = frozenset(
    {
        "Architecture",
        "AutoStartConfiguration",
        "AutoStopConfiguration",
        "InitialCapacity",
        "MaximumCapacity",
        "MonitoringConfiguration",
        "Name",
        "NetworkConfiguration",
        "ReleaseLabel",
        "RuntimeConfiguration",
        "SchedulerConfiguration",
        "Tags",
        "Type",
    }
)
_CREATE_ONLY = frozenset({"Name", "Type"})


def _wanted(properties: Properties) -> Properties:
    wanted: Properties = camel_case({name: value for name, value in properties.items() if name != "Tags"})
    if "initialCapacity" in wanted:
        wanted["initialCapacity"] = {part["key"]: part["value"] for part in wanted["initialCapacity"]}
    return wanted


def _create(place: Place, properties: Properties) -> Made:
    emr = place.client("emr-serverless")
    wanted = _wanted(properties) | {"clientToken": place.generated, "tags": tags_of(properties)}
    made = emr.create_application(**request(emr, "CreateApplication", wanted))
    return Made(made["applicationId"], {"Arn": made["arn"], "ApplicationId": made["applicationId"]})


def _update(place: Place, made: Made, new: Properties, old: Properties) -> Made:
    """The service refuses to change an application that is started, and nobody stops it on the way."""
    emr = place.client("emr-serverless")
    wanted = {name: value for name, value in _wanted(new).items() if name not in ("name", "type")}
    wanted |= {"applicationId": made.name, "clientToken": place.generated}
    emr.update_application(**request(emr, "UpdateApplication", wanted))
    return made


def _delete(place: Place, made: Made, properties: Properties) -> None:
    emr = place.client("emr-serverless")
    emr.stop_application(applicationId=made.name)
    emr.delete_application(applicationId=made.name)


KINDS = [Kind("AWS::EMRServerless::Application", _APPLICATION, _create, _update, _delete, _CREATE_ONLY)]
