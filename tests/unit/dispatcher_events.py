"""Events that trigger the dispatcher."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def sample(name: str) -> Any:
    return json.loads((ROOT / "events" / f"{name}.json").read_text())


def wakes(*pipelines: str) -> Any:
    record = sample("wake")["Records"][0]
    return {
        "Records": [
            {**record, "messageId": f"m{n}", "body": json.dumps({"pipeline": name})} for n, name in enumerate(pipelines)
        ]
    }
