"""The block `avro` of a source with topics: the schemas by which its messages were written."""

import json
import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, model_validator

from blizzard.config.certificates import certificates, with_certificates
from blizzard.config.file_text import with_text
from blizzard.config.secret_name import secret_name
from blizzard.config.section import Section


def _registry_url(text: str) -> str:
    expected = "expected the address of a schema registry, such as https://registry:8081"
    try:
        parts = urlsplit(text)
        has_place = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, has_place = urlsplit(""), False
    if not has_place or parts.scheme not in ("http", "https") or not re.fullmatch(r"[!-~]+", text):
        raise ValueError(f"found {re.sub(r'.*@', '…@', text)!r:.200}; {expected}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"found a login in the address; {expected}, and the login in username and password")
    if parts.query or parts.fragment:
        raise ValueError(f"found {text!r:.200} with `?` or `#`; {expected}")
    return text.rstrip("/")


def _record_schema(text: str) -> str:
    """Whether columns can be read by it, the job finds out when it starts."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"found {text!r:.60}, expected a schema of Avro as JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        kind = schema.get("type") if isinstance(schema, dict) else schema
        raise ValueError(f"found a schema of the type {kind!r:.60}; a message has to be a record with named fields")
    return text


class SchemaRegistryOptions(Section):
    """A schema registry with the interface of Confluent's."""

    url: Annotated[str, AfterValidator(_registry_url)] = Field(
        description="Its address. Tasks ask it for `{url}/schemas/ids/{id}`.", examples=["https://registry:8081"]
    )
    username: str | None = Field(default=None, description="The user that logs in.", examples=["${REGISTRY_USER}"])
    password: SecretStr | None = Field(
        default=None,
        description="The user's password. Take it from a variable of the job's environment.",
        examples=["${REGISTRY_PASSWORD}"],
    )
    secret: Annotated[str, AfterValidator(secret_name)] | None = Field(
        default=None,
        description="Instead of username and password: a secret of AWS Secrets Manager, by its name or ARN, which "
        'holds the JSON {"username": …, "password": …}. The job reads it with its credentials of AWS.',
        examples=["schema-registry"],
    )
    ca_location: str | None = Field(
        default=None,
        description="A file with the certificates of the authorities that sign the registry's certificate (PEM). "
        "It is read with the configuration. Without it: those of the system.",
        examples=["ca.pem"],
    )
    ca_pem: Annotated[str, AfterValidator(certificates)] | None = Field(
        default=None, description="The text of that file, instead of its path."
    )

    @model_validator(mode="before")
    @classmethod
    def _with_the_files_text(cls, value: Any, info: ValidationInfo) -> Any:
        return with_certificates(value, info)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together; add the other one, or remove both")
        if self.secret is not None and self.username is not None:
            raise ValueError("secret takes the place of username and password; remove these, or remove secret")
        if self.ca_pem is not None and not self.url.startswith("https:"):
            raise ValueError("ca_location has no effect with http; remove it, or write an address with https")
        return self

    def for_tasks(self) -> dict[str, str | None]:
        """With the password that the configuration has."""
        password = None if self.password is None else self.password.get_secret_value()
        return {"url": self.url, "username": self.username, "password": password, "ca_pem": self.ca_pem}


class AvroMessageOptions(Section):
    """By which schemas the messages of a topic with `format: avro` were written."""

    schema_text: Annotated[str, AfterValidator(_record_schema)] | None = Field(
        default=None,
        alias="schema",
        description="The schema by which all messages were written, as JSON. Their payload is then the record alone.",
    )
    schema_file: str | None = Field(
        default=None,
        description="A file with that schema, whose path may be relative to the configuration's folder. It is read "
        "with the configuration.",
        examples=["clicks.avsc"],
    )
    registry: SchemaRegistryOptions | None = Field(
        default=None,
        description="The registry with the schemas of the messages, each of which begins with the id of its own.",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_the_files_text(cls, value: Any, info: ValidationInfo) -> Any:
        return with_text(value, info, file="schema_file", text="schema")

    @model_validator(mode="after")
    def _one_way_to_find_schemas(self) -> Self:
        if sum(one is not None for one in (self.schema_text, self.schema_file, self.registry)) != 1:
            raise ValueError("expected one of schema, schema_file and registry; add one, or remove the others")
        return self

    def for_tasks(self) -> dict[str, Any]:
        """As JSON values, with the registry's password, so this is never logged."""
        return {"schema": self.schema_text, "registry": None if self.registry is None else self.registry.for_tasks()}
