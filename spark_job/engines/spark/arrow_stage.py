"""A Spark stage that runs a Python function on Arrow batches."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

if TYPE_CHECKING:
    import pyarrow as pa


def map_in_arrow(
    frame: DataFrame, function: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]", schema: StructType
) -> DataFrame:
    """`DataFrame.mapInArrow` without pandas, which Spark's own method requires though nothing in it uses pandas."""
    stage = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = stage(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(columns._jc, False, None), frame.sparkSession)
