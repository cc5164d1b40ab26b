"""A campaign whose variant decides how it ends, to test the command that runs campaigns."""

import os
import time
from collections.abc import Mapping

from tests.proof.campaign import Failed, Fault, Run


class ScriptedCampaign:
    name = "scripted"
    about = "ends as its variant says"
    variants: Mapping[str, Fault] = {
        "fails": Fault("a row is missing", "a row is missing"),
        "otherwise": Fault("a row is doubled", "a row is doubled"),
        "passes": Fault("nothing", "nothing"),
        "breaks": Fault("an error", "no finding"),
        "dies": Fault("no last word", "last word"),
    }

    def run(self, run: Run) -> None:
        run.counts.update({"files at most": run.files, "percent on Spark": round(100 * run.spark_share)})
        for number, rng in run.rounds():
            run.counts["numbers"] += rng.randrange(10)
            run.say(f"round {number}")
            if run.variant in ("fails", "otherwise"):
                raise Failed("a row is missing", ["somebody came", "and took it"])
            if run.variant == "breaks":
                raise ZeroDivisionError("no finding")
            if run.variant == "dies":
                print("its last words", flush=True)
                os._exit(3)
            time.sleep(0.01)


CAMPAIGN = ScriptedCampaign()
