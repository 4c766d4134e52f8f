"""A Kafka broker with listeners that ask for a password or a token, or have TLS with certificates that openssl made."""

import subprocess
from pathlib import Path

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafka_broker import KafkaBroker
from server_process import free_port
from token_endpoint import AUDIENCE, ISSUER

USER, PASSWORD = "reader", "right"
_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_{0}="{1}";'
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def certificates(folder: Path) -> None:
    """An authority, `ca.pem`, and the broker's certificate with its key, `broker.pem`."""
    days = ["-days", "2", "-nodes", "-newkey", "rsa:2048", "-x509"]
    ca = ["-subj", "/CN=towpath tests", "-keyout", "ca.key", "-out", "ca.pem"]
    server = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-CA", "ca.pem", "-CAkey", "ca.key"]
    for command in ([*days, *ca], [*days, *server, "-keyout", "broker.key", "-out", "broker.crt"]):
        subprocess.run(["openssl", "req", *command], cwd=folder, check=True, capture_output=True)
    (folder / "broker.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())


class GuardedBroker(KafkaBroker):
    """Its ordinary listener is open; `listeners` has the addresses of the others, by their protocol."""

    def __init__(self, folder: Path, token_keys: Path) -> None:
        """The folder has what `certificates` made, the file the keys of those who issue tokens."""
        self.listeners = {name: f"127.0.0.1:{free_port()}" for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token_keys.as_uri()}"
        super().__init__(self._guards(folder, token_keys), jvm=[allowed])

    def start(self) -> "GuardedBroker":
        """Start it, with its user."""
        super().start()
        user = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = self.admin()
        [done] = admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, user, PASSWORD.encode())]
        ).values()
        done.result(30)
        return self

    def _guards(self, folder: Path, token_keys: Path) -> str:
        """Later settings replace those of `KafkaBroker`."""
        guarded = ",".join(f"{name}://{address}" for name, address in self.listeners.items())
        plain = _PLAIN.format(USER, PASSWORD)
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},{guarded}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},{guarded}",
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in ("PLAINTEXT", *self.listeners))
            + ",CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": token_keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "broker.pem"),
        }
        for name in ("sasl_plaintext", "sasl_ssl"):
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = plain
            settings[f"listener.name.{name}.scram-sha-512.sasl.jaas.config"] = _SCRAM
            settings[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = _OAUTH
            settings[f"listener.name.{name}.oauthbearer.sasl.server.callback.handler.class"] = _TOKENS
        return "".join(f"{name}={value}\n" for name, value in settings.items())
