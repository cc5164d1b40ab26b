"""How the records of one schema are read and decided, for every format whose records are JSON objects."""

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.json.odd_parser import OddJsonParser
from spark_job.formats.json.odd_records_by_spark import decided_with_rules
from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.spark_parser import decided_by_spark


class JsonRecords:
    """Without rules that ask for more, lines are parsed as if there were none."""

    def __init__(self, schema: StructType, rules: SchemaRules) -> None:
        self._schema = schema
        self._rules = rules
        self.parser = OddJsonParser(schema, rules) if rules.looks_at_records else NdjsonParser(schema)

    def decide(self, deferred: DataFrame) -> DataFrame:
        """As `Format.decide`; with rules that ask for more, with the column `_rescued`."""
        if self._rules.looks_at_records:
            return decided_with_rules(deferred, self._schema, self._rules)
        return decided_by_spark(deferred, self._schema)
