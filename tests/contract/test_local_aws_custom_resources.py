"""Custom resources of the local AWS, as CloudFormation's documentation describes the protocol; the test is the function
that CloudFormation asks."""

import copy
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError

import pytest

from infra.local.deploy.stack_client import StackFailed
from infra.local.processes.server_calls import LocalCalls
from infra.local.processes.server_process import LocalAws
from tests.contract.every_resource_type import TEMPLATE, Deployment

Provide = Callable[[dict[str, Any]], dict[str, Any] | bytes | None]


def with_custom_resource(**properties: Any) -> dict[str, Any]:
    template = copy.deepcopy(TEMPLATE)
    token = {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "ServiceTimeout": 20, **properties}
    template["Resources"] = {name: template["Resources"][name] for name in ("Function", "Role", "Logs")}
    template["Resources"]["Thing"] = {"Type": "Custom::Thing", "Properties": token}
    template["Outputs"] = {"Thing": {"Value": {"Ref": "Thing"}}}
    return template


class Provider:
    """Takes the requests, and answers them in order. An answer is completed with what it has to repeat."""

    def __init__(self, aws: LocalAws) -> None:
        self._calls = LocalCalls(aws.endpoint)
        self.requests: list[dict[str, Any]] = []
        self.provide: Provide = lambda _: {}
        self._over = threading.Event()
        while self._calls.take_work() is not None:
            """What other tests on this server have left."""

    def run(self) -> None:
        while not self._over.is_set():
            item = self._calls.take_work()
            if item is not None:
                request = item["event"]
                self.requests.append(request)
                answer = self.provide(request)
                if answer is not None:
                    put(request["ResponseURL"], answer if isinstance(answer, bytes) else completed(request, answer))

    def close(self) -> None:
        self._over.set()

    def asked(self) -> list[tuple[str, str]]:
        return [(request["RequestType"], request.get("PhysicalResourceId", "")) for request in self.requests]


