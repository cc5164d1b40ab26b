"""`python -m infra.prices`: what the stack costs idle for a month and for a million files, as docs/operate.md shows it.

`--prices FILE` reads another price list, for example of your region.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from infra.prices.bills import as_markdown, idle_month, million_files
from infra.prices.price_list import FILE, Item, PriceList, read_prices
from infra.prices.quantities import count_quantities
from infra.template.evaluated import with_conditions_evaluated
from infra.template.rules import shipped_templates

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.prices", description=__doc__)
    parser.add_argument("--prices", type=Path, default=FILE, help="a price list such as infra/prices/us-east-1.json")
    prices = read_prices(parser.parse_args(arguments).prices)
    print(f"{prices.region}, list prices of {prices.date}")
    for title, items in zip(("A month without files", "A million files"), bills(prices), strict=True):
        print(f"\n{title}\n")
        print("\n".join(as_markdown(items)))


def bills(prices: PriceList) -> tuple[Sequence[Item], Sequence[Item]]:
    """Idle for a month, and a million files, with the defaults of the shipped template."""
    shipped = shipped_templates(ROOT)[0]
    template = shipped.with_conditions
    names = {name: str(parameter.get("Default", "")) for name, parameter in template["Parameters"].items()}
    used = count_quantities(with_conditions_evaluated(template, names), shipped.code)
    return idle_month(used, prices), million_files(used, prices)


if __name__ == "__main__":
    main()
