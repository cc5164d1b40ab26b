"""`blizzard validate --against-table` starts this and reads its JSON. Standard input has, by source, the fields of
derived columns, if Spark was asked for them."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql.types import StructField

from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError, PermanentError, RetryableError
from blizzard.kafka.positions import about_missing, topics_missing
from blizzard.storage.s3_connection import S3Settings
from spark_job.against_table.compare import compared
from spark_job.against_table.comparison import Comparison
from spark_job.topic_wiring import brokers_of

EXIT_FITS, EXIT_REFUSED, EXIT_CONFIG = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="blizzard-against-table", description="Compare a configuration and tables.")
    parser.add_argument("--config", required=True, help="path of the configuration")
    options = parser.parse_args(arguments)
    types = {source: [*map(StructField.fromJson, fields)] for source, fields in json.load(sys.stdin).items()}
    environ = variables()
    try:
        config, s3 = load_config(options.config, environ), S3Settings.from_environment(environ)
        found = [_of_source(pipeline, source, s3, types.get(source.id, ())) for pipeline, source in config.sources()]
    except ConfigError as error:
        print("\n".join(error.problems), file=sys.stderr)
        return EXIT_CONFIG
    except BlizzardError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    print(json.dumps([asdict(one) for one in found]))
    return EXIT_REFUSED if any(one.refused for one in found) else EXIT_FITS


def _of_source(pipeline: Pipeline, source: Source, s3: S3Settings, derived: Sequence[StructField]) -> Comparison:
    if source.kafka is None:
        return compared(pipeline, source, s3, derived=derived)
    try:
        cluster = brokers_of(source, source.kafka).cluster()
    except (PermanentError, RetryableError) as error:
        found = compared(pipeline, source, s3, derived=derived)
        found.refused.append(str(error))
        return found
    found = compared(pipeline, source, s3, cluster, derived=derived)
    missing = topics_missing(source.kafka, cluster.topics.keys())
    found.notes += [about_missing(source.kafka, missing)] if missing else []
    return found


if __name__ == "__main__":
    sys.exit(main())
