"""`blizzard validate --ask-spark` starts this and reads its JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from blizzard.config.load import load_config
from blizzard.environment import variables
from blizzard.errors import BlizzardError
from blizzard.log import silent
from spark_job.expression_types.ask import asked
from spark_job.session import lazy_session, with_java

SESSION = {
    "spark.master": "local[1]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""It analyses expressions, and neither reads nor writes: it needs no jars of Delta, nor a thorough compiler."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="blizzard-expression-types", description="Let Spark analyse expressions.")
    parser.add_argument("--config", required=True, help="path of the configuration")
    options = parser.parse_args(arguments)
    try:
        config = load_config(options.config, variables())
        spark = with_java(lazy_session(SESSION, silent))()
        answers = [answer for pipeline in config.pipelines.values() for answer in asked(pipeline, spark)]
    except BlizzardError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([asdict(answer) for answer in answers]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
