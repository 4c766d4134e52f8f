"""A Spark standalone cluster on this machine's loopback: a master and two workers, each a process with one core."""

import contextlib
import os
import random
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from server_process import ServerProcess

HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
WORKERS = 2

# Collectors that run beside a program need cores of their own. A large young generation and large pages take a tenth
# off the CPU time of a driver.
MEMORY = "-XX:+UseSerialGC -Xmn300m -XX:+UseTransparentHugePages"

# The default for this tier is full after minutes, and a JVM without room interprets the rest.
CODE_CACHE = "-XX:ReservedCodeCacheSize=240m"

# Hadoop starts `readlink` several times for each file that it renames in a local folder, and each commit does.
PROCESSES = "-Djdk.lang.Process.launchMechanism=VFORK"

# Verifying classes takes a tenth of the first commits' CPU time.
CLASSES = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"

QUICK_START = f"-XX:TieredStopAtLevel=1 {CODE_CACHE} {MEMORY} {PROCESSES} {CLASSES}"
"""JVM options of all tests. The compiler C2 would take more CPU time than it saves."""


class SparkCluster:
    """Runs from `start` to `stop`, also as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[ServerProcess] = []
        self.url = ""
        self.work_folders = [folder / f"work-{number}" for number in range(WORKERS)]

    def start(self) -> "SparkCluster":
        """Start all, and wait until the workers have joined."""
        try:
            master = self._run("master", f"{DEPLOY}.master.Master", "--port", "0")
            self.url = self._said(master, r"Starting Spark master at (spark://\S+)")
            for work in self.work_folders:
                options = ["--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url]
                worker = self._run(work.name, f"{DEPLOY}.worker.Worker", *options)
                self._said(worker, "(Successfully registered with master)")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all, executors too."""
        for server in reversed(self._servers):
            server.stop()

    def kill_executor(self, rng: random.Random) -> bool:
        """Kill the JVM of one of the executors. Returns whether one was running.

        Its Python workers end when they notice, which may be after they have written.
        """
        running = [pid for pid, folder in _java_processes() if folder.parents[1] in self.work_folders]
        if not running:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(running), signal.SIGKILL)
        return True

    def _run(self, name: str, program: str, *options: str) -> ServerProcess:
        command = [HOME / "bin" / "spark-class", program, "--host", "127.0.0.1", "--webui-port", "0", *options]
        server = ServerProcess(command, self._folder / f"{name}.log", node_environment())
        self._servers.append(server)
        return server

    def _said(self, server: ServerProcess, pattern: str) -> str:
        server.wait_until(lambda: re.search(pattern, server.log()) is not None)
        said = re.search(pattern, server.log())
        assert said
        return said[1]

    def __enter__(self) -> "SparkCluster":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def _java_processes() -> Iterator[tuple[int, Path]]:
    """The process and the folder of each JVM on this machine."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (process / "exe").readlink().name == "java":
                yield int(process.name), (process / "cwd").readlink()


def node_environment() -> Mapping[str, str]:
    """The variables of a node: nothing of this environment's Python, and so no towpath."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": QUICK_START}
