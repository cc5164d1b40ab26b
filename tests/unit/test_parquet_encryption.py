"""Encrypted Parquet, as pyarrow writes it: the reason says that it is encrypted, and columns in plain text are read."""

import base64
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from spark_job.formats.protocol import FileFault
from tests.unit.format_reading import read_file

TABLE = pa.table({"id": [1, 2], "secret": ["a", "b"]})
BOTH = "id BIGINT, secret STRING"


class Keys(encryption.KmsClient):  # type: ignore[misc]
    """Wraps keys without a secret."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, master: str) -> bytes:
        return base64.b64encode(master.encode() + key)

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        return base64.b64decode(wrapped)[len(master) :]


def encrypted(*columns: str, plaintext_footer: bool) -> bytes:
    """`columns`: with a key of their own. Without, everything has that of the footer."""
    keys = {"column_keys": {"c": [*columns]}} if columns else {"uniform_encryption": True}
    configuration = encryption.EncryptionConfiguration(footer_key="f", plaintext_footer=plaintext_footer, **keys)
    factory = encryption.CryptoFactory(Keys)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)
    stored = io.BytesIO()
    with pq.ParquetWriter(stored, TABLE.schema, encryption_properties=properties) as writer:
        writer.write_table(TABLE)
    return stored.getvalue()


@pytest.mark.parametrize("columns", [(), ("secret",)])
def test_an_encrypted_footer_is_told_as_that(columns: tuple[str, ...]) -> None:
    stored = encrypted(*columns, plaintext_footer=False)
    with pytest.raises(FileFault, match=r"^encrypted Parquet: its footer is encrypted, and no keys .* without encrypt"):
        read_file("parquet", BOTH, stored)


def test_an_encrypted_column_is_told_as_that() -> None:
    stored = encrypted("secret", plaintext_footer=True)
    with pytest.raises(FileFault, match=r"^encrypted Parquet: column secret is encrypted, and no keys can be given"):
        read_file("parquet", BOTH, stored)


def test_columns_beside_an_encrypted_one_are_read() -> None:
    stored = encrypted("secret", plaintext_footer=True)
    assert read_file("parquet", "id BIGINT", stored).values == [{"id": 1}, {"id": 2}]
