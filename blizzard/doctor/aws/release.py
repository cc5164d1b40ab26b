"""Checks that what is deployed is what was published, of one release, for this configuration."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blizzard.config.publish import to_published
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.errors import NotFound
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

PUBLISHED = ("ConfigKey", "JobEntryKey", "JobArchiveKey", "LogStoreJarKey")
IN_DISPATCHER = {
    "BLIZZARD_CONFIG": "ConfigKey",
    "BLIZZARD_JOB_ENTRY_POINT": "JobEntryKey",
    "BLIZZARD_JOB_ARCHIVE": "JobArchiveKey",
    "BLIZZARD_LOG_STORE_JAR": "LogStoreJarKey",
}
RELEASES = "releases/"
MAX_RELEASES = 200
"""The newest ones are looked at."""


def _artifacts(stack: Stack) -> tuple[ObjectStore, str]:
    """The bucket, and the prefix of all that is published in it."""
    bucket, key = stack.parameters["ArtifactsBucketName"], stack.parameters["ConfigKey"]
    settings: S3Settings = stack.settings
    return open_store(f"s3://{bucket}/", settings), key[: key.rindex("/") + 1] if "/" in key else ""


def _configuration(stack: Stack) -> Finding:
    if stack.config is None:
        return skipped("the file has problems")
    store, _ = _artifacts(stack)
    key = stack.parameters["ConfigKey"]
    advice = "publish the configuration and deploy it: docs/deploy.md#4-publish"
    try:
        published = store.get(key).decode()
    except NotFound:
        return problem(f"there is no {store.uri}{key}", expected="the published configuration", advice=advice)
    if json.loads(published) == json.loads(to_published(stack.config)):
        return ok("the stack runs this configuration")
    return problem(
        f"the stack runs another configuration, {store.uri}{key}",
        expected="what this file says, with the variables of this environment",
        advice=f"{advice}; or name the file that was published",
    )


def _buckets(stack: Stack) -> Finding:
    """The stack's roles may use only these places."""
    if stack.config is None:
        return skipped("the file has problems")
    landings = [f"s3://{each.bucket}/{each.prefix}" for each in stack.landings()]
    lake = f"s3://{stack.parameters['LakeBucketName']}/{stack.parameters.get('LakePrefix', '')}"
    wrong = [
        f"{source.id} is in {source.uri}"
        for _, source in stack.config.file_sources()
        if not any(source.uri.startswith(each) for each in landings)
    ]
    wrong += [
        f"{pipeline.name} writes to {pipeline.table_uri}"
        for pipeline in stack.config.pipelines.values()
        if not f"{pipeline.table_uri}/".startswith(lake)
    ]
    if not wrong:
        return ok(f"sources are in {', '.join(landings)}, tables in {lake}")
    return problem(
        "; ".join(wrong),
        expected=f"sources below {' or '.join(landings)}, tables below {lake}",
        advice="deploy the stack with the parameters that `make publish` printed: docs/deploy.md#5-deploy",
    )


def _release(stack: Stack) -> Finding:
    wrong = [*_of_dispatcher(stack), *_of_functions(stack)]
    if wrong:
        return problem(
            "; ".join(wrong),
            expected="functions and job of the release that the stack's parameters name",
            advice="`sam build && sam deploy` after `make publish`, or `make rollback`: docs/operate.md#roll-back",
        )
    if _recorded(stack) is None:
        return warning(
            f"none of the newest {MAX_RELEASES} releases in the artifacts bucket has these parameters",
            expected="the record that `make publish` writes; without it `make rollback` cannot return here",
            advice="publish and deploy again: docs/deploy.md#4-publish",
        )
    return ok("functions and job are of one release")


def _of_dispatcher(stack: Stack) -> Iterator[str]:
    """What runs start with."""
    bucket = stack.parameters["ArtifactsBucketName"]
    for variable, parameter in IN_DISPATCHER.items():
        found, expected = stack.dispatcher.get(variable), f"s3://{bucket}/{stack.parameters[parameter]}"
        if found != expected:
            yield f"{variable} of the dispatcher is {found or 'not set'}, expected {expected}"


def _of_functions(stack: Stack) -> Iterator[str]:
    """The digest of each function's code."""
    recorded = _recorded(stack)
    for artifact in recorded["functions"] if recorded else ():
        output = f"{artifact['name'].capitalize()}FunctionName"
        if output not in stack.outputs:
            continue  # the attacher, which has no output
        found, expected = stack.function(output)["CodeSha256"], _lambda_digest(artifact["sha256"])
        if found != expected:
            yield f"{stack.outputs[output]} has other code than the job's release: {found}, expected {expected}"


def _lambda_digest(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()


def _recorded(stack: Stack) -> Mapping[str, Any] | None:
    """The published release with the stack's parameters."""
    store, prefix = _artifacts(stack)
    listed = sorted(store.list(prefix + RELEASES), key=lambda info: info.modified_ts, reverse=True)
    for info in listed[:MAX_RELEASES]:
        found: Mapping[str, Any] = json.loads(store.get(info.key))
        if all(found["parameters"].get(name) == stack.parameters[name] for name in PUBLISHED):
            return found
    return None


CHECKS: Sequence[Check[Stack]] = (
    Check("aws.configuration", _configuration, needs=("aws.stack",)),
    Check("aws.buckets", _buckets, needs=("aws.stack",)),
    Check("aws.release", _release, needs=("aws.stack",)),
)
