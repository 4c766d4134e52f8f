"""An S3 on this machine: moto, in a process of its own."""

import socket
import sys
from contextlib import closing
from pathlib import Path

from pyarrow import fs

from server_process import ServerProcess, free_port

BUCKET = "lake"


class ObjectStore:
    """Runs from `__init__` to `stop`, also as a context manager. It has one bucket, and accepts every key."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        self._server = ServerProcess(command, folder / "moto.log")
        self._server.wait_until(self._answers)
        self._files = fs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
        )
        self._files.create_dir(BUCKET)

    @property
    def storage_options(self) -> dict[str, str]:
        """What delta-rs needs to open it."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_allow_http": "true",
        }

    @property
    def hadoop(self) -> dict[str, str]:
        """The settings with which Spark opens it."""
        settings = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "key",
            "secret.key": "secret",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    def put(self, folder: str, name: str) -> str:
        """Copy a local folder into the bucket. Returns its URI."""
        fs.copy_files(folder, f"{BUCKET}/{name}", destination_filesystem=self._files)
        return f"s3://{BUCKET}/{name}"

    def get(self, name: str, folder: str) -> None:
        """Copy a folder of the bucket to a local one."""
        fs.copy_files(f"{BUCKET}/{name}", folder, source_filesystem=self._files)

    def stop(self) -> None:
        """End it."""
        self._server.stop()

    def _answers(self) -> bool:
        with closing(socket.socket()) as tried:
            return tried.connect_ex(("127.0.0.1", self._port)) == 0

    def __enter__(self) -> "ObjectStore":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
