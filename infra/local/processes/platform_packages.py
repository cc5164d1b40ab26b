"""A folder with only the Python packages that a platform preinstalls: symbolic links into this environment."""

import sysconfig
from collections.abc import Iterable
from pathlib import Path


def link_packages(folder: Path, names: Iterable[str]) -> Path:
    """Link each of `names` that is installed here into `folder`, with the shared libraries in its `.libs` folder."""
    folder.mkdir(parents=True, exist_ok=True)
    installed = Path(sysconfig.get_path("purelib"))
    for name in names:
        for found in (installed / name, installed / f"{name}.libs"):
            link = folder / found.name
            if found.exists() and not link.exists():
                link.symlink_to(found)
    return folder
