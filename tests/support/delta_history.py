"""What made the versions of a Delta table."""

from pyspark.sql import SparkSession


def commits(spark: SparkSession, name: str) -> list[tuple[str, str]]:
    """The operation of each version, the newest first, and whether a task (delta-rs) or Spark made it."""
    history = spark.sql(f"DESCRIBE HISTORY {name}").collect()
    return [(one["operation"], "task" if one["engineInfo"].startswith("delta-rs") else "spark") for one in history]
