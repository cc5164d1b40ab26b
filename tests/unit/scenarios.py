"""What scenarios over a `World` share: its dated folders, and what the table has to hold in the end."""

from tests.unit.fakes import DAY_SECS, Days, World, settings


def lines(*paths: str) -> dict[str, list[str]]:
    """The rows of files that `World.arrive` made, as `World.files` gives them."""
    return {path: [f"{path} 0", f"{path} 1"] for path in sorted(paths)}


def day(world: World, ago: int = 0) -> str:
    return Days().oldest_folder(world.clock.now_ts, ago + 1)


def dated(**more: object) -> World:
    return World(settings(window=Days(), **more))  # type: ignore[arg-type]


def close_all(world: World) -> None:
    """Let all dated folders leave the window and be closed."""
    world.clock.advance(5 * DAY_SECS)
    world.settle()
    assert world.late_sweep().listed == 0
    world.drain()


def large(world: World, path: str = "large.txt", records: int = 30) -> list[str]:
    content = [f"record {n:02d}" for n in range(records)]
    world.arrive(path, *content)
    return content
