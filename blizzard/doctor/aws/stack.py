"""A deployed stack of Blizzard, read with the operator's credentials."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from blizzard.config.model import Config
from blizzard.errors import ConfigError
from blizzard.storage.s3_connection import S3Settings, connection

NAME = re.compile("[A-Za-z][A-Za-z0-9-]{0,127}")
MORE_LANDINGS = ("2", "3", "4")


@dataclass(frozen=True, slots=True)
class Landing:
    """A landing bucket of the stack. `mode` is that of its parameter; `number` ends the names of its parameters and
    resources, and is empty for the first one."""

    bucket: str
    prefix: str
    mode: str
    number: str

    @property
    def notifies_queue(self) -> bool:
        return self.mode in ("create", "attach")

    @property
    def rule(self) -> str:
        """The logical id of its rule, with EventBridge."""
        return f"LandingRule{self.number}"


class Stack:
    """`config`: None if it cannot be read. Whatever is asked of AWS is asked once."""

    def __init__(self, name: str, config: Config | None, settings: S3Settings, clock: Callable[[], float]) -> None:
        self.name = name
        self.config = config
        self.settings = settings
        self.clock = clock
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        from botocore.config import Config as ClientConfig  # type: ignore[import-untyped]

        if service == "s3":
            return connection(self.settings).client
        if service not in self._clients:
            config = ClientConfig(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5)
            self._clients[service] = connection(self.settings).create_client(service, config)
        return self._clients[service]

    @property
    def region(self) -> str:
        return str(self.client("cloudformation").meta.region_name)

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """Raises ConfigError for what cannot be a stack's name."""
        if not NAME.fullmatch(self.name):
            raise ConfigError([f"--stack: expected the name of a stack, such as blizzard, found {self.name!r}"])
        (found,) = self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        return dict(found)

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        return {one["ParameterKey"]: one["ParameterValue"] for one in self.described.get("Parameters", ())}

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        return {one["OutputKey"]: one["OutputValue"] for one in self.described.get("Outputs", ())}

    @cached_property
    def resources(self) -> Mapping[str, tuple[str, str]]:
        """Type and physical id by logical id."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
        return {
            one["LogicalResourceId"]: (one["ResourceType"], one.get("PhysicalResourceId", ""))
            for page in pages
            for one in page["StackResourceSummaries"]
        }

    def physical(self, logical_id: str) -> str:
        return self.resources[logical_id][1]

    def queue(self, output: str) -> Mapping[str, str]:
        """The attributes of the queue whose URL is this output."""
        url = self.outputs[output]
        found: Mapping[str, str] = self.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
            "Attributes"
        ]
        return found

    def function(self, output: str) -> Mapping[str, Any]:
        """The configuration of the function whose name is this output."""
        return dict(self.client("lambda").get_function_configuration(FunctionName=self.outputs[output]))

    @cached_property
    def dispatcher(self) -> Mapping[str, str]:
        """The environment of the dispatcher, from which it starts runs."""
        found = self.function("DispatcherFunctionName")
        return dict(found.get("Environment", {}).get("Variables", {}))

    @property
    def is_paused(self) -> bool:
        return self.parameters.get("Dispatching", "on") == "off"

    def landings(self) -> Iterator[Landing]:
        given = self.parameters
        yield Landing(
            given["LandingBucketName"], given.get("LandingPrefix", ""), given.get("LandingBucketMode", "create"), ""
        )
        for number in MORE_LANDINGS:
            if bucket := given.get(f"LandingBucketName{number}"):
                prefix, mode = given.get(f"LandingPrefix{number}", ""), given.get("MoreLandingBucketsMode", "attach")
                yield Landing(bucket, prefix, mode, number)

    def prefixes_in(self, bucket: str) -> list[str]:
        """The keys' beginnings of the configuration's sources that are in a bucket."""
        if self.config is None:
            return []
        root = f"s3://{bucket}/"
        uris = dict.fromkeys(source.uri for _, source in self.config.file_sources())
        return [uri.removeprefix(root) for uri in uris if uri.startswith(root)]


def statements(policy: str | Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Of a policy document, as text or read."""
    document = json.loads(policy) if isinstance(policy, str) else policy or {}
    found = document.get("Statement", [])
    return [*found] if isinstance(found, list) else [found]


def texts(value: object) -> list[str]:
    """A policy has one text or a list of them."""
    return [value] if isinstance(value, str) else [str(each) for each in value] if isinstance(value, list) else []


def matches(pattern: str, text: str) -> bool:
    """As policies do: `*` and `?`."""
    regex = "".join(".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)
    return re.fullmatch(regex, text, re.DOTALL) is not None
