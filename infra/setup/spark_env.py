"""Spark's start script of a checkout's environment."""

from pathlib import Path

from blizzard.setup.java import Java


def write_spark_env(java: Java, pyspark_home: Path, more: str = "") -> None:
    """Write Spark's start script, so that this pyspark always uses `java`. `more`: further lines of it."""
    script = pyspark_home / "conf" / "spark-env.sh"
    text = (
        "# Written by the set-up. The JDK that it found, and an address that needs no lookup of the machine's name.\n"
        f"JAVA_HOME='{java.home}'\n"
        'SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"\n'
        f"{more}"
    )
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
