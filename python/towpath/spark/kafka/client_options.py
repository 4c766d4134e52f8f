"""Converts Spark's options `kafka.*`, which are settings of Kafka's Java client, to settings of librdkafka.

Most settings have the same name in both. Settings that are not listed here are passed on unchanged. librdkafka refuses
unknown ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}

_OFFSETS = "Spark manages the offsets: use startingOffsets and endingOffsets"
_JAVA = "it names a Java class, but the client is librdkafka"
_LOADS = "it names code, a command or a file that the client would load or run, which a query must not choose"
_REFUSED = {
    "auto.offset.reset": _OFFSETS,
    "default.api.timeout.ms": "use connectTimeoutMs and kafkaConsumer.pollTimeoutMs",
    "enable.auto.commit": _OFFSETS,
    "enable.auto.offset.store": _OFFSETS,
    "enable.partition.eof": "the source sets it",
    "interceptor.classes": _JAVA,
    "key.deserializer": "keys are binary",
    "max.poll.records": "fetchBufferBytes bounds the memory of a task",
    "metric.reporters": _JAVA,
    "partition.assignment.strategy": "Spark assigns the partitions",
    "queued.max.messages.kbytes": "use fetchBufferBytes",
    "sasl.client.callback.handler.class": _JAVA,
    "sasl.login.callback.handler.class": f"{_JAVA}; for a token endpoint use kafka.sasl.oauthbearer.method=oidc",
    "sasl.login.class": _JAVA,
    "ssl.truststore.password": "certificates in PEM have no password; use kafka.ssl.ca.location",
    "value.deserializer": "values are binary",
}


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return settings of librdkafka.

    Args:
        options: Settings of Kafka's Java client, or of librdkafka, without the prefix `kafka.`.

    Raises:
        ValueError: A setting has no equivalent. The message names it, and an alternative.
    """
    settings: dict[str, str] = {}
    # A setting of its own has precedence over the text of a login.
    for name, value in sorted(options.items(), key=lambda option: option[0] != "sasl.jaas.config"):
        if reason := _REFUSED.get(name) or _loads(name, value):
            raise ValueError(f"option kafka.{name} is not supported: {reason}")
        translate = _TRANSLATED.get(name)
        settings.update(translate(value) if translate else {_RENAMED.get(name, name): value})
    if "sasl.oauthbearer.token.endpoint.url" in settings:  # Java derives the method from its login class
        settings.setdefault("sasl.oauthbearer.method", "oidc")
    return settings


# Libraries, engines and providers of OpenSSL, shell commands, Java classes, files whose contents are sent to a server,
# and logs of sent data.
_LOADING = re.compile(
    r"plugin\.|interceptor|ssl[._]engine|ssl\.provider|security\.provider|sasl\.kerberos\.kinit|debug\Z"
    r"|sasl\.oauthbearer\.(?:config\Z|assertion\..*file\Z|jwks)|.*\.(?:class|classes|reporters)\Z|.*_cb\Z",
    re.IGNORECASE,
)
_OF_KERBEROS = re.compile(r"sasl\.kerberos\.(?:principal|keytab|service\.name)", re.IGNORECASE)


def _loads(name: str, value: str) -> str | None:
    """Return why a setting is refused that makes a client load or run code, or log secrets."""
    if _LOADING.match(name):
        return _LOADS
    # The client builds a shell command from them.
    if _OF_KERBEROS.fullmatch(name) and not re.fullmatch(r"[\w./@:+-]+", value):
        return "expected letters, digits and the characters . _ / @ : + -"
    return None


def _jaas(text: str) -> dict[str, str]:
    """Return the login in `sasl.jaas.config`: user name and password, or client id and secret of a token endpoint."""
    module = re.match(r"\s*([\w.]+)\s+required\b(.*?);?\s*$", text, re.DOTALL)
    kind = module[1].rpartition(".")[2] if module else ""
    if not module or kind not in _LOGINS:
        raise ValueError(
            f"option kafka.sasl.jaas.config is not supported: expected one of {', '.join(_LOGINS)}, required"
        )
    words = re.findall(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""", module[2])
    given = {name: re.sub(r"\\(.)", r"\1", double or single) or bare for name, double, single, bare in words}
    known = _LOGINS[kind]
    if unknown := sorted(given.keys() - known.keys()):
        # The name may be part of an unquoted password.
        raise ValueError(
            f"option kafka.sasl.jaas.config: only {', '.join(known)} are supported; {len(unknown)} are not"
        )
    return {known[name]: value for name, value in given.items()}


_USER = {"username": "sasl.username", "password": "sasl.password"}
_LOGINS = {
    "PlainLoginModule": _USER,
    "ScramLoginModule": _USER,
    "OAuthBearerLoginModule": {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    },
}


def _truststore(path: str) -> dict[str, str]:
    if path.lower().endswith((".jks", ".p12", ".pfx")):
        raise ValueError(
            "option kafka.ssl.truststore.location does not support a Java keystore: "
            "export its certificates as PEM and name the file in kafka.ssl.ca.location"
        )
    return {"ssl.ca.location": path}


def _keystore(path: str) -> dict[str, str]:
    if path.lower().endswith(".jks"):
        raise ValueError("option kafka.ssl.keystore.location does not support a Java keystore: convert it to PKCS#12")
    return {"ssl.keystore.location": path}


def _store_type(option: str, *possible: str) -> Callable[[str], dict[str, str]]:
    def check(kind: str) -> dict[str, str]:
        if kind.upper() not in possible:
            raise ValueError(f"option kafka.{option}: {kind!r} is not supported, only {', '.join(possible)}")
        return {}

    return check


def _host_check(algorithm: str) -> dict[str, str]:
    """Return the setting for host name checks. An empty text turns them off in Java."""
    return {"ssl.endpoint.identification.algorithm": algorithm or "none"}


_TRANSLATED: dict[str, Callable[[str], dict[str, str]]] = {
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _host_check,
    "ssl.keystore.location": _keystore,
    "ssl.keystore.type": _store_type("ssl.keystore.type", "PKCS12"),
    "ssl.truststore.location": _truststore,
    "ssl.truststore.type": _store_type("ssl.truststore.type", "PEM"),
}