def completed(request: Mapping[str, Any], answer: Mapping[str, Any]) -> bytes:
    repeated = {name: request[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    return json.dumps({"Status": "SUCCESS", "PhysicalResourceId": "thing-1", **repeated, **answer}).encode()


def put(url: str, body: bytes, content_type: str = "") -> None:
    headers = {"Content-Type": content_type}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT"), timeout=5):
        pass


@contextmanager
def running(provider: Provider) -> Iterator[None]:
    thread = threading.Thread(target=provider.run)
    thread.start()
    try:
        yield
    finally:
        provider.close()
        thread.join()


@pytest.fixture
def provider(aws: LocalAws) -> Iterator[Provider]:
    made = Provider(aws)
    with running(made):
        yield made


def test_a_request_has_what_is_documented_and_the_answer_makes_the_resource(aws: LocalAws, provider: Provider) -> None:
    provider.provide = lambda _: {"PhysicalResourceId": "thing-7", "Data": {"Colour": "red"}}
    template = with_custom_resource(Number=7, Flag=True, Nested={"List": [1]})
    template["Outputs"]["Colour"] = {"Value": {"Fn::GetAtt": ["Thing", "Colour"]}}
    stack = Deployment(aws).create(template).stack
    assert stack.outputs == {"Thing": "thing-7", "Colour": "red"}
    (request,) = provider.requests
    function = aws.client("lambda").get_function_configuration(FunctionName=stack.resources["Function"])["FunctionArn"]
    described = aws.client("cloudformation").describe_stacks(StackName=stack.name)["Stacks"][0]
    assert request.pop("RequestId")
    assert request.pop("ResponseURL").startswith("http://127.0.0.1:")
    assert request == {
        "RequestType": "Create",
        "ServiceToken": function,
        "StackId": described["StackId"],
        "LogicalResourceId": "Thing",
        "ResourceType": "Custom::Thing",
        "ResourceProperties": {
            "ServiceToken": function,
            "ServiceTimeout": "20",
            "Number": "7",
            "Flag": "true",
            "Nested": {"List": ["1"]},
        },
    }


def test_another_physical_id_replaces_the_resource_and_the_old_one_is_deleted(
    aws: LocalAws, provider: Provider
) -> None:
    provider.provide = lambda request: {"PhysicalResourceId": f"thing-{request['ResourceProperties']['Name']}"}
    deployment = Deployment(aws).create(with_custom_resource(Name="a", Size=1))
    deployment.update(with_custom_resource(Name="a", Size=2))
    assert provider.requests[-1]["OldResourceProperties"]["Size"] == "1"
    deployment.update(with_custom_resource(Name="b", Size=2))
    assert deployment.stack.outputs == {"Thing": "thing-b"}
    deployment.stack.delete()
    assert provider.asked() == [
        ("Create", ""),
        ("Update", "thing-a"),
        ("Update", "thing-a"),
        ("Delete", "thing-a"),
        ("Delete", "thing-b"),
    ]
    names = [request["ResourceProperties"]["Name"] for request in provider.requests]
    assert names == ["a", "a", "b", "a", "b"], "a resource is deleted with its own properties"


def test_a_failure_fails_the_deployment_with_its_reason_and_is_deleted(aws: LocalAws, provider: Provider) -> None:
    def provide(request: dict[str, Any]) -> dict[str, Any]:
        return {"Status": "FAILED", "Reason": "no colour left"} if request["RequestType"] == "Create" else {}

    provider.provide = provide
    deployment = Deployment(aws)
    with pytest.raises(StackFailed, match=r"Received response status \[FAILED\] from custom resource.*no colour left"):
        deployment.create(with_custom_resource())
    assert deployment.stack.status == "ROLLBACK_COMPLETE"
    assert provider.asked() == [("Create", ""), ("Delete", "thing-1")]


def test_a_failed_update_is_rolled_back(aws: LocalAws, provider: Provider) -> None:
    deployment = Deployment(aws).create(with_custom_resource(Size=1))
    provider.provide = lambda _: {"Status": "FAILED", "Reason": "too large"}
    with pytest.raises(StackFailed, match=r"UPDATE_ROLLBACK_COMPLETE: Thing: .*too large"):
        deployment.update(with_custom_resource(Size=9))
    assert deployment.stack.outputs == {"Thing": "thing-1"}


def test_a_resource_that_does_not_answer_fails_after_its_timeout(aws: LocalAws, provider: Provider) -> None:
    provider.provide = lambda _: None
    with pytest.raises(StackFailed, match="did not receive a response from your Custom Resource"):
        Deployment(aws).create(with_custom_resource(ServiceTimeout=1))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"RequestId": "another"}, "wrong RequestId"),
        ({"StackId": "another"}, "wrong StackId"),
        ({"Status": "DONE"}, "wrong Status"),
        ({"Status": "FAILED"}, "wrong Reason"),
        ({"PhysicalResourceId": ""}, "wrong PhysicalResourceId"),
        ({"Data": {"x": "y" * 4096}}, "Response object is too long"),
        (b"nothing", "not JSON"),
    ],
)
def test_an_invalid_answer_fails_the_deployment(
    aws: LocalAws, provider: Provider, answer: dict[str, Any] | bytes, problem: str
) -> None:
    provider.provide = lambda _: answer
    with pytest.raises(StackFailed, match=problem):
        Deployment(aws).create(with_custom_resource())


def test_only_the_presigned_put_is_accepted(aws: LocalAws, provider: Provider) -> None:
    """The signature is of the whole URL, and of an empty content type."""
    refused = []

    def provide(request: dict[str, Any]) -> dict[str, Any]:
        url = request["ResponseURL"]
        for wrong, content_type in ((url, "application/json"), (url + "0", ""), (url.partition("?")[0], "")):
            with pytest.raises(HTTPError) as error:
                put(wrong, completed(request, {}), content_type)
            refused.append(error.value.code)
        return {}

    provider.provide = provide
    Deployment(aws).create(with_custom_resource())
    assert refused == [403, 403, 403]


def test_another_service_token_is_refused(aws: LocalAws, provider: Provider) -> None:
    deployment = Deployment(aws).create(with_custom_resource())
    template = with_custom_resource(ServiceToken="arn:aws:lambda:eu-west-1:123456789012:function:other")
    with pytest.raises(StackFailed, match="Modifying service token is not allowed"):
        deployment.update(template)
