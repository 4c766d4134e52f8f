"""Writer schemas by id: fetched from a schema registry with Confluent's client, or given by the user.

The schema of an id never changes, so a process fetches it once for all decoders of a registry. A failure is only kept
for a short time. So neither an unreachable registry nor an unknown id costs each batch another request. Ids come from
messages, and answers from a network: time, memory and error texts are bounded.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from towpath.foreign_json import parsed_json
from towpath.printable import printable
from towpath.secret_values import hidden, secret_values, shown_url

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    from towpath._towpath import Decoder

WriterSchema = tuple[str, list[str]]
"""JSON text of a schema, and the texts of its references. Each text precedes the texts that refer to it."""

REFUSED_SECONDS = 30.0
"""Seconds until an id that the registry does not know is requested again."""
AWAY_SECONDS = 5.0
"""Seconds until an unreachable registry is contacted again."""

_DEFAULTS = {"timeout": 10, "max.retries": 1, "retries.wait.ms": 200}
"""Settings of the client. Its own defaults do not limit the time."""

_MAX_UNKNOWN = 300
"""Maximum number of unknown ids that one call requests. More of them are not ids, but other messages."""

_MAX_REFUSED = 1000
"""Maximum number of refused ids that are remembered."""

_MAX_FAILURES = 5
"""Number of consecutive failures, not caused by one id, after which the registry counts as unreachable."""

_MAX_REFERENCES = 1000

_MAX_ANSWER = 8 << 20
"""Maximum bytes of an answer. The registry stores schemas in Kafka, where a message has 1 MiB by default."""

_MAX_KNOWN = 32 << 20
"""Maximum characters of the schemas that are kept for other decoders."""

_MAX_TEXT = 500
"""Maximum characters of the registry's own text in an error."""

_MISSING = (
    "schema_registry needs Confluent's client: pip install 'confluent-kafka[schemaregistry]' (the extra 'registry')"
)


class SchemaRegistry:
    """Schema registry that returns schemas by id.

    Args:
        config: A URL, the configuration of Confluent's client with a `url`, or this configuration as JSON text.

    Raises:
        ValueError: The URL is missing.
    """

    def __init__(self, config: str | Mapping[str, Any]) -> None:
        self._config = _configuration(config)
        self._secrets = secret_values(self._config)
        self._known: dict[int, WriterSchema] = {}
        self._refused: dict[int, tuple[float, str]] = {}
        self._away: tuple[float, str] | None = None
        self.disconnect()
        _ALL.add(self)

    def disconnect(self) -> None:
        """Forget the connection. A forked process must not use the lock and the connections of its parent."""
        self._lock = Lock()
        self._client: SchemaRegistryClient | None = None

    def load(self, decoder: Decoder, values: Any) -> dict[int, str]:
        """Add the schemas that messages refer to to a decoder.

        Args:
            decoder: Decoder that will decode the messages.
            values: The messages.

        Returns:
            Reasons why schemas could not be fetched, by id.

        Raises:
            ImportError: Confluent's client is not installed.
            ValueError: The client refuses its configuration.
        """
        found, unfetched = self.fetch(decoder.unknown_schemas(values))
        for number, (text, references) in found.items():
            decoder.add_schema(number, text, references)
        return unfetched

    def fetch(self, ids: Iterable[int]) -> tuple[dict[int, WriterSchema], dict[int, str]]:
        """Fetch schemas. Stop when the registry cannot be reached.

        Args:
            ids: Schema ids.

        Returns:
            Schemas by id, and reasons why others could not be fetched.

        Raises:
            ImportError: Confluent's client is not installed.
            ValueError: The client refuses its configuration.
        """
        found: dict[int, WriterSchema] = {}
        unfetched: dict[int, str] = {}
        failures = _Failures()
        for number in self._likely_first(ids):
            with self._lock:
                why = None if number in self._known else self._why_not(number, failures) or self._ask(number, failures)
                if why is None:
                    found[number] = self._known[number]
                else:
                    unfetched[number] = why
        return found, unfetched

    def _likely_first(self, ids: Iterable[int]) -> list[int]:
        """Sort ids, probable ones first: a registry counts upwards, while other bytes are mostly large numbers."""
        low, high = min(self._known, default=0), max(self._known, default=0)
        return sorted(ids, key=lambda number: (max(low - number, number - high, 0), number))

    def _why_not(self, number: int, failures: _Failures) -> str | None:
        """Return why an id is not requested now, or None."""
        now = time.monotonic()
        if self._away and now < self._away[0]:
            return self._away[1]
        if number in self._refused and now < self._refused[number][0]:
            return self._refused[number][1]
        if failures.unknown >= _MAX_UNKNOWN:
            return f"the schema registry has none of {_MAX_UNKNOWN} ids of these messages; no more are requested"
        return None

    def _ask(self, number: int, failures: _Failures) -> str | None:
        """Request a schema. Return why it is missing, or None."""
        client = self._connected()
        began = time.monotonic()
        try:
            self._keep(number, _with_references(client, number, self._request_seconds()))
        except Exception as error:  # any error concerns the messages, not the batch
            why = self._why(error)
            if _is_of_the_id(error):
                failures.unknown += 1
                self._refuse(number, why, REFUSED_SECONDS)
                return why
            failures.in_a_row += 1
            failures.seconds += time.monotonic() - began
            self._refuse(number, why, AWAY_SECONDS)
            if isinstance(error, TimeoutError):
                self._hang_up()
            if _is_of_all_ids(error) or failures.are_many(2 * self._request_seconds()):
                self._away = time.monotonic() + AWAY_SECONDS, why
            return why
        failures.in_a_row = 0
        return None

    def _keep(self, number: int, schema: WriterSchema) -> None:
        """Keep a schema. If schemas are too large together, forget the oldest: they can be fetched again."""
        self._known[number] = schema
        while len(self._known) > 1 and sum(map(_size, self._known.values())) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def _refuse(self, number: int, why: str, seconds: float) -> None:
        now = time.monotonic()
        if len(self._refused) >= _MAX_REFUSED:
            # Dropped ids are requested again if needed. The order is the order of the refusals.
            kept = [(known, one) for known, one in self._refused.items() if now < one[0]]
            self._refused = dict(kept[1 - _MAX_REFUSED :])
        self._refused[number] = now + seconds, why

    def _why(self, error: Exception) -> str:
        """Return the text of an error without credentials. A message may have caused it, and the registry wrote it."""
        status = getattr(error, "http_status_code", None)
        if isinstance(error, _UnusableError):
            text = str(error)
        elif status is not None:
            text = f"the schema registry returned {status}: {getattr(error, 'error_message', '')}"
        elif isinstance(error, TimeoutError):
            text = f"the schema registry did not respond within {self._request_seconds():g} s"
        else:
            what = "cannot be reached" if _is_of_network(error) else "sent an invalid response"
            text = f"the schema registry {what}: {type(error).__name__}: {error}"
        return printable(self._hidden(text[: 4 * _MAX_TEXT]), _MAX_TEXT)

    def _request_seconds(self) -> float:
        """Return the maximum seconds of a request with its retries. The client's timeout applies to each read."""
        timeout, retries, wait = (_number(self._config.get(name), default) for name, default in _DEFAULTS.items())
        return (timeout + wait / 1000) * (retries + 1) + 1

    def _hang_up(self) -> None:
        """Close the connection of a pending answer, so that its reader thread ends."""
        session, self._client = _session(self._client), None
        try:
            session.close()
        except Exception:  # the connection is in use, and nothing waits for it
            return

    def _connected(self) -> SchemaRegistryClient:
        if self._client is None:
            try:
                from confluent_kafka.schema_registry import SchemaRegistryClient
            except ImportError as error:
                raise ImportError(f"{_MISSING} ({error})") from None
            try:
                self._client = _bounded(SchemaRegistryClient({**_DEFAULTS, **self._config}))
            except (OSError, TypeError, ValueError) as error:
                raise ValueError(f"schema_registry: {self._hidden(str(error))}") from None
        return self._client

    def _hidden(self, text: str) -> str:
        """Return the text without credentials."""
        return shown_url(hidden(text, self._secrets))


