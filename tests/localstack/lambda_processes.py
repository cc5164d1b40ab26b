"""A runtime executor for LocalStack's Lambda: runs a function as a process, where LocalStack's own would need Docker.

It is a plugin inside LocalStack's process (`LAMBDA_RUNTIME_EXECUTOR=processes`), so LocalStack itself polls queues,
retries, and delivers events; only the process of the function is the project's. Imports from `infra` only what needs
nothing but the standard library.
"""

import json
import os
from pathlib import Path
from typing import Any

from localstack import config
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from infra.local.functions.function import FunctionSettings, Instance, Outcome

HOST = "127.0.0.1"
PACKAGES = Path(os.environ["BLIZZARD_LAMBDA_PACKAGES"])
"""A folder with the packages that Lambda preinstalls."""
LOGS = Path(os.environ["BLIZZARD_LAMBDA_LOGS"])
"""A folder for a file per function with all that it printed."""
VARIABLES = json.loads(os.environ["BLIZZARD_LAMBDA_VARIABLES"])
"""Added to each function's environment: where its requests go."""


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    name = "processes"

    def load(self, *_: Any, **__: Any) -> type[RuntimeExecutor]:
        return ProcessExecutor


class ProcessExecutor(RuntimeExecutor):
    """One execution environment, which serves one invocation at a time."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:  # noqa: A002 - LocalStack's name
        super().__init__(id, function_version)
        self._variables: dict[str, str] = {}
        self._instance: Instance | None = None

    def start(self, env_vars: dict[str, Any]) -> None:
        self.function_version.config.code.prepare_for_execution()
        self._variables = {name: str(value) for name, value in env_vars.items()} | VARIABLES

    def stop(self) -> None:
        if self._instance is not None:
            self._instance.close()
            self._instance = None

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        if self._instance is None or not self._instance.usable:
            self.stop()
            self._instance = self._new_instance()
        outcome = self._instance.invoke(json.loads(payload["payload"] or "null"))
        return _result(payload["invoke-id"], outcome)

    def get_address(self) -> str:
        return HOST

    def get_endpoint_from_executor(self) -> str:
        return HOST

    def get_runtime_endpoint(self) -> str:
        return f"http://{HOST}:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    def get_logs(self) -> str:
        return ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Keeps the code: after a change of settings, the next version has the same."""

    def _new_instance(self) -> Instance:
        found = self.function_version.config
        settings = FunctionSettings(
            name=self.function_version.id.function_name,
            arn=self.function_version.id.unqualified_arn(),
            principal=self._variables["AWS_ACCESS_KEY_ID"],
            handler=found.handler,
            timeout_secs=float(found.timeout),
            memory_mb=int(found.memory_size),
            log_group=self._variables["AWS_LAMBDA_LOG_GROUP_NAME"],
            code_sha256=found.code.code_sha256,
            variables=tuple(sorted((found.environment or {}).items())),
        )
        return Instance(settings, found.code.get_unzipped_code_location(), PACKAGES, self._variables, _write_line)


def _result(request_id: str, outcome: Outcome) -> InvocationResult:
    return InvocationResult(request_id, json.dumps(outcome.payload).encode(), outcome.error, outcome.log)


def _write_line(group: str, _: str, line: str) -> None:
    with (LOGS / f"{group.strip('/').replace('/', '-')}.log").open("a") as file:
        file.write(line + "\n")
