"""Version combinations with which this version was tested."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Versions:
    """One combination. Several versions in a text are separated by commas."""

    spark: str
    python: str
    """Python versions on which Spark and its packages run."""
    java: str
    pandas: str
    pyarrow: str
    delta: str
    """Version of Delta, or "-" if no Delta was tested with this Spark."""
    iceberg: str
    """Version of Iceberg, or "-"."""
    kafka: str
    """Version of Spark's Kafka source, or "-"."""
    tested_by: str

    @property
    def jars(self) -> dict[str, str]:
        """Maven coordinates of the tested jars for `spark.jars.packages`, by name: "delta", "iceberg" and "kafka"."""
        minor = ".".join(self.spark.split(".")[:2])
        of_delta = "_2.13" if minor == "4.0" else f"_{minor}_2.13"
        artifacts = {
            "delta": (f"io.delta:delta-spark{of_delta}", self.delta),
            "iceberg": (f"org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13", self.iceberg),
            "kafka": ("org.apache.spark:spark-sql-kafka-0-10_2.13", self.kafka),
        }
        return {name: f"{artifact}:{release}" for name, (artifact, release) in artifacts.items() if release != "-"}


TESTED = (
    Versions("3.5.9", "3.10, 3.11", "17", "2.3.3", "23.0.1", "-", "-", "-", "make matrix"),
    Versions("4.0.0", "3.10 to 3.13", "17, 21", "2.3.3", "25.0.1, 26.0.1", "4.0.0", "1.10.0", "4.0.0", "make test"),
    Versions("4.1.4", "3.10 to 3.13", "17, 21", "2.3.3", "25.0.1, 26.0.1", "4.4.0", "1.12.0", "-", "make matrix"),
    Versions("4.3.0", "3.11 to 3.13", "17, 21", "2.3.3", "26.0.1", "-", "-", "-", "make matrix"),
)
"""Tested combinations, ordered by their versions of Spark."""


def combination_with(spark: str) -> Versions | None:
    """Return the combination with this Spark's minor version (4.0.1 is like 4.0.0), or None."""
    minor = spark.split(".")[:2]
    return next((one for one in TESTED if one.spark.split(".")[:2] == minor), None)
