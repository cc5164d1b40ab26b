"""Fields inside of columns that are found by an alias. Those of the records themselves are found by `format.py`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spark_job.formats.avro.arrow_schema import AvroField, names_in

Renames = Mapping[str, str]


def renamed(schema: Any, columns: Mapping[str, AvroField], wanted: StructType, fold: Callable[[str], str]) -> Any:
    """The schema with such fields under the names that `wanted` has for them: the bytes of a record are the same under
    any names. `columns`: the fields by their columns' names; `fold`: what two names have in common that count as one.
    The schema itself if there are none."""
    found = _Structs(names_in(schema), fold)
    types = {fold(column.name): column.dataType for column in wanted}
    for name, one in columns.items():
        if fold(name) in types:
            found.look(one.schema, types[fold(name)])
    renames = {place: some for place, some in found.renames() if some}
    return _renamed(schema, renames) if renames else schema


@dataclass(slots=True)
class _Structs:
    """The records in a schema that are read as structs. One may be used in several places, by its name."""

    names: Mapping[str, Any]
    fold: Callable[[str], str]
    records: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    wanted: dict[int, set[str]] = field(default_factory=dict)
    """The names in all structs that a record is read as."""

    def look(self, schema: Any, data_type: DataType) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self.look(branch, data_type)
        elif isinstance(schema, str):
            if schema in self.names:
                self.look(self.names[schema], data_type)
        elif isinstance(schema, dict):
            self._look_inside(schema, data_type)

    def _look_inside(self, schema: Mapping[str, Any], data_type: DataType) -> None:
        match schema.get("type"), data_type:
            case "record" | "error", StructType():
                self._look_at_record(schema, data_type)
            case "array", ArrayType():
                self.look(schema["items"], data_type.elementType)
            case "map", MapType():
                self.look(schema["values"], data_type.valueType)
            case (dict() | list()) as inner, _:
                self.look(inner, data_type)

    def _look_at_record(self, record: Mapping[str, Any], struct: StructType) -> None:
        fold = self.fold
        types = {fold(one.name): one.dataType for one in struct}
        self.records[id(record)] = record
        self.wanted.setdefault(id(record), set()).update(types)
        for one in record["fields"]:
            name = next((name for name in (one["name"], *_aliases(one)) if fold(name) in types), None)
            if name is not None:
                self.look(one["type"], types[fold(name)])

    def renames(self) -> Iterator[tuple[int, Renames]]:
        fold = self.fold
        for place, record in self.records.items():
            wanted, taken = self.wanted[place], {fold(one["name"]) for one in record["fields"]}
            found = dict[str, str]()
            for one in record["fields"]:
                if fold(one["name"]) not in wanted:
                    free = (alias for alias in _aliases(one) if fold(alias) in wanted - taken)
                    if (alias := next(free, None)) is not None:
                        found[one["name"]] = alias
                        taken.add(fold(alias))
            yield place, found


def _aliases(one: Mapping[str, Any]) -> list[str]:
    aliases = one.get("aliases")
    return [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []


def _renamed(schema: Any, renames: Mapping[int, Renames]) -> Any:
    if isinstance(schema, list):
        return [_renamed(branch, renames) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    names, found = renames.get(id(schema), {}), dict(schema)
    for key in ("type", "items", "values"):
        if key in found:
            found[key] = _renamed(found[key], renames)
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**one, "name": names.get(one["name"], one["name"]), "type": _renamed(one["type"], renames)}
            for one in found["fields"]
        ]
    return found