_ALL: WeakSet[SchemaRegistry] = WeakSet()


def _disconnect_all() -> None:
    for one in list(_ALL):
        one.disconnect()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_disconnect_all)

_UNAUTHORIZED, _NOT_FOUND = 401, 404


@dataclass
class _Failures:
    """Failures in one call."""

    unknown: int = 0
    """Number of ids that the registry does not have, or that are not Avro schemas."""
    in_a_row: int = 0
    """Number of other failures since the last answer."""
    seconds: float = 0.0
    """Seconds that these failures took."""

    def are_many(self, seconds: float) -> bool:
        """Return whether the registry is unreachable, rather than unable to answer for one id."""
        return self.in_a_row >= _MAX_FAILURES or self.seconds > seconds


class _UnusableError(Exception):
    """Error for an answer that is not an Avro schema."""


def _is_of_the_id(error: Exception) -> bool:
    return isinstance(error, _UnusableError | RecursionError) or getattr(error, "http_status_code", None) == _NOT_FOUND


def _is_of_network(error: Exception) -> bool:
    return isinstance(error, OSError) or _is_a(error, "HTTPError", "InvalidURL")


def _is_of_all_ids(error: Exception) -> bool:
    is_refused = getattr(error, "http_status_code", None) == _UNAUTHORIZED
    return is_refused or _is_a(error, "ConnectError", "ConnectTimeout", "InvalidURL")


def _is_a(one: object, *names: str) -> bool:
    """Return whether an object's classes have one of these names: Confluent's client uses httpx or httpx2."""
    return not {kind.__name__ for kind in type(one).__mro__}.isdisjoint(names)


