"""Folders of files as ten kinds of producers leave them, with the records that they hold."""

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

DAY = date(2026, 11, 1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Landing:
    """`rows`: how many rows the table must have. `types`: some of its columns. `values`: a column and the set of its
    values. `source`: lines that the configuration must have."""

    rows: int
    types: Mapping[str, str]
    values: Mapping[str, set[Any]]
    source: Sequence[str]


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    moment = NOON.timestamp()
    os.utime(file, (moment, moment))


def _lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _csv(rows: Sequence[Sequence[Any]], **dialect: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", **dialect).writerows(rows)
    return text.getvalue()


def github_events(folder: Path) -> Landing:
    """GH Archive: an hour of events a file, whose payload depends on the type."""

    def event(number: int) -> dict[str, Any]:
        payloads: list[dict[str, Any]] = [
            {
                "push_id": 10**10 + number,
                "size": 1,
                "commits": [{"sha": "a" * 40, "distinct": True, "author": {"name": "x"}}],
            },
            {"action": "opened", "issue": {"id": number, "labels": [], "milestone": None, "title": "it fails"}},
            {"ref": None, "ref_type": "repository", "description": "tool"},
        ]
        return {
            "id": str(4 * 10**10 + number),
            "type": ["PushEvent", "IssuesEvent", "CreateEvent"][number % 3],
            "actor": {"id": number, "login": f"user{number}", "gravatar_id": "", "url": "https://api.github.com/"},
            "repo": {"id": 99, "name": "a/b"},
            "payload": payloads[number % 3],
            "public": True,
            "created_at": (NOON + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **({"org": {"id": 5}} if number % 5 == 0 else {}),
        }

    for hour in range(4):
        records = [event(hour * 30 + number) for number in range(30)]
        _write(folder / f"2026-11-01-{hour}.json.gz", gzip.compress(_lines(records)))
    ids = {str(4 * 10**10 + number) for number in range(120)}
    return Landing(
        120, {"id": "string", "created_at": "timestamp", "public": "boolean"}, {"id": ids}, ["format: ndjson"]
    )


def taxi_trips(folder: Path) -> Landing:
    """New York's trip records as CSV, with fields that are empty and amounts that are negative."""
    header = [
        "VendorID",
        "tpep_pickup_datetime",
        "passenger_count",
        "trip_distance",
        "store_and_fwd_flag",
        "fare_amount",
    ]
    for month in range(1, 4):
        rows = [
            [
                1 + number % 2,
                f"2026-{month:02d}-03 08:{number:02d}:11",
                number % 4 or "",
                f"{number}.5",
                "N",
                f"-{number}.25",
            ]
            for number in range(40)
        ]
        _write(folder / f"yellow_tripdata_2026-{month:02d}.csv", _csv([header, *rows]).encode())
    types = {"VendorID": "bigint", "tpep_pickup_datetime": "timestamp", "trip_distance": "double"}
    return Landing(120, types, {"VendorID": {1, 2}, "passenger_count": {None, 1, 2, 3}}, ["format: csv"])


def cloudtrail(folder: Path) -> Landing:
    """One object a file, which holds the records in an array, in dated folders of an account and region."""
    for day in range(1, 4):
        records = [
            {
                "eventVersion": "1.09",
                "userIdentity": {"type": "IAMUser", "accountId": "007000000001"},
                "eventTime": f"2026-11-{day:02d}T10:00:{number:02d}Z",
                "eventName": "GetObject",
                "requestParameters": {"bucketName": "b", "key": str(number)} if number % 2 else None,
                "responseElements": None,
                "eventID": f"{day}-{number}",
            }
            for number in range(10)
        ]
        body = gzip.compress(json.dumps({"Records": records}).encode())
        place = folder / f"AWSLogs/007000000001/CloudTrail/eu-west-1/2026/11/{day:02d}"
        _write(place / f"007000000001_CloudTrail_eu-west-1_202611{day:02d}T1005Z_x{day}.json.gz", body)
    ids = {f"{day}-{number}" for day in range(1, 4) for number in range(10)}
    wanted = ["format: json", 'records: "Records"', "AWSLogs/007000000001/CloudTrail/eu-west-1/%Y/%m/%d"]
    return Landing(30, {"eventTime": "timestamp", "eventID": "string"}, {"eventID": ids}, wanted)


def vpc_flow_logs(folder: Path) -> Landing:
    """Fields between blanks, with a header; `-` where there is no value."""
    header = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action"
    header += " log-status"
    for part in range(3):
        lines = [header]
        for number in range(20):
            start = 1_793_500_000 + number
            seen = f"10.0.0.{number} 10.0.1.1 {40000 + number} 443 6 10 {number * 100} {start} {start + 60} ACCEPT OK"
            none = f"- - - - - - - {start} {start + 60} - NODATA"
            lines.append(f"2 123456789012 eni-0{part} {none if number == 7 else seen}")
        _write(folder / f"flow-{part}.log.gz", gzip.compress("\n".join(lines).encode() + b"\n"))
    wanted = ["format: csv", 'delimiter: " "', 'null_values: ["", "-"]']
    return Landing(
        60, {"account-id": "string", "srcport": "bigint", "srcaddr": "string"}, {"dstport": {443, None}}, wanted
    )


def s3_access_logs(folder: Path) -> Landing:
    """Lines of blanks, brackets and quotes, without a header or an extension."""
    lines = set[str]()
    for part in range(3):
        some = [
            f"79a59df900b949e5 bucket [01/Nov/2026:00:00:{number:02d} +0000] 192.0.2.3 - {part}{number:03d} REST.GET "
            f'photos/{number}.jpg "GET /bucket/photos/{number}.jpg HTTP/1.1" 200 - 2662992 3462992 70 10 "-" '
            f'"curl/7.15 (a; \\"b\\")" - xyz= SigV4 TLS_AES_128 AuthHeader bucket.s3.amazonaws.com TLSv1.3'
            for number in range(15)
        ]
        lines |= {*some}
        _write(folder / f"2026-11-01-00-0{part}-12-A1B2C3D4E5F6{part}", ("\n".join(some) + "\n").encode())
    return Landing(45, {"value": "string"}, {"value": {*lines}}, ["format: text"])


def iot_avro(folder: Path) -> Landing:
    """Avro with a logical type, an enum and a nested record, by device and day."""
    schema = {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "device_id", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "temperature", "type": ["null", "float"]},
            {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["OK", "LOW"]}},
            {
                "name": "place",
                "type": {"type": "record", "name": "Place", "fields": [{"name": "lat", "type": "double"}]},
            },
        ],
    }
    for day in range(3):
        for device in range(2):
            records = [
                {
                    "device_id": f"d{device}",
                    "at": NOON,
                    "temperature": None if n == 0 else n / 2,
                    "status": "OK",
                    "place": {"lat": 1.5},
                }
                for n in range(10)
            ]
            body = io.BytesIO()
            fastavro.writer(body, fastavro.parse_schema(schema), records, codec="deflate")
            _write(folder / f"dt={DAY + timedelta(days=day)}/device={device:02d}/part.avro", body.getvalue())
    types = {"device_id": "string", "at": "timestamp", "temperature": "float", "dt": "date", "device": "string"}
    return Landing(
        60, types, {"dt": {DAY + timedelta(days=day) for day in range(3)}, "device": {"00", "01"}}, ["format: avro"]
    )


