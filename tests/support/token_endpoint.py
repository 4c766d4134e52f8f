"""A token endpoint of OpenID Connect on the loopback, and the keys that a broker checks its tokens with.

openssl makes the keys and the signatures, so that nothing here is of Kafka's client or of towpath.
"""

import base64
import json
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

CLIENT, SECRET = "reader", "right"
ISSUER, AUDIENCE = "https://login.invalid", "kafka"
_KEY_ID = "tests"


class TokenEndpoint:
    """It runs until `stop`. A client that knows the secret gets a token for an hour."""

    def __init__(self, folder: Path) -> None:
        self.issued = 0
        self._key = folder / "token.key"
        self.keys = folder / "jwks.json"
        """The file with its public key, as brokers read it."""
        _openssl("genrsa", "-out", str(self._key), "2048")
        self.keys.write_text(json.dumps({"keys": [_public_key(self._key)]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def _token(self) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": "read"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": _KEY_ID}, claims))
        self.issued += 1
        return f"{signed}.{_base64(_openssl('dgst', '-sha256', '-sign', str(self._key), text=signed.encode()))}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self
        wanted = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                known = self.headers["Authorization"] == wanted
                answer = {"access_token": endpoint._token()} if known else {"error": "invalid_client"}
                body = json.dumps({**answer, "token_type": "Bearer", "expires_in": 3600}).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _public_key(key: Path) -> dict[str, str]:
    modulus = _openssl("rsa", "-in", str(key), "-noout", "-modulus").decode().strip().removeprefix("Modulus=")
    numbers = {"n": _base64(bytes.fromhex(modulus)), "e": _base64((65537).to_bytes(3, "big"))}
    return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, **numbers}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*command: str, text: bytes | None = None) -> bytes:
    return subprocess.run(["openssl", *command], input=text, check=True, capture_output=True).stdout
