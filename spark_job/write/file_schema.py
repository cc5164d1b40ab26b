"""Arrow schema of a data file: the table's types, except that strings may stay dictionary-encoded."""

import pyarrow as pa

_DICTIONARY_STRING = pa.dictionary(pa.int32(), pa.string())


def file_schema(wanted: pa.Schema, found: pa.Schema) -> pa.Schema:
    """`wanted`, reduced to the columns of `found`. A string that is dictionary-encoded in `found` stays encoded; the
    Parquet type is the same."""
    return pa.schema(
        [wanted.field(field.name).with_type(_file_type(wanted.field(field.name).type, field)) for field in found]
    )


def cast_to_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in exactly these types. Raises pyarrow's errors for values that do not fit them."""
    columns = [
        pa.chunked_array([_cast(chunk, field.type) for chunk in rows.column(field.name).chunks], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _file_type(wanted: pa.DataType, found: pa.Field) -> pa.DataType:
    if pa.types.is_dictionary(found.type) and pa.types.is_string(wanted):
        return _DICTIONARY_STRING
    if pa.types.is_struct(wanted) and pa.types.is_struct(found.type):
        fields = (wanted.field(number) for number in range(wanted.num_fields))
        return pa.struct([field.with_type(_file_type(field.type, found.type.field(field.name))) for field in fields])
    return wanted


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the array itself if it needs no change."""
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _cast_struct(array, kind)
    if pa.types.is_dictionary(kind):
        # Parquet's writer refuses null as a dictionary value.
        if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
            array = array.dictionary_decode()
        if not pa.types.is_dictionary(array.type):
            array = array.cast(kind.value_type).dictionary_encode()
    return array if array.type.equals(kind) else array.cast(kind)


def _cast_struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    found = [array.field(field.name) for field in fields]
    children = [_cast(child, field.type) for child, field in zip(found, fields, strict=True)]
    if array.type.equals(kind) and all(new is old for new, old in zip(children, found, strict=True)):
        return array
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
