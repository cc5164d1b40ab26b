"""The Python packages that a platform brings along, and no others: symbolic links into this environment."""

import sysconfig
from collections.abc import Iterable
from pathlib import Path


def link_packages(folder: Path, names: Iterable[str]) -> Path:
    """A folder with a link for each of `names` that is installed here; a package `x` brings its `x.libs` along."""
    folder.mkdir(parents=True, exist_ok=True)
    installed = Path(sysconfig.get_path("purelib"))
    for name in names:
        for found in (installed / name, installed / f"{name}.libs"):
            link = folder / found.name
            if found.exists() and not link.exists():
                link.symlink_to(found)
    return folder
