"""A server that runs in its own process, and is stopped when its parent ends."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path


class ServerProcess:
    """A running command, its output in a file."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as output:
            # Its own process group: an interrupt at the terminal only reaches the parent, which then stops the server.
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment or os.environ),
                start_new_session=True,
            )
        # When the parent ends, even if it is killed, its end of this pipe is closed, and the server's group is killed.
        self._watch = subprocess.Popen(
            [sys.executable, "-Sc", _WATCH, str(self._process.pid)], stdin=subprocess.PIPE, start_new_session=True
        )

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self._process.pid

    def wait_until(self, answers: Callable[[], bool], seconds: float = 600) -> None:
        """Return when it is ready; `RuntimeError` with the end of its log if it exits or takes too long."""
        deadline = time.monotonic() + seconds
        while not answers():
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with {self._process.returncode}:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server did not answer in {seconds} s:\n{self.log_end()}")
            time.sleep(0.2)

    def log(self) -> str:
        """What it wrote so far."""
        return self._log.read_text(errors="replace")

    def log_end(self, lines: int = 40) -> str:
        """The last lines of that."""
        return "\n".join(self.log().splitlines()[-lines:])

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and wait for that."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the watchdog kills what is left
                self._process.wait(20)
        assert self._watch.stdin
        self._watch.stdin.close()
        self._watch.wait()
        self._process.wait()


# Processes of the group may outlive the first one: Spark's workers start executors, which start Python workers.
_WATCH = """
import os, signal, sys
sys.stdin.read()
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""


def java() -> str:
    """The `java` that Spark takes too."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found:
        raise RuntimeError("missing: a JDK 17 or 21; there is neither JAVA_HOME nor java")
    return found


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with closing(socket.socket()) as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


FETCHED = Path(__file__).parents[2] / "target" / "jars"


def jars(kind: str) -> list[Path]:
    """The jars that `make jars` fetched, `kafka` or `spark`, or `make matrix`, such as `spark-4.1`."""
    folder = FETCHED / kind
    if not (folder / "fetched").exists():
        raise RuntimeError(f"missing: {folder}; `make jars` fetches what belongs there")
    return sorted(folder.glob("*.jar"))
