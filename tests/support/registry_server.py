"""A schema registry for tests: the part of Confluent's documented REST interface that writers and readers use."""

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

UNKNOWN_SUBJECT, UNKNOWN_VERSION, UNKNOWN_SCHEMA = 40401, 40402, 40403


class Registry:
    """Registered schemas, and every request that was made."""

    def __init__(self, credentials: str | None = None) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.credentials = credentials
        self.url = ""
        self.status: int | None = None  # the answer to every request

    def register(self, subject: str, schema: str, references: list[dict[str, Any]] | None = None, **more: Any) -> int:
        """Register a schema and return its id: of an equal one, the same."""
        entry = {"schema": schema, **({"references": references} if references else {}), **more}
        found = next((number for number, known in self.schemas.items() if known == entry), None)
        number = found or len(self.schemas) + 1
        self.schemas[number] = entry
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        match method, parts:
            case "GET", ["schemas", "ids", number]:
                known = self.schemas.get(int(number))
                return (200, known) if known else (404, error(UNKNOWN_SCHEMA, "Schema not found"))
            case "POST", ["subjects", subject, "versions"]:
                number = self.register(subject, body["schema"], body.get("references"))
                return 200, {"id": number, **self.schemas[number]}
            case "POST", ["subjects", subject]:
                for version, number in enumerate(self.subjects.get(subject, []), 1):
                    if self.schemas[number]["schema"] == body["schema"]:
                        return 200, {"subject": subject, "id": number, "version": version, **self.schemas[number]}
                return 404, error(UNKNOWN_SCHEMA, "Schema not found")
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version)
        return 404, error(404, "HTTP 404 Not Found")

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, error(UNKNOWN_SUBJECT, f"Subject '{subject}' not found.")
        at = len(versions) if version == "latest" else int(version)
        if not 1 <= at <= len(versions):
            return 404, error(UNKNOWN_VERSION, f"Version {version} not found.")
        number = versions[at - 1]
        return 200, {"subject": subject, "id": number, "version": at, **self.schemas[number]}

    def asked_for(self) -> list[int]:
        """The schema ids of all requests, in order."""
        return [int(found[1]) for request in self.requests if (found := re.match(r"GET /schemas/ids/(\d+)", request))]


def error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: the second would wait for the first one to be acknowledged

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            registry.requests.append(f"{method} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = self._allowed() or registry.answer(method, self.path, json.loads(body or b"{}"))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _allowed(self) -> tuple[int, Any] | None:
            if registry.status:
                return registry.status, error(registry.status * 100, "as the test says")
            if registry.credentials is None:
                return None
            expected = "Basic " + base64.b64encode(registry.credentials.encode()).decode()
            is_right = self.headers.get("Authorization") == expected
            return None if is_right else (401, error(40101, "Unauthorized"))

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def running(credentials: str | None = None, certificate: tuple[Path, Path] | None = None) -> Iterator[Registry]:
    """A registry at an address of this machine.

    Args:
        credentials: `user:password` that every request has to have.
        certificate: Files of a certificate and its key, for HTTPS.
    """
    registry = Registry(credentials)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
