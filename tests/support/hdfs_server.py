"""HDFS on this machine: a name node and a data node in one process, from a jar that `make soak` fetches."""

import json
import os
from pathlib import Path

import pyspark

from server_process import ServerProcess, jars, java
from spark_cluster import QUICK_START

# Hadoop's client, and what writes its log.
OF_SPARK = ("hadoop-client-*.jar", "slf4j-*.jar", "log4j-*.jar", "commons-*.jar", "jcl-*.jar")


class Hdfs:
    """Runs from `__init__` to `stop`, also as a context manager."""

    def __init__(self, folder: Path) -> None:
        said = folder / "details.json"
        of_spark = Path(pyspark.__file__).parent / "jars"
        classes = [*jars("hdfs"), *(jar for pattern in OF_SPARK for jar in sorted(of_spark.glob(pattern)))]
        program = [java(), *QUICK_START.split(), "-Xmx512m", "-cp", os.pathsep.join(map(str, classes))]
        options = ["-format", "-datanodes", "1", "-nnport", "0", "-writeDetails", str(said)]
        own = ["-D", f"hdfs.minidfs.basedir={folder / 'data'}"]
        manager = "org.apache.hadoop.test.MiniDFSClusterManager"
        self._server = ServerProcess([*program, manager, *options, *own], folder / "hdfs.log")
        self._server.wait_until(lambda: said.exists() and said.stat().st_size > 0)
        self.uri = f"hdfs://127.0.0.1:{json.loads(said.read_text())['namenode_port']}"

    def stop(self) -> None:
        """End it."""
        self._server.stop()

    def __enter__(self) -> "Hdfs":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
