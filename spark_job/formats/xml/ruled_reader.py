"""Records of XML by the rules of a source: one that is as the schema says is read once, any other one a second time."""

from collections.abc import Mapping, Sequence
from typing import Any

from lxml import etree
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import SchemaRules
from blizzard.infer.text import TextForms
from spark_job.formats.odd_data import OddRecord
from spark_job.formats.records_table import Fitted
from spark_job.formats.text_values import TextRules
from spark_job.formats.xml.elements import Misfit, RecordElements
from spark_job.formats.xml.odd_elements import OddElements


class RuledReader:
    """Of one schema. Not shared by threads."""

    def __init__(self, schema: StructType, rules: SchemaRules, texts: TextRules, *, ignore_namespace: bool) -> None:
        self._plain = RecordElements(schema, ignore_namespace=ignore_namespace)
        forms = TextForms(texts.decimal_point, texts.date_format, texts.timestamp_format)
        self._odd = OddElements(schema, rules, ignore_namespace=ignore_namespace, forms=forms)
        self._looks_at_records = rules.looks_at_records

    def read(self, element: "etree._Element", text: bytes) -> tuple[dict[str, Any], set[str], OddRecord | None]:
        """The values by column, the names that no column is for and that are only counted, and what is odd. May change
        the element. `text`: the record. Raises Misfit."""
        try:
            values = self._plain.values(element)
            if not (self._looks_at_records and self._plain.unknown):
                return values, self._plain.unknown, None
        except Misfit:
            if not self._looks_at_records:
                raise
        values, odd = self._odd.values(element, text)
        return values, self._odd.unknown, odd if odd.unknown or odd.misfits else None

    def add_misfits(
        self,
        odd: dict[int, OddRecord],
        fitted: Fitted,
        found: Sequence[Mapping[str, Any]],
        positions: Sequence[int],
    ) -> None:
        """Those of values that could not be converted. Of records that are refused none is counted. `positions`: the
        numbers of the records."""
        for row in fitted.reasons:
            if positions[row] in odd:
                odd[positions[row]].misfits = []
        for one in fitted.taken_out:
            for row in sorted(one.rows - fitted.reasons.keys()):
                value = _at(found[row], one.path)
                odd.setdefault(positions[row], OddRecord()).misfits.append(self._odd.misfit(one.path, value))


def _at(record: Any, path: Sequence[str]) -> Any:
    for name in path:
        record = record[name]
    return _json(record)


def _json(value: Any) -> Any:
    """Maps are lists of pairs here."""
    if isinstance(value, dict):
        return {name: _json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        is_map = all(isinstance(inner, tuple) for inner in value)
        return {name: _json(inner) for name, inner in value} if is_map else [_json(inner) for inner in value]
    return value