def shop_orders(folder: Path) -> Landing:
    """Pretty objects, one a file, with nested items that may be empty, and numbers with and without a fraction."""
    numbers = range(24)
    for number in numbers:
        order = {
            "order_id": number,
            "placed": f"2026-11-0{1 + number % 9}",
            "customer": {"name": "Ana", "zip": "01067", "vip": number % 2 == 0},
            "items": [{"sku": f"s{at}", "qty": at + 1, "price": 2.5 if at else 3} for at in range(number % 3)],
            "coupon": None if number % 4 else number,
        }
        _write(folder / f"orders/{number:03d}.json", json.dumps(order, indent=2).encode())
    types = {"order_id": "bigint", "placed": "date", "coupon": "bigint"}
    return Landing(24, types, {"order_id": {*numbers}}, ["format: json"])


def european_csv(folder: Path) -> Landing:
    """Semicolons, decimal commas, days first, cp1252, names with blanks and umlauts, and zip codes."""
    header = ["Rechnungs Nr", "Datum", "Betrag", "Straße", "PLZ", "Bezahlt am"]
    for part in range(3):
        rows = [
            [
                part * 20 + n,
                f"{n + 1:02d}.11.2026",
                f"{n},5{n % 10}",
                "Müllerstraße 1",
                "10115",
                f"{n + 1:02d}.11.2026 08:30",
            ]
            for n in range(20)
        ]
        _write(folder / f"rechnungen-{part}.csv", _csv([header, *rows], delimiter=";").encode("cp1252"))
    types = {"Rechnungs_Nr": "bigint", "Datum": "date", "Betrag": "double", "PLZ": "string", "Bezahlt_am": "timestamp"}
    wanted = ['delimiter: ";"', 'decimal_point: ","', 'date_format: "%d.%m.%Y"', 'encoding: "cp1252"']
    wanted.append('Rechnungs_Nr: "Rechnungs Nr"')
    return Landing(60, types, {"Rechnungs_Nr": {*range(60)}, "Straße": {"Müllerstraße 1"}}, wanted)


