"""A local Spark with the formats `kafka`, `delta` and `iceberg`, from the jars that `make jars` fetched.

With Spark 4.1 there is no `kafka`, and `make matrix` fetches the jars.
"""

from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from local_session import local_session
from server_process import FETCHED, jars
from spark_cluster import QUICK_START

# For small data: compiling each query, or planning it again between its stages, costs more than it saves.
QUICK = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}

OF_A_WHOLE_RUN = {
    **QUICK,
    # With the default, 1 GiB, the old generation is full within minutes.
    "spark.driver.memory": "3g",
    # Nobody looks at the pages of the user interface: their plans cost a quarter of the driver's time.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "200",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
}
"""For the session of a whole run of tests."""


MINOR = pyspark.__version__.rpartition(".")[0]
JARS = "spark" if MINOR == "4.0" else f"spark-{MINOR}"


def has_jars() -> bool:
    """Whether the jars of this Spark were fetched."""
    return (FETCHED / JARS / "fetched").exists()


def lake_jars() -> str:
    """What this Spark needs beside itself."""
    return ",".join(map(str, jars(JARS)))


def lake_settings(warehouse: Path) -> dict[str, str]:
    """What a session needs for Kafka, Delta and the Iceberg catalog `ice`."""
    return {
        "spark.jars": lake_jars(),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse / "iceberg"),
        "spark.sql.catalog.ice.cache-enabled": "false",
        # Delta reads its log in 50 tasks by default, which is too many for a small table.
        "spark.databricks.delta.snapshotPartitions": "1",
        # Without checksum files beside those of a log, there is half as much to rename.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }


def lake_session(warehouse: Path, settings: Mapping[str, str] = QUICK) -> SparkSession:
    """A classic session on two cores."""
    return local_session("towpath lakehouse tests", {**lake_settings(warehouse), **settings})


def session_of_a_run(warehouse: Path) -> SparkSession:
    """The session of a whole run: with the formats if `make jars` or `make matrix` fetched their jars."""
    settings = lake_settings(warehouse) if has_jars() else {}
    return local_session("towpath tests", {**settings, **OF_A_WHOLE_RUN})
