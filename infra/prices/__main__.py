"""`python -m infra.prices`: what the stack costs, as docs/operate.md shows it.

`--prices FILE` reads another price list, for example of your region.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from blizzard.prices.backlog import MEMORY_GB, VCPUS
from blizzard.prices.price_list import FILE, Item, PriceList, read_prices
from infra.prices.bills import as_markdown, idle_month, million_files, month_in_use, thousand_runs
from infra.prices.quantities import count_quantities
from infra.template.evaluated import with_conditions_evaluated
from infra.template.rules import shipped_templates

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.prices", description=__doc__)
    parser.add_argument("--prices", type=Path, default=FILE, help="a price list such as blizzard/prices/us-east-1.json")
    prices = read_prices(parser.parse_args(arguments).prices)
    print(f"{prices.region}, list prices of {prices.date}")
    for title, items in bills(prices).items():
        print(f"\n{title}\n")
        print("\n".join(as_markdown(items)))


def bills(prices: PriceList) -> Mapping[str, Sequence[Item]]:
    """By title, with the defaults of the shipped template."""
    shipped = shipped_templates(ROOT)[0]
    template = shipped.with_conditions
    names = {name: str(parameter.get("Default", "")) for name, parameter in template["Parameters"].items()}
    used = count_quantities(with_conditions_evaluated(template, names), shipped.code)
    return {
        "A month without files": idle_month(used, prices),
        "What a month with files adds": month_in_use(used, prices),
        "A million files": million_files(used, prices),
        "A thousand probes": thousand_runs(prices, minutes=2, vcpus=2, memory_gb=6, requests=60),
        "A thousand runs of one small file": thousand_runs(
            prices, minutes=3, vcpus=VCPUS, memory_gb=MEMORY_GB, requests=40
        ),
    }


if __name__ == "__main__":
    main()
