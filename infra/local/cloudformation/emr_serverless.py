"""Resource types AWS::EMRServerless::*."""

from infra.local.cloudformation.api_request import api_request, camel_case
from infra.local.cloudformation.resource_type import CreatedResource, Properties, ResourceContext, ResourceType, tags_of

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


def _desired(properties: Properties) -> Properties:
    desired: Properties = camel_case({name: value for name, value in properties.items() if name != "Tags"})
    if "initialCapacity" in desired:
        desired["initialCapacity"] = {part["key"]: part["value"] for part in desired["initialCapacity"]}
    return desired


def _create(context: ResourceContext, properties: Properties) -> CreatedResource:
    emr = context.client("emr-serverless")
    desired = _desired(properties) | {"clientToken": context.generated_name, "tags": tags_of(properties)}
    created = emr.create_application(**api_request(emr, "CreateApplication", desired))
    return CreatedResource(created["applicationId"], {"Arn": created["arn"], "ApplicationId": created["applicationId"]})


def _update(context: ResourceContext, resource: CreatedResource, new: Properties, old: Properties) -> CreatedResource:
    """Fails while the application is started, as the service does."""
    emr = context.client("emr-serverless")
    desired = {name: value for name, value in _desired(new).items() if name not in ("name", "type")}
    desired |= {"applicationId": resource.name, "clientToken": context.generated_name}
    emr.update_application(**api_request(emr, "UpdateApplication", desired))
    return resource


def _delete(context: ResourceContext, resource: CreatedResource, properties: Properties) -> None:
    emr = context.client("emr-serverless")
    emr.stop_application(applicationId=resource.name)
    emr.delete_application(applicationId=resource.name)


RESOURCE_TYPES = [
    ResourceType("AWS::EMRServerless::Application", _APPLICATION, _create, _update, _delete, _CREATE_ONLY)
]