def _number(value: Any, default: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


def _size(schema: WriterSchema) -> int:
    return len(schema[0]) + sum(map(len, schema[1]))


def _session(client: Any) -> Any:
    """Return the HTTP client of Confluent's client, which has no setting for the size of an answer."""
    return getattr(getattr(client, "_rest_client", None), "session", None)


def _bounded(client: SchemaRegistryClient) -> SchemaRegistryClient:
    """Limit the size of answers and disable compression: a small answer could expand to a very large one.

    Raises:
        ValueError: This version of the client has no such attribute.
    """
    session = _session(client)
    if not hasattr(session, "event_hooks"):
        raise ValueError("this version of confluent-kafka is not supported: it cannot limit the size of responses")
    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {"response": [_bound_answer]}
    return client


def _bound_answer(response: Any) -> None:
    of_httpx: Any = next(one for one in type(response.stream).__mro__ if one.__name__ == "SyncByteStream")

    class Bounded(of_httpx):  # type: ignore[misc]
        """Bytes of an answer, up to the limit."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Any:
            read = 0
            for chunk in self._stream:
                read += len(chunk)
                if read > _MAX_ANSWER:
                    raise _UnusableError(f"the schema registry's response has more than {_MAX_ANSWER} bytes")
                yield chunk

        def close(self) -> None:
            self._stream.close()

    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise _UnusableError("the schema registry's response is compressed, although the request did not allow it")
    response.stream = Bounded(response.stream)


_Answer = TypeVar("_Answer")


def _within(seconds: float, ask: Callable[[], _Answer]) -> _Answer:
    """Return the result of a function.

    Raises:
        TimeoutError: The function takes longer. Its thread keeps running.
    """
    answer: Future[_Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=run, daemon=True, name="towpath-schema-registry").start()
    try:
        return answer.result(seconds)
    except FutureTimeoutError:
        raise TimeoutError(f"no response within {seconds:g} s") from None


def _with_references(client: SchemaRegistryClient, number: int, seconds: float) -> WriterSchema:
    """Return the schema of an id with all direct and indirect references. Each request may take `seconds`."""
    try:
        schema = _within(seconds, lambda: client.get_schema(number))
        texts: dict[tuple[str, int], str] = {}
        _add_references(client, schema, texts, set(), seconds)
    finally:
        getattr(client, "clear_caches", lambda: None)()  # the client would keep a second copy of all schemas
    return _text(schema), list(texts.values())


def _add_references(
    client: SchemaRegistryClient,
    schema: Schema,
    texts: dict[tuple[str, int], str],
    visited: set[tuple[str, int]],
    seconds: float,
) -> None:
    for reference in schema.references or []:
        place = str(reference.subject), int(reference.version or 0)
        if place in visited:
            continue
        visited.add(place)
        if len(visited) > _MAX_REFERENCES:
            raise _UnusableError(f"the schema references more than {_MAX_REFERENCES} schemas")
        referenced = _within(seconds, lambda place=place: client.get_version(*place).schema)  # type: ignore[misc]
        _add_references(client, referenced, texts, visited, seconds)
        texts[place] = _text(referenced)
        if sum(map(len, texts.values())) > _MAX_ANSWER:
            raise _UnusableError(f"the schema references schemas of more than {_MAX_ANSWER} characters")


def _text(schema: Schema) -> str:
    if (schema.schema_type or "AVRO") != "AVRO":
        raise _UnusableError(f"the schema has type {schema.schema_type} in the registry, not AVRO")
    text = schema.schema_str
    if not isinstance(text, str) or not _is_json(text):
        raise _UnusableError("the schema registry's response is not a schema: it is not JSON")
    return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:  # the native decoder reports the deep nesting
        return True
    return True


def _configuration(config: Any) -> dict[str, Any]:
    """Return the configuration of the client."""
    if isinstance(config, str) and config.lstrip().startswith("{"):
        try:
            config = parsed_json(config)
        except ValueError as error:
            raise ValueError(f"schema_registry: {error}") from None
    if isinstance(config, str):
        config = {"url": config}
    if not isinstance(config, Mapping):
        raise TypeError(
            f"schema_registry: expected a URL or the configuration of Confluent's client, not {type(config)}"
        )
    if not str(config.get("url", "")).startswith("http"):
        raise ValueError("schema_registry: expected an HTTP URL, or a configuration with one as url")
    return dict(config)


def shown(config: str | Mapping[str, Any]) -> str:
    """Return a configuration without its credentials: the URL, and the names of other settings."""
    known = _configuration(config)
    return repr({name: shown_url(str(value)) if name == "url" else "***" for name, value in known.items()})


_REGISTRIES: dict[str, SchemaRegistry] = {}


def registry(config: str | Mapping[str, Any]) -> SchemaRegistry:
    """Return the registry of this configuration. The decoders of a process share it.

    Raises:
        ValueError: The URL is missing.
    """
    key = json.dumps(_configuration(config), sort_keys=True, default=repr)
    return _REGISTRIES.setdefault(key, SchemaRegistry(config))


def given_schemas(schemas: Mapping[Any, Any]) -> list[tuple[int, str, list[str]]]:
    """Return the argument `writer_schemas` in the form of the native decoder.

    Args:
        schemas: `{id: text}`, or `{id: [text, [texts of referenced schemas]]}`. JSON has ids as text.

    Raises:
        TypeError: The argument is not such a mapping.
        ValueError: An id is not a number.
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
