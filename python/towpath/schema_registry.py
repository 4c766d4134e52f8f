"""Writer schemas by their ids: fetched from a schema registry with Confluent's client, or given by the user.

The schema of an id never changes, so a process fetches it once for all decoders of the same registry. A failure is kept
for a short time only, so that neither a registry that is away nor an id that it does not know costs each batch another
request.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    from towpath._towpath import Decoder

WriterSchema = tuple[str, list[str]]
"""A schema's JSON text, and those of the schemas that it refers to, each after those that it refers to itself."""

REFUSED_SECONDS = 30.0
"""How long an id is not asked for again that the registry does not know."""
AWAY_SECONDS = 5.0
"""How long a registry is not asked again that could not be reached."""

_DEFAULTS = {"timeout": 10, "max.retries": 1, "retries.wait.ms": 200}
"""Settings of the client, which by itself waits without a limit."""

_MAX_REFUSED = 100
"""How many unknown ids of one call are asked for: more of them are no ids, but other messages."""

_MAX_REFERENCES = 1000

_MISSING = (
    "schema_registry needs Confluent's client: pip install 'confluent-kafka[schemaregistry]' (the extra 'registry')"
)


class SchemaRegistry:
    """A schema registry, asked by schema ids.

    Args:
        config: A URL, the configuration of Confluent's client with a `url`, or the latter as JSON text.

    Raises:
        ValueError: There is no URL.
    """

    def __init__(self, config: str | Mapping[str, Any]) -> None:
        self._config = _configuration(config)
        self._lock = Lock()
        self._client: SchemaRegistryClient | None = None
        self._known: dict[int, WriterSchema] = {}
        self._refused: dict[int, tuple[float, str]] = {}
        self._away: tuple[float, str] | None = None

    def load(self, decoder: Decoder, values: Any) -> dict[int, str]:
        """Add the schemas to a decoder that messages refer to.

        Args:
            decoder: The decoder that is about to decode the messages.
            values: The messages.

        Returns:
            Why schemas could not be fetched, by their ids.

        Raises:
            ImportError: Confluent's client is not installed.
            ValueError: The client refuses its configuration.
        """
        found, unfetched = self.fetch(decoder.unknown_schemas(values))
        for number, (text, references) in found.items():
            decoder.add_schema(number, text, references)
        return unfetched

    def fetch(self, ids: Iterable[int]) -> tuple[dict[int, WriterSchema], dict[int, str]]:
        """Fetch schemas. Once the registry cannot be reached, it is not asked for the others.

        Args:
            ids: Schema ids.

        Returns:
            The schemas by id, and why others could not be fetched.

        Raises:
            ImportError: Confluent's client is not installed.
            ValueError: The client refuses its configuration.
        """
        found: dict[int, WriterSchema] = {}
        unfetched: dict[int, str] = {}
        asked = 0
        with self._lock:
            for number in ids:
                if number not in self._known and (why := self._why_not(number, asked)) is None:
                    why = self._ask(number)
                    asked += why is not None
                if number in self._known:
                    found[number] = self._known[number]
                else:
                    unfetched[number] = why or ""
        return found, unfetched

    def _why_not(self, number: int, refused: int) -> str | None:
        """Why an id is not asked for now."""
        now = time.monotonic()
        if self._away and now < self._away[0]:
            return self._away[1]
        if number in self._refused and now < self._refused[number][0]:
            return self._refused[number][1]
        if refused >= _MAX_REFUSED:
            return f"the schema registry knows none of {_MAX_REFUSED} ids of these messages; no more are asked for"
        return None

    def _ask(self, number: int) -> str | None:
        """Ask for a schema; returns why there is none."""
        client = self._connected()
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            self._known[number] = _with_references(client, client.get_schema(number))
        except _UnusableError as error:
            why = str(error)
        except SchemaRegistryError as error:
            why = self._hidden(f"the schema registry answers {error.http_status_code}: {error.error_message}")
            if error.http_status_code != _NOT_FOUND:
                self._away = time.monotonic() + AWAY_SECONDS, why
                return why
        except (
            Exception
        ) as error:  # whatever the client's HTTP library raises is an error of the messages, not of the batch
            why = self._hidden(f"the schema registry cannot be reached: {type(error).__name__}: {error}")
            self._away = time.monotonic() + AWAY_SECONDS, why
            return why
        else:
            return None
        self._refused[number] = time.monotonic() + REFUSED_SECONDS, why
        return why

    def _connected(self) -> SchemaRegistryClient:
        if self._client is None:
            try:
                from confluent_kafka.schema_registry import SchemaRegistryClient
            except ImportError as error:
                raise ImportError(f"{_MISSING} ({error})") from None
            try:
                self._client = SchemaRegistryClient({**_DEFAULTS, **self._config})
            except (OSError, TypeError, ValueError) as error:
                raise ValueError(f"schema_registry: {self._hidden(str(error))}") from None
        return self._client

    def _hidden(self, text: str) -> str:
        """The text without credentials."""
        for name, value in self._config.items():
            if re.search(_SECRET, name) and isinstance(value, str) and value:
                text = text.replace(value, "***")
        return shown_url(text)


