"""The prices of one region, read from the file next to this module."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("us-east-1.json")


@dataclass(frozen=True, slots=True)
class PriceList:
    """`date`: when somebody compared the prices with AWS's. `prices`: by name, which ends in the unit."""

    region: str
    date: str
    prices: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.prices[name]


@dataclass(frozen=True, slots=True)
class Item:
    """A row of a bill."""

    what: str
    quantity: float
    price: float

    @property
    def dollars(self) -> float:
        """In cents, as a bill shows it."""
        return round(self.quantity * self.price, 2)


def read_prices(path: Path = FILE) -> PriceList:
    """Raises OSError, and KeyError, TypeError or ValueError for a list that lacks something that FILE has."""
    document = json.loads(path.read_text())
    names = json.loads(FILE.read_text())["prices"]
    prices = {name: float(document["prices"][name]) for name in names}
    return PriceList(str(document["region"]), str(document["date"]), prices)
