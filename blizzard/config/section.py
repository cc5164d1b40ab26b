"""What all sections of `pipelines.yaml` have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"found {str(value).lower()}, expected a number")  # noqa: TRY004 - pydantic collects ValueError
    return value
