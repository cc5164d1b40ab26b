"""Translates the SAM template to plain CloudFormation, without an account or a network."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
from samtranslator.metrics.metrics import DummyMetricsPublisher, Metrics  # type: ignore[import-untyped]
from samtranslator.model.exceptions import InvalidDocumentException  # type: ignore[import-untyped]
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

from blizzard.environment import set_variables, variables

FUNCTION = "AWS::Serverless::Function"
TRANSFORM = "AWS::Serverless-2016-10-31"
REGION = "eu-west-1"
"""Any region will do: the translator derives only the partition, which the template takes from `AWS::Partition`."""

Template = dict[str, Any]


class TranslationError(Exception):
    """The template cannot be translated; the text says what and where."""


def parse(text: str) -> Template:
    """Parse a SAM template, with intrinsic functions in their long form (`!Ref X` becomes `{"Ref": "X"}`)."""
    parsed: Template = yaml_parse(text)
    return parsed


def translate(path: Path | str, function_zip_uris: Mapping[str, str]) -> Template:
    """The CloudFormation template that `sam deploy` would deploy.

    `function_zip_uris`: the s3:// URI of each function's zip by logical id, instead of the local path that `sam deploy`
    uploads. Raises TranslationError.
    """
    return translate_template(parse(Path(path).read_text()), function_zip_uris)


def translate_template(sam: Template, function_zip_uris: Mapping[str, str]) -> Template:
    """As `translate`, for a parsed template, which is not changed."""
    if sam.get("Transform") != TRANSFORM:
        raise TranslationError(f"Transform: expected {TRANSFORM}, found {sam.get('Transform')}")
    functions = [name for name, resource in sam["Resources"].items() if resource["Type"] == FUNCTION]
    if set(function_zip_uris) != set(functions):
        raise TranslationError(
            f"function_zip_uris: expected one for each of {sorted(functions)}, found {sorted(function_zip_uris)}"
        )
    ready = {**sam, "Resources": {name: _with_code(name, r, function_zip_uris) for name, r in sam["Resources"].items()}}
    with _default_region():
        # Without a publisher, the translator complains at exit about unpublished metrics.
        metrics = Metrics(TRANSFORM, DummyMetricsPublisher())
        session = boto3.Session(region_name=REGION)
        translator = Translator(managed_policy_map={}, sam_parser=Parser(), boto_session=session, metrics=metrics)
        try:
            plain: Template = translator.translate(sam_template=ready, parameter_values={})
        except InvalidDocumentException as error:
            raise TranslationError("; ".join(cause.message for cause in error.causes) or error.message) from error
        finally:
            metrics.publish()
    return plain


def _with_code(name: str, resource: Template, function_zip_uris: Mapping[str, str]) -> Template:
    if name not in function_zip_uris:
        return resource
    return {**resource, "Properties": {**resource["Properties"], "CodeUri": function_zip_uris[name]}}


@contextmanager
def _default_region() -> Iterator[None]:
    """The translator makes some sessions of its own, which need a region."""
    if "AWS_DEFAULT_REGION" not in variables():
        set_variables({"AWS_DEFAULT_REGION": REGION})
    yield
