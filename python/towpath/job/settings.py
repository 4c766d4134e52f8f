"""Reads YAML text by a JSON schema. Settings keep the text of the file, and errors never show a value."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from towpath.names import nearest

if TYPE_CHECKING:
    from yaml import Mark, Node

_VARIABLE = re.compile(r"\$\$\{|\$\{(?:(\w+)(?::-([^}]*))?\})?")
_QUOTE = "quote a string that contains ': ' or ' #', or begins with one of @ % & * ! ` [ { \" '"
_PROBLEMS = {
    "'\\t'": "a tab; indent with spaces",
    "another document": "expected one document",
    " end": "unclosed quote or bracket",
    "escape": "a backslash in double quotes; use single quotes",
}
"""Problems by parts of PyYAML's error texts."""
_MARKED = "unsupported anchor, alias or tag: write the value itself; quote a string that begins with &, * or !"
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_KINDS = {"mapping": "object", "sequence": "array"}

_MOST_PROBLEMS = 20

Schema = Mapping[str, Any]


def read_settings(text: str, schema: Schema) -> Any:
    """Read a YAML text. `${NAME}` in a value is replaced by the environment variable of this name.

    Raises:
        ValueError: The text is not YAML, or violates the schema. The error has the key, the line and the expectation of
            each problem.
    """
    reader = _Reader()
    try:
        found = reader.value(_composed(text), schema, ())
    except RecursionError:
        raise ValueError("lists and mappings are nested too deeply") from None
    if (count := len(reader.problems)) > _MOST_PROBLEMS:
        reader.problems[_MOST_PROBLEMS:] = [f"and {count - _MOST_PROBLEMS} more problems"]
    if reader.problems:
        raise ValueError("; ".join(reader.problems))
    return found


