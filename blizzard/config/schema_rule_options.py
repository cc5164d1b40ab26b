"""The options of a source for data that is not as its schema says."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from blizzard.config.schema_rules import SchemaRules, key_path
from blizzard.config.section import Section, no_bool


def _key_path(text: str) -> str:
    key_path(text)
    return text


class SchemaRuleOptions(Section):
    """They are for the files of all formats that a source has."""

    new_fields: Literal["count", "rescue", "add", "dead_letter"] = Field(
        default="count",
        description="What to do with a field that no column is for. count: it is not ingested, but counted and named. "
        "rescue: it goes as JSON text into the column _rescued. add: the table gets a column for it; what cannot be "
        "added is rescued. dead_letter: its record is dead-lettered.",
    )
    misfits: Literal["dead_letter", "rescue", "widen"] = Field(
        default="dead_letter",
        description="What to do with a value that does not fit its column. dead_letter: its record is dead-lettered. "
        "rescue: the column is null, and the value goes as JSON text into the column _rescued. widen: the column gets "
        "a wider type; where it cannot, as rescue.",
    )
    max_new_columns: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = Field(
        default=100,
        description="With `new_fields: add`: how many columns the table may have that no source of the pipeline has in "
        "its schema. Fields of nested columns count, too. What is above it is rescued.",
    )
    keys: Literal["exact", "ignore_case"] = Field(
        default="exact",
        description="Whether a key of a file that differs from a column in case only fills it. exact: no, but the log "
        "names the column.",
    )
    fields: dict[str, Annotated[str, AfterValidator(_key_path)]] = Field(
        default={},
        description="Columns whose key in the files has another name or is nested: column to key, with dots between "
        "nested keys. A key with a dot in its name is written in backticks.",
        examples=[{"user_id": "userId", "city": "address.city"}],
    )

    @property
    def schema_rules(self) -> SchemaRules:
        fields = {column: key_path(text) for column, text in self.fields.items()}
        return SchemaRules(self.new_fields, self.misfits, self.keys, fields)