_NOT_FOUND = 404
_SECRET = r"password|secret|user\.info|token"


class _UnusableError(Exception):
    """A schema that is not one of Avro."""


def _with_references(client: SchemaRegistryClient, schema: Schema) -> WriterSchema:
    """The schema and all that it refers to, directly or not."""
    texts: dict[tuple[str, int], str] = {}
    _add_references(client, schema, texts, set())
    return _text(schema), list(texts.values())


def _add_references(
    client: SchemaRegistryClient, schema: Schema, texts: dict[tuple[str, int], str], visited: set[tuple[str, int]]
) -> None:
    for reference in schema.references or []:
        place = str(reference.subject), int(reference.version or 0)
        if place in visited:
            continue
        visited.add(place)
        if len(visited) > _MAX_REFERENCES:
            raise _UnusableError(f"it refers to more than {_MAX_REFERENCES} schemas")
        referenced = client.get_version(*place).schema
        _add_references(client, referenced, texts, visited)
        texts[place] = _text(referenced)


def _text(schema: Schema) -> str:
    if (schema.schema_type or "AVRO") != "AVRO":
        raise _UnusableError(f"it is a schema of type {schema.schema_type} in the registry, not AVRO")
    return schema.schema_str or ""


def _configuration(config: Any) -> dict[str, Any]:
    """The configuration of the client."""
    if isinstance(config, str) and config.lstrip().startswith("{"):
        try:
            config = json.loads(config)
        except ValueError as error:
            raise ValueError(f"schema_registry: {error}") from None
    if isinstance(config, str):
        config = {"url": config}
    if not isinstance(config, Mapping):
        raise TypeError(
            f"schema_registry: expected a URL or the configuration of Confluent's client, not {type(config)}"
        )
    if not str(config.get("url", "")).startswith("http"):
        raise ValueError("schema_registry: expected a URL that begins with http, or a configuration with such a url")
    return dict(config)


def shown_url(text: str) -> str:
    """A text with URLs, without the credentials in them."""
    return re.sub(r"//[^/@\s]*@", "//***@", text)


def shown(config: str | Mapping[str, Any]) -> str:
    """A configuration without its credentials: the URL, and the names of other settings."""
    known = _configuration(config)
    return repr({name: shown_url(str(value)) if name == "url" else "***" for name, value in known.items()})


_REGISTRIES: dict[str, SchemaRegistry] = {}


def registry(config: str | Mapping[str, Any]) -> SchemaRegistry:
    """The registry of this configuration, shared by the decoders of the process.

    Raises:
        ValueError: There is no URL.
    """
    key = json.dumps(_configuration(config), sort_keys=True, default=repr)
    return _REGISTRIES.setdefault(key, SchemaRegistry(config))


def given_schemas(schemas: Mapping[Any, Any]) -> list[tuple[int, str, list[str]]]:
    """The argument `writer_schemas` in the form of the native decoder.

    Args:
        schemas: `{id: text}`, or `{id: [text, [texts of the schemas that it refers to]]}`. JSON has ids as text.

    Raises:
        TypeError: It is no such mapping.
        ValueError: An id is no number.
    """
    if not isinstance(schemas, Mapping):
        raise TypeError(f"writer_schemas: expected a mapping from ids to schemas, not {type(schemas)}")
    return [(_schema_id(number), *_given_schema(number, schema)) for number, schema in schemas.items()]


_MAX_ID = 2**32


def _schema_id(number: Any) -> int:
    if isinstance(number, bool) or not re.fullmatch(r"\d+", str(number)) or int(number) >= _MAX_ID:
        raise ValueError(f"writer_schemas: {number!r} is not a schema id")
    return int(number)


def _given_schema(number: Any, schema: Any) -> WriterSchema:
    match schema:
        case str():
            return schema, []
        case [str() as text, [*references]] if all(isinstance(reference, str) for reference in references):
            return text, references
    raise TypeError(f"writer_schemas: {number}: expected JSON text, or JSON text and a list of the texts it refers to")
