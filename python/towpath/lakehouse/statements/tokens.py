"""Tokens of MySQL statements from sqlglot's MySQL tokenizer, and a cursor over them.

Readers of tokens raise `NotReadError` for tokens outside of the grammar.

sqlglot's grammar is unsuitable: it treats executable comments as comments, INT8 as TINYINT, LONG as BIGINT and REAL as
FLOAT. RENAME TABLE, partitions and many column attributes are opaque text to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from sqlglot import Token as SqlglotToken
    from sqlglot import Tokenizer

_BLANKS = " \t\n\r\v\f"
_COMMENT = re.compile(r"/\*.*?\*/|(?:#|--(?=[\x00-\x20\x7f]|\Z))[^\n]*", re.DOTALL)
_UNQUOTED = re.compile(r"[0-9A-Za-z$_\u0080-\uffff]+")
_EXECUTABLE = ("/*!", "/*M!", "/*T!")
_COMMENT_END = "*/"
_EVERY_SERVER = 50_700
"""Version of which every supported server is newer. MariaDB ignores MySQL's later versions."""

_KINDS = {
    "VAR": "word",
    "IDENTIFIER": "name",
    "STRING": "string",
    "NATIONAL_STRING": "string",
    "NUMBER": "number",
    "BIT_STRING": "bits",
    "HEX_STRING": "bytes",
    "HINT": "comment",
}


class NotReadError(Exception):
    """Error for a statement, or a part of it, outside of the grammar."""


@dataclass(frozen=True)
class Token:
    """Token of a statement. Strings and quoted names have no quotes and escapes."""

    kind: str
    """Kind: word, name, string, number, bits, bytes, symbol, or comment for both ends of an executable comment."""
    text: str
    raw: str
    """Text of the token in the statement."""
    conditional: bool = False
    """Whether only some servers execute it. It is in a comment such as /*!80023 ... */, /*M! ... */ or /*T! ... */."""


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text. They include tokens in executable comments, but no other comments.

    Raises:
        ImportError: sqlglot is not installed.
    """
    return list(_executed(_tokens(text)))


def _tokens(text: str) -> list[Token]:
    tokenizer = _tokenizer_class()(dialect="mysql")
    from sqlglot import TokenError

    try:
        found = tokenizer.tokenize(text)
    except TokenError as error:
        raise NotReadError("an unclosed quote or comment, or a literal that MySQL does not have") from error
    end = 0
    for token in found:
        _check_gap(text[end : token.start])
        end = token.end + 1
    _check_gap(text[end:])
    return [_token(token, text[token.start : token.end + 1]) for token in found]


@cache
def _tokenizer_class() -> type[Tokenizer]:
    """Return a MySQL tokenizer without keywords: every word is a word, and no command swallows the rest of the text."""
    try:
        from sqlglot import TokenType
        from sqlglot.dialects.mysql import MySQL
    except ImportError as error:
        raise ImportError(
            "DDL statements cannot be read without sqlglot: install towpath's extra `ddl` (pip install 'towpath[ddl]')"
        ) from error

    class StatementTokenizer(MySQL.Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = dict.fromkeys((*_EXECUTABLE, _COMMENT_END), TokenType.HINT)
        COMMANDS: ClassVar[set[TokenType]] = set()

    return StatementTokenizer


def _token(token: SqlglotToken, raw: str) -> Token:
    kind = _KINDS.get(token.token_type.name, "symbol")
    # `0x4g` and `1e5` are also names where MySQL expects one. sqlglot returns IDENTIFIER for the first.
    return Token("word" if kind == "name" and raw[0] != "`" else kind, token.text, raw)


def _check_gap(gap: str) -> None:
    """Check that only blanks and comments separate tokens. sqlglot also skips U+3000, which MySQL allows in names."""
    rest = gap.strip(_BLANKS)
    while rest:
        comment = _COMMENT.match(rest)
        if comment is None:
            raise NotReadError(f"unexpected text between two tokens: {rest[:20]!r}")
        rest = rest[comment.end() :].lstrip(_BLANKS)


def _executed(tokens: list[Token]) -> Iterator[Token]:
    """Yield tokens, including those in executable comments but not the comments' ends, versions and TiDB features."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.kind != "comment":
            yield token
            continue
        end = next((i for i in range(at, len(tokens)) if tokens[i].kind == "comment"), None)
        if end is None or token.text == _COMMENT_END or tokens[end].text != _COMMENT_END:
            raise NotReadError("an unbalanced executable comment")
        yield from _content(token.raw.upper(), tokens[at:end])
        at = end + 1