def _composed(text: str) -> Node:
    """Parse the text to nodes with lines.

    Raises:
        ValueError: The text is not YAML. The error does not quote it, as PyYAML's would.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Loader that refuses YAML features which change the value of a text."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if event.anchor is not None or getattr(event, "tag", None) is not None:
                raise ValueError(f"{_line(event.start_mark)}: {_MARKED}")
            return super().compose_node(parent, index)

    try:
        found = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark if error.context_mark is None else error.context_mark
        raise ValueError(f"invalid YAML: {_line(mark)}: {_problem(str(error.problem))}") from None
    except yaml.YAMLError:
        raise ValueError("invalid YAML: control characters") from None
    return found if found is not None else yaml.ScalarNode("tag:yaml.org,2002:null", "")


def _problem(said: str) -> str:
    return next((text for part, text in _PROBLEMS.items() if part in said), _QUOTE)


def _line(mark: Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else "line 1"


class _Reader:
    """Reader that collects the problems of a text."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def value(self, node: Any, schema: Schema, path: tuple[str, ...]) -> Any:
        """Return the value of a node; None if it violates the schema."""
        kind = _KINDS.get(node.id, "scalar")
        form = next((one for one in schema.get("anyOf", [schema]) if kind in _kinds(one)), None)
        if form is None:
            expected = _expected(schema) if path else "a mapping such as target: /lake/{database}/{table}"
            return self._problem(node, path, f"expected {expected}")
        if kind == "object":
            return self._mapping(node, form, path)
        if kind == "array":
            return self._list(node, form, path)
        try:
            return _scalar(node, form)
        except _UnexpectedError:
            return self._problem(node, path, f"expected {_expected(schema)}")
        except ValueError as error:
            return self._problem(node, path, str(error))

    def _problem(self, node: Any, path: tuple[str, ...], what: str) -> None:
        self.problems.append(": ".join(filter(None, [".".join(path), _line(node.start_mark), what])))

    def _mapping(self, node: Any, schema: Schema, path: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if key.id != "scalar":
                self._problem(key, path, "expected a string as key")
                continue
            name, line = key.value, key.start_mark.line + 1
            if name in lines:
                self._problem(key, (*path, name), f"duplicate key, first in line {lines[name]}")
            elif (inner := self._inner(key, name, schema, path)) is not None:
                found[name] = self.value(value, inner, (*path, name))
            lines.setdefault(name, line)
        if missing := [name for name in schema.get("required", ()) if name not in lines]:
            self.problems.append(": ".join(filter(None, [".".join(path), f"missing: {', '.join(missing)}"])))
        if not schema.get("minProperties", 0) <= len(lines) <= schema.get("maxProperties", len(lines)):
            only = "exactly one key" if "maxProperties" in schema else "at least one key"
            self._problem(node, path, f"expected {only}{_names(schema)}")
        return found

    def _inner(self, key: Any, name: str, schema: Schema, path: tuple[str, ...]) -> Any:
        """Return the schema of a key's value."""
        known = schema.get("properties", {})
        if "propertyNames" in schema and not re.search(schema["propertyNames"]["pattern"], name):
            return self._problem(key, (*path, name), "expected a Spark setting such as spark.master")
        if name in known:
            return known[name]
        if (other := schema.get("additionalProperties", True)) is not False:
            return {} if other is True else other
        # A key that resembles no known key may be part of a value, and is not shown.
        if probable := nearest(name, known):
            return self._problem(key, (*path, name), f"unknown key; did you mean {probable}?")
        expected = f"expected {', '.join(known)}" if path else "towpath replicate --schema prints the keys"
        return self._problem(key, path, f"unknown key; {expected}")

    def _list(self, node: Any, schema: Schema, path: tuple[str, ...]) -> list[Any]:
        if len(node.value) < schema.get("minItems", 0):
            self._problem(node, path, "expected at least one item")
        inner = schema.get("items", {})
        return [self.value(one, inner, (*path, str(number))) for number, one in enumerate(node.value)]


class _UnexpectedError(ValueError):
    """Error for a value that the schema does not allow."""


def _scalar(node: Any, schema: Schema) -> Any:
    types, is_null = _types(schema), node.tag.endswith(":null")
    if is_null and (not types or "null" in types):
        return None
    text = _VARIABLE.sub(_variable, node.value)
    if not types:
        return _plain(text) if node.style is None and text == node.value else text
    found = None if is_null else _converted(text, schema)
    if found is None:
        raise _UnexpectedError
    return found


def _variable(found: re.Match[str]) -> str:
    name, default = found[1], found[2]
    if found[0] == "$${":
        return "${"
    if name is None:
        raise ValueError("expected ${NAME} or ${NAME:-default}; write $${ for a literal ${")
    value = os.environ.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise ValueError(f"the environment variable {name} is not set")
    return value


def _types(schema: Schema) -> list[str]:
    """Return the types of a schema; empty if it allows every type."""
    if "enum" in schema or "const" in schema:
        return ["string" if "enum" in schema else "boolean"]
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def _kinds(schema: Schema) -> set[str]:
    types = _types(schema) or ["object", "array", "string"]
    return {one if one in ("object", "array") else "scalar" for one in types}


def _converted(text: str, schema: Schema) -> Any:
    """Return the value of a text; None if it violates the schema."""
    if "enum" in schema:
        return text if text in schema["enum"] else None
    types = _types(schema)
    if "string" in types:
        return text if len(text) >= schema.get("minLength", 0) else None
    if "boolean" in types:
        found = _BOOLEANS.get(text.lower())
        return found if found is schema.get("const", found) else None
    if not re.fullmatch(r"0|[1-9]\d{0,17}", text):
        return None
    number = int(text)
    return number if schema.get("minimum", 0) <= number <= schema.get("maximum", number) else None


def _plain(text: str) -> Any:
    """Return the number or boolean that a text denotes in JSON notation, or else the text."""
    if re.fullmatch(r"(?i:true|false)|-?(0|[1-9]\d{0,14})(\.\d{1,15})?", text):
        value = json.loads(text.lower())
        return value if json.dumps(value) == text.lower() else text
    return text


def _names(schema: Schema) -> str:
    known = schema.get("properties")
    return f" ({', '.join(known)})" if known else ""


def _expected(schema: Schema) -> str:
    """Return the values that a schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(map(_expected, schema["anyOf"]))
    if "enum" in schema:
        *first, last = schema["enum"]
        return f"{', '.join(first)} or {last}"
    types = _types(schema)
    or_null = " or null" if types[1:] == ["null"] else ""
    return f"{_in_words(types[0], schema)}{or_null}"


def _in_words(kind: str, schema: Schema) -> str:
    if kind == "integer":
        least, most = schema.get("minimum", 0), schema.get("maximum")
        return f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    words = {
        "object": f"a mapping{_names(schema)}",
        "array": "a list",
        "boolean": "true" if "const" in schema else "true or false",
    }
    return words.get(kind, "a string")
