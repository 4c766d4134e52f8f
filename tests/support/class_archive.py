"""Makes the archive of classes that the JVMs of the tests start with; see `SHARED_CLASSES`."""

import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lake_session import QUICK, lake_session
from lake_topic import Topic, canal, row
from spark_cluster import ARCHIVE, QUICK_START, QUIET


def load_classes(spark: SparkSession, folder: Path) -> None:
    """Replicate a table, by a stream and by Spark's MERGE: most tests do."""
    topic = Topic(spark, folder)
    topic.replicate_in_turn([[canal(0, "INSERT", "a", row(1, "x"))], [canal(1, "INSERT", "b", row(1, "x"))]])
    topic.replicate(canal(2, "DELETE", "a", row(1, "x"), second=1), merge="spark")
    assert topic.rows("a") == []


def main() -> None:
    """Start a session without an archive, whose JVM writes one when it ends."""
    assert not ARCHIVE.exists(), "a JVM that reads an archive writes none"
    settings = {"spark.driver.extraJavaOptions": f"{QUICK_START} {QUIET} -XX:ArchiveClassesAtExit={ARCHIVE}"}
    with tempfile.TemporaryDirectory() as folder:
        spark = lake_session(Path(folder) / "warehouse", {**QUICK, **settings})
        jvm = SparkContext._gateway.proc
        load_classes(spark, Path(folder))
        spark.stop()
        jvm.stdin.close()
        jvm.wait()


if __name__ == "__main__":
    main()