def _content(opening: str, tokens: list[Token]) -> Iterator[Token]:
    """Yield the tokens in an executable comment without its version. They are conditional if some servers skip it."""
    first, start, conditional = (tokens[0].raw if tokens else ""), 0, opening != "/*!"
    if opening == "/*T!":
        closing = [i for i, token in enumerate(tokens) if token.raw == "]"] if first == "[" else []
        start = closing[0] + 1 if closing else 0
    elif re.fullmatch("[0-9]{5,6}", first):
        start, conditional = 1, conditional or int(first) > _EVERY_SERVER
    elif first[:1].isdigit():
        raise NotReadError(f"an executable comment without a version of five or six digits: {first[:20]!r}")
    return (replace(token, conditional=conditional) for token in tokens[start:])


def split(tokens: Sequence[Token], symbol: str) -> list[list[Token]]:
    """Split tokens at the symbols outside of parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "symbol":
            depth += (token.text == "(") - (token.text == ")")
        if token.kind == "symbol" and token.text == symbol and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of a comma-separated list."""
    return tuple(filter(None, (" ".join(one.split()) for one in text.split(","))))


@cache
def _by_first_word(phrases: tuple[str, ...]) -> dict[str, list[tuple[list[str], str]]]:
    """Return the words of phrases, and the phrases, by their first word."""
    found: dict[str, list[tuple[list[str], str]]] = {}
    for phrase in phrases:
        words = phrase.split()
        found.setdefault(words[0], []).append((words, phrase))
    return found


class Cursor:
    """Reader of tokens from left to right."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def all(self) -> Sequence[Token]:
        """Tokens of the statement."""
        return self._tokens

    @property
    def rest(self) -> Sequence[Token]:
        """Tokens that have not been read."""
        return self._tokens[self._at :]

    def peek(self, ahead: int = 0) -> Token | None:
        """Return a token ahead without reading it."""
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else None

    def word(self, ahead: int = 0) -> str:
        """Return the next word in upper case, or the next symbol; empty at the end, for literals and quoted names."""
        token = self.peek(ahead)
        return token.text.upper() if token and token.kind in ("word", "symbol") else ""

    def next(self) -> Token:
        """Read a token."""
        token = self.peek()
        if token is None:
            raise NotReadError("the statement ends too early")
        self._at += 1
        return token

    def accept(self, phrase: str) -> bool:
        """Read the words of a phrase, if they are next."""
        return self.accept_one(phrase) != ""

    def accept_one(self, *phrases: str) -> str:
        """Read the first matching phrase. Return "" if no phrase is next."""
        first = self.word()
        for words, phrase in _by_first_word(phrases).get(first, ()):
            if all(self.word(ahead) == word for ahead, word in enumerate(words)):
                self._at += len(words)
                return phrase
        return ""

    def expect(self, *phrases: str, called: str = "") -> str:
        """Read one of some phrases. An error names it by the first phrase, or by `called`."""
        if found := self.accept_one(*phrases):
            return found
        raise self.unexpected(called or phrases[0])

    def accept_kind(self, *kinds: str) -> Token | None:
        """Read a token, if it is of one of these kinds."""
        token = self.peek()
        return self.next() if token and token.kind in kinds else None

    def expect_kind(self, *kinds: str) -> Token:
        """Read a token of one of these kinds."""
        if found := self.accept_kind(*kinds):
            return found
        raise self.unexpected(" or ".join(kinds))

    def name(self) -> str:
        """Read a name. Double quotes may enclose it, as on a server with the SQL mode ANSI_QUOTES."""
        token = self.peek()
        if token is None or not _is_name(token):
            raise self.unexpected("a name")
        return self.next().text

    def skip(self) -> None:
        """Read all remaining tokens."""
        self._at = len(self._tokens)

    def skip_parentheses(self) -> bool:
        """Read up to the closing parenthesis, if the next token is an opening one."""
        if self.word() != "(":
            return False
        self.parenthesized()
        return True

    def parenthesized(self) -> Sequence[Token]:
        """Read a list in parentheses, and return its tokens."""
        self.expect("(")
        start, depth = self._at, 1
        while depth:
            token = self.next()
            if token.kind == "symbol":
                depth += (token.text == "(") - (token.text == ")")
        return self._tokens[start : self._at - 1]

    def end(self) -> None:
        """Raise an error if tokens remain."""
        if self.peek() is not None:
            raise self.unexpected("the end")

    def unexpected(self, expected: str) -> NotReadError:
        """Return the error for an unexpected next token."""
        token = self.peek()
        found = repr(token.raw[:40]) if token else "the end"
        return NotReadError(f"expected {expected}, not {found}")


def _is_name(token: Token) -> bool:
    if token.kind == "word":
        return _UNQUOTED.fullmatch(token.text) is not None
    quoted = token.kind == "name" or (token.raw[0] == '"' and "\\" not in token.raw)
    return quoted and token.text != "" and "\0" not in token.text
