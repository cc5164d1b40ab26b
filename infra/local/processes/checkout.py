"""Where this repository is checked out."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
