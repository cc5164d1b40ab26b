"""Stands for AWS's command line where it may not be installed: `aws SERVICE OPERATION --parameter VALUE …`, as
botocore's description of the service has them. Nothing that the command line adds of its own, such as `logs tail`."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import jmespath  # type: ignore[import-untyped]
from botocore import xform_name  # type: ignore[import-untyped]

NAMED = {"s3api": "s3"}
OF_ALL_COMMANDS = ("--query", "--output", "--cli-input-json")


def main(words: Sequence[str]) -> None:
    service, operation, *rest = words
    client = boto3.client(NAMED.get(service, service), region_name=os.environ["AWS_REGION"])
    names = {xform_name(each, "-"): each for each in client.meta.service_model.operation_names}
    members = client.meta.service_model.operation_model(names[operation]).input_shape.members
    given, common = dict[str, Any](), dict[str, str]()
    for option, values in _options(rest):
        if option in OF_ALL_COMMANDS:
            (common[option],) = values
        elif option.startswith("--no-"):
            given[_member(members, option.removeprefix("--no-"))] = False
        else:
            name = _member(members, option.removeprefix("--"))
            given[name] = _value(members[name], values)
    if "--cli-input-json" in common:
        given |= json.loads(Path(common["--cli-input-json"].removeprefix("file://")).read_text())
    answer = getattr(client, xform_name(names[operation]))(**given)
    answer.pop("ResponseMetadata")
    found = jmespath.search(common.get("--query", "@"), answer)
    texts = found if isinstance(found, list) else [found]
    is_text = common.get("--output") == "text" and all(isinstance(each, str) for each in texts)
    sys.stdout.write(("\t".join(texts) if is_text else json.dumps(found, default=str)) + "\n")


def _options(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    starts = [number for number, word in enumerate(words) if word.startswith("--")]
    assert starts[:1] in ([], [0]), f"{words[0]}: expected an option"
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        yield words[start], [*words[start + 1 : end]]


def _member(members: Any, option: str) -> str:
    (name,) = (each for each in members if xform_name(each, "-") == option)
    return str(name)


def _value(shape: Any, values: list[str]) -> Any:
    if shape.type_name == "list":
        return [_value(shape.member, [each]) for each in values]
    if shape.type_name == "boolean":
        assert values == []
        return True
    (value,) = values
    return int(value) if shape.type_name in ("integer", "long") else value


if __name__ == "__main__":
    main(sys.argv[1:])
