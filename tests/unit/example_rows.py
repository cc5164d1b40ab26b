"""What the files of each example hold, written down by hand: the rows, and the records that are refused."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Row = tuple[str, int, Mapping[str, Any]]
"""The file, the number of the record in it, and its columns."""
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


def _order(number: int, customer: str, amount: str, day: int, note: str | None) -> dict[str, Any]:
    of_order = {"Bestell-Nr": number, "Kunde": customer, "Betrag": Decimal(amount)}
    return {**of_order, "Datum": date(2026, 11, day), "Notiz": note}


def _entry(number: int, day: int, amount: str, note: str | None) -> dict[str, Any]:
    booked = {"_currency": "EUR", "_VALUE": Decimal(amount)}
    return {"_id": number, "booked": date(2026, 11, day), "amount": booked, "note": note}


def _reading(device: str, minute: int, celsius: float | None, state: str, firmware: str) -> dict[str, Any]:
    at = datetime(2026, 11, 21, 10, minute, tzinfo=UTC)
    return {"device": device, "at": at, "celsius": celsius, "state": state, "firmware": firmware}


def _trip(vendor: int, minute: int, distance: float | None, fare: str, zone: str) -> dict[str, Any]:
    at = datetime(2026, 1, 1, 0, minute, tzinfo=UTC)
    return {"vendor": vendor, "pickup": at, "distance": distance, "fare": Decimal(fare), "zone": zone}


ROWS: Mapping[str, Sequence[Row]] = {
    "avro": [
        ("readings.avro", 0, _reading("a1", 0, 20.5, "OK", "1.2")),
        ("readings.avro", 1, _reading("b7", 1, None, "LOW_BATTERY", "1.1")),
    ],
    "binary": [("pixel.png", 0, {"content": _PIXEL, "length": 70})],
    "csv": [
        ("orders-2026-11-22.csv", 0, _order(1001, "Jørgensen", "12.50", 21, None)),
        ("orders-2026-11-22.csv", 1, _order(1002, "Müller", "7.00", 21, "zwei Zeilen,\r\nin Anführungszeichen")),
        ("orders-2026-11-22.csv", 3, _order(1004, "Durand", "1200.99", 22, 'sagt "bonjour"')),
        ("orders-2026-11-23.csv.gz", 0, _order(1005, "Rossi", "3.10", 23, None)),
    ],
    "json": [
        ("page-1.json", 0, {"id": 1, "name": "lamp", "tags": ["home", "light"], "size": {"w": 10, "h": 40}}),
        ("page-1.json", 1, {"id": 2, "name": "desk", "tags": [], "size": {"w": 160, "h": 72}}),
        ("page-2.json", 0, {"id": 3, "name": "chair", "tags": None, "size": None}),
    ],
    "mixed": [
        ("export.parquet", 0, {"id": 5, "name": "five"}),
        ("new.ndjson", 0, {"id": 3, "name": "three"}),
        ("new.ndjson", 1, {"id": 4, "name": "four"}),
        ("old.csv", 0, {"id": 1, "name": "one"}),
        ("old.csv", 1, {"id": 2, "name": "two"}),
    ],
    "orc": [
        ("views.orc", 0, {"id": 1, "page": "/", "ms": 12}),
        ("views.orc", 1, {"id": 2, "page": "/about", "ms": 7}),
    ],
    "parquet": [
        ("trips.parquet", 0, _trip(1, 15, 1.5, "9.30", "Queens")),
        ("trips.parquet", 1, _trip(2, 20, 0.8999999761581421, "7.90", "Harlem")),  # 0.9 as a FLOAT
        ("trips.parquet", 2, _trip(2, 31, None, "15.60", "Queens")),
    ],
    "text": [
        ("app.log", 0, {"value": "2026-11-21 10:00:00 INFO started"}),
        ("app.log", 1, {"value": "2026-11-21 10:00:03 WARN slow"}),
    ],
    "xml": [
        ("statement.xml", 0, _entry(1, 20, "-19.99", "Books & more")),
        ("statement.xml", 1, _entry(2, 21, "1500.00", None)),
    ],
}
"""By format, in the order of files and records."""
LETTERS: Mapping[str, Sequence[tuple[str, int]]] = {
    "csv": [("orders-2026-11-22.csv", 2)],  # the amount is `neunzig`
    "json": [("page-2.json", 1)],  # the id is "four"
}
"""By format: file and number."""


def plain(row: Mapping[str, Any]) -> Row:
    """A row of a table, without the columns that have no value for it."""
    place = row["_source"]
    return place["file"], place["row"], {name: value for name, value in row.items() if name != "_source"}