def parquet_exports(folder: Path) -> Landing:
    """What Spark leaves: hive folders, a `_SUCCESS`, checksums beside the files, and a wider type in a later export."""
    for day in range(3):
        ids = range(day * 50, day * 50 + 50)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int32() if day < 2 else pa.int64()),
                "price": pa.array([Decimal("1.50")] * 50, pa.decimal128(10, 2)),
                "tags": pa.array([["a", "b"]] * 50, pa.list_(pa.string())),
                "at": pa.array([NOON] * 50, pa.timestamp("us", tz="UTC")),
            }
        )
        place = folder / f"year=2026/month=11/day={day + 1:02d}"
        body = io.BytesIO()
        pq.write_table(table, body)
        _write(place / "part-00000-9c1f.c000.snappy.parquet", body.getvalue())
        _write(place / ".part-00000-9c1f.c000.snappy.parquet.crc", b"crc\0\1")
    _write(folder / "_SUCCESS", b"")
    types = {"id": "bigint", "price": "decimal(10,2)", "tags": "array<string>", "month": "int"}
    return Landing(150, types, {"id": {*range(150)}, "day": {1, 2, 3}}, ["year=%Y/month=%m/day=%d", "format: parquet"])


def mixed_junk(folder: Path) -> Landing:
    """Two formats of the same records beside a readme, an image, an archive, and marks of other programs."""
    records = [{"id": number, "name": f"n{number}", "amount": number / 2} for number in range(40)]
    _write(folder / "a.ndjson", _lines(records[:20]))
    _write(folder / "b.csv", _csv([["id", "name", "amount"], *(list(one.values()) for one in records[20:])]).encode())
    _write(folder / "README.md", b"# What this is\n\nSome files, of which some are data.\n")
    _write(folder / "logo.png", b"\x89PNG\r\n\x1a\n" + bytes(100))
    _write(folder / "report.xlsx", b"PK\x03\x04" + bytes(100))
    _write(folder / ".DS_Store", b"\0\0\0\1Bud1")
    _write(folder / "_SUCCESS", b"")
    return Landing(
        40, {"id": "bigint", "amount": "double"}, {"id": {*range(40)}}, ["format: mixed", "README.md", "logo.png"]
    )


LANDINGS: Mapping[str, Callable[[Path], Landing]] = {
    make.__name__: make
    for make in (
        github_events,
        taxi_trips,
        cloudtrail,
        vpc_flow_logs,
        s3_access_logs,
        iot_avro,
        shop_orders,
        european_csv,
        parquet_exports,
        mixed_junk,
    )
}
