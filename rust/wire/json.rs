//! Pull reader of JSON text. It borrows everything and converts nothing.
//!
//! A value becomes a [`Value`]: its kind and its own characters. Numbers keep their digits, objects and arrays their
//! text. Strings keep their escapes, which are checked here and decoded when the text is used. The grammar is checked
//! in full, even in skipped values. So a message is either JSON or an error.

use std::borrow::Cow;

use wide::u8x16;

use crate::error::{Fault, Kind, Result};
use crate::value::Value;
use crate::wire::digits::count_digits;
use crate::wire::escape::unescaped;

/// Byte order mark that some editors and producers write before JSON. It is skipped.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Maximum nesting depth of objects and arrays.
pub(crate) const MAX_DEPTH: u32 = 128;

/// The characters of a JSON string between its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub raw: &'a str,
    pub escaped: bool,
}

impl<'a> Text<'a> {
    /// Returns the text with its escapes decoded.
    #[inline]
    pub fn decode(self) -> Result<Cow<'a, str>> {
        if !self.escaped {
            return Ok(Cow::Borrowed(self.raw));
        }
        unescaped(self.raw).map(Cow::Owned)
    }

    /// Returns the text for a comparison with names. Keeps invalid escapes, which equal no name.
    pub fn unescaped(self) -> Cow<'a, str> {
        self.decode().unwrap_or(Cow::Borrowed(self.raw))
    }

    /// Returns the text as a value of a row image.
    #[inline]
    pub fn value(self) -> Value<'a> {
        if self.escaped {
            Value::Escaped(self.raw)
        } else {
            Value::Text(self.raw)
        }
    }
}

/// Reads a text from its start. `at` is always on a character boundary.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    lenient: bool,
}

/// The members of an object in the course of reading.
pub(crate) struct Members(bool);

/// The elements of an array in the course of reading.
pub(crate) struct Elements(bool);

impl<'a> Cursor<'a> {
    /// Returns a reader of `text`. `lenient` allows control characters inside strings.
    pub fn new(text: &'a str, lenient: bool) -> Self {
        Cursor {
            text,
            at: 0,
            lenient,
        }
    }

    /// Returns a reader of `text` from a character on.
    #[inline]
    pub fn starting(text: &'a str, at: usize, lenient: bool) -> Self {
        Cursor { text, at, lenient }
    }

    /// Returns the index of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Skips white space. Returns the next byte without skipping it.
    #[inline(always)]
    pub fn peek(&mut self) -> Option<u8> {
        match self.text.as_bytes().get(self.at) {
            Some(&byte) if byte <= b' ' => self.peek_beyond_space(),
            other => other.copied(),
        }
    }

    /// Returns the next byte, white space or not.
    #[inline(always)]
    pub fn next_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline(never)]
    fn peek_beyond_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.as_bytes().get(self.at) {
            self.at += 1;
        }
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips `expected` if it comes next.
    #[inline]
    pub fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected.as_bytes());
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Skips `expected` if it comes next. `expected` was a part of a valid text.
    pub fn eat_bytes(&mut self, expected: &[u8]) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Returns the next 16 bytes; `None` if fewer remain.
    #[inline(always)]
    pub fn block(&self) -> Option<u128> {
        self.rest()
            .first_chunk::<16>()
            .map(|block| u128::from_le_bytes(*block))
    }

    /// Skips bytes that were compared with ASCII text.
    #[inline(always)]
    pub fn advance(&mut self, length: usize) {
        self.at += length;
    }

    /// Reads an object or null. `before` is the object at the same place in an earlier message, which usually repeats.
    #[inline]
    pub fn repeated(&mut self, before: &mut &'a str) -> Result<Option<&'a str>> {
        if !before.is_empty() && self.eat(before) {
            return Ok(Some(before));
        }
        let found = self.optional_object()?;
        *before = found.unwrap_or_default();
        Ok(found)
    }

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "only bytes that exist are read")]
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// Returns the text from `start` to the current offset.
    #[inline]
    pub fn since(&self, start: usize) -> &'a str {
        part(self.text, start, self.at)
    }

    /// Reads any value. Checks objects and arrays, and returns them as text.
    #[inline(always)]
    pub fn value(&mut self) -> Result<Value<'a>> {
        if self.peek() == Some(b'"') {
            self.text_at_quote().map(Text::value)
        } else {
            self.other_value()
        }
    }

    #[inline(never)]
    fn other_value(&mut self) -> Result<Value<'a>> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b'{' | b'[') => self.nested().map(Value::Nested),
            Some(b'n') => self.word("null").map(|_| Value::Null),
            Some(b't') => self.word("true").map(Value::Bool),
            Some(b'f') => self.word("false").map(Value::Bool),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Skips any value.
    pub fn skip(&mut self) -> Result<()> {
        self.value().map(drop)
    }

    /// Skips any value. Checks only where it ends.
    pub fn skip_unchecked(&mut self) -> Result<()> {
        if !matches!(self.peek(), Some(b'{' | b'[')) {
            return self.skip();
        }
        let mut depth = 0u32;
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.text_at_quote()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                None => return Err(self.unexpected("the end of a value")),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Reads an object or array as text.
    fn nested(&mut self) -> Result<&'a str> {
        let start = self.at;
        self.skip_nested(0)?;
        Ok(self.since(start))
    }

    fn skip_nested(&mut self, depth: u32) -> Result<()> {
        if depth >= MAX_DEPTH {
            return Err(Fault::new(
                Kind::Depth,
                format!("nested deeper than {MAX_DEPTH} levels"),
            )
            .at(self.at));
        }
        match self.peek() {
            Some(b'{') => {
                let mut members = self.object()?;
                while self.next_key(&mut members)?.is_some() {
                    self.skip_nested(depth + 1)?;
                }
                Ok(())
            }
            Some(b'[') => {
                let mut elements = self.array()?;
                while self.next_element(&mut elements)? {
                    self.skip_nested(depth + 1)?;
                }
                Ok(())
            }
            _ => self.value().map(drop),
        }
    }

    /// Enters an object.
    #[inline]
    pub fn object(&mut self) -> Result<Members> {
        self.expect(b'{', "an object").map(|()| Members(false))
    }

    /// Moves to the next member's value, after its key; `None` after the last member.
    #[inline(always)]
    pub fn next_key(&mut self, members: &mut Members) -> Result<Option<Text<'a>>> {
        if !self.next_member(members)? {
            return Ok(None);
        }
        let key = self.key()?;
        Ok(Some(key))
    }

    /// Moves to the next member's key; `false` after the last member.
    #[inline(always)]
    pub fn next_member(&mut self, members: &mut Members) -> Result<bool> {
        self.next(&mut members.0, b'}', "',' or '}'")
    }

    /// Reads a key and its colon.
    #[inline(always)]
    pub fn key(&mut self) -> Result<Text<'a>> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in quotes"));
        }
        let key = self.text_at_quote()?;
        self.expect(b':', "':'")?;
        Ok(key)
    }

    /// Enters an array.
    #[inline]
    pub fn array(&mut self) -> Result<Elements> {
        self.expect(b'[', "an array").map(|()| Elements(false))
    }

    /// Moves to the next element; `false` after the last element.
    #[inline]
    pub fn next_element(&mut self, elements: &mut Elements) -> Result<bool> {
        self.next(&mut elements.0, b']', "',' or ']'")
    }

    #[inline(always)]
    fn next(&mut self, inside: &mut bool, close: u8, expected: &str) -> Result<bool> {
        let first = !std::mem::replace(inside, true);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                // A member must follow a comma: `{"a":1,}` is not JSON.
                if self.peek() == Some(close) {
                    Err(self.unexpected("a value"))
                } else {
                    Ok(true)
                }
            }
            Some(_) if first => Ok(true),
            _ if first => Err(self.unexpected(if close == b'}' {
                "a key or '}'"
            } else {
                "a value or ']'"
            })),
            _ => Err(self.unexpected(expected)),
        }
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8, what: &str) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected(what));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<&'a str> {
        let start = self.at;
        if self.eat(word) {
            Ok(self.since(start))
        } else {
            Err(self.unexpected("a value"))
        }
    }

    /// Reads the string whose opening quote is the next byte. Most strings are short and plain, and end in the first
    /// block.
    #[inline(always)]
    pub fn text_at_quote(&mut self) -> Result<Text<'a>> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        if let Some(block) = bytes.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
            let hits = special_in(block);
            let end = start + hits.trailing_zeros() as usize;
            if hits != 0 && bytes.get(end) == Some(&b'"') {
                self.at = end + 1;
                return Ok(Text {
                    raw: part(self.text, start, end),
                    escaped: false,
                });
            }
        }
        self.long_string(start)
    }

    /// Reads a string that is long, has escapes, or is near the text's end.
    #[inline(never)]
    fn long_string(&mut self, start: usize) -> Result<Text<'a>> {
        let mut end = start;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            end = special(bytes, end);
            match bytes.get(end) {
                Some(b'"') => {
                    self.at = end + 1;
                    return Ok(Text {
                        raw: part(self.text, start, end),
                        escaped,
                    });
                }
                Some(b'\\') => {
                    end = escape_end(bytes, end)?;
                    escaped = true;
                }
                Some(_) if self.lenient => end += 1,
                Some(control) => {
                    let what = format!(
                        "control character U+{control:04X} in a string (lenient=True accepts it)"
                    );
                    return Err(Fault::new(Kind::Syntax, what).at(end));
                }
                None => {
                    return Err(Fault::new(Kind::Syntax, "the message ends inside a string")
                        .at(bytes.len()));
                }
            }
        }
    }

    /// Reads a number: nearly always an integer that does not begin with zero.
    #[inline]
    fn number(&mut self) -> Result<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        if let Some(b'1'..=b'9') = bytes.get(start) {
            let end = digits(bytes, start + 1);
            if !matches!(bytes.get(end), Some(b'.' | b'e' | b'E')) {
                self.at = end;
                return Ok(self.since(start));
            }
        }
        self.any_number()
    }

    /// Reads a number by JSON's grammar.
    #[inline(never)]
    fn any_number(&mut self) -> Result<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
        let whole = digits(bytes, at);
        let leading_zero = bytes.get(at) == Some(&b'0') && whole > at + 1;
        let mut complete = whole > at && !leading_zero;
        at = whole;
        if bytes.get(at) == Some(&b'.') {
            let end = digits(bytes, at + 1);
            complete &= end > at + 1;
            at = end;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            let from = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let end = digits(bytes, from);
            complete &= end > from;
            at = end;
        }
        if !complete {
            return Err(Fault::new(Kind::Syntax, "malformed number").at(start));
        }
        self.at = at;
        Ok(self.since(start))
    }

    /// Reads null.
    pub fn null(&mut self) -> Result<()> {
        self.word("null").map(drop)
    }

    /// Reads a string.
    #[inline]
    pub fn text(&mut self) -> Result<Text<'a>> {
        if self.peek() == Some(b'"') {
            self.text_at_quote()
        } else {
            Err(self.wrong_type("text"))
        }
    }

    /// Reads a decoded string, or null.
    #[inline]
    pub fn optional_text(&mut self) -> Result<Option<Cow<'a, str>>> {
        match self.peek() {
            Some(b'"') => {
                let start = self.at;
                self.text_at_quote()?
                    .decode()
                    .map(Some)
                    .map_err(|fault| fault.at(start))
            }
            Some(b'n') => self.null().map(|()| None),
            _ => Err(self.wrong_type("text or null")),
        }
    }

    /// Reads an integer.
    #[inline]
    pub fn integer(&mut self) -> Result<i64> {
        if let Some(b'1'..=b'9') = self.text.as_bytes().get(self.at) {
            self.plain_integer()
        } else {
            self.any_integer()
        }
    }

    /// Reads an integer that begins with a digit other than zero, in one pass if it has at most 18 digits.
    #[inline]
    fn plain_integer(&mut self) -> Result<i64> {
        let bytes = self.text.as_bytes();
        let (mut at, mut value) = (self.at, 0i64);
        while let Some(digit) = bytes
            .get(at)
            .map(|byte| byte.wrapping_sub(b'0'))
            .filter(|digit| *digit <= 9)
        {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            at += 1;
        }
        if at - self.at > 18 || matches!(bytes.get(at), Some(b'.' | b'e' | b'E')) {
            return self.any_integer();
        }
        self.at = at;
        Ok(value)
    }

    fn any_integer(&mut self) -> Result<i64> {
        let start = self.at;
        let number = self.number()?;
        number.parse().map_err(|_| {
            Fault::new(Kind::Envelope, format!("{number} is not a 64-bit integer")).at(start)
        })
    }

    /// Reads a boolean.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool> {
        if self.eat("true") {
            Ok(true)
        } else {
            self.word("false").map(|_| false)
        }
    }

    /// Reads the text of an object, or null. An empty array counts as null.
    #[allow(clippy::string_slice, reason = "an array has brackets")]
    pub fn optional_object(&mut self) -> Result<Option<&'a str>> {
        self.peek();
        let at = self.at;
        match self.optional_nested()? {
            Some(text) if text.starts_with('[') => {
                if text[1..text.len() - 1].trim().is_empty() {
                    Ok(None)
                } else {
                    Err(
                        Fault::new(Kind::Envelope, "expected an object or null, found an array")
                            .at(at),
                    )
                }
            }
            other => Ok(other),
        }
    }

    /// Reads the text of an object or array, or null.
    pub fn optional_nested(&mut self) -> Result<Option<&'a str>> {
        match self.peek() {
            Some(b'{' | b'[') => self.nested().map(Some),
            Some(b'n') => self.null().map(|()| None),
            _ => Err(self.wrong_type("an object or null")),
        }
    }

    /// Returns the error of a value with an unexpected type: an envelope error. If no value is here, it is a syntax
    /// error.
    #[cold]
    pub fn wrong_type(&mut self, expected: &str) -> Fault {
        let at = self.at;
        let found = match self.value() {
            Ok(Value::Null) => "null",
            Ok(Value::Bool(_)) => "a boolean",
            Ok(Value::Number(_)) => "a number",
            Ok(Value::Text(_) | Value::Escaped(_)) => "text",
            Ok(Value::Nested(text)) if text.starts_with('[') => "an array",
            Ok(_) => "an object",
            Err(fault) => return fault,
        };
        Fault::new(
            Kind::Envelope,
            format!("expected {expected}, found {found}"),
        )
        .at(at)
    }

    /// Returns the error of a missing object: an envelope error if another value is here, otherwise a syntax error.
    #[cold]
    pub fn no_object(&mut self, expected: &str) -> Fault {
        self.peek();
        if self.clone().value().is_ok() {
            self.wrong_type(expected)
        } else {
            self.unexpected(expected)
        }
    }

    /// Returns a syntax error at this byte, with the found and the expected text.
    #[cold]
    #[allow(clippy::string_slice, reason = "`at` is on a character boundary")]
    pub fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.text[self.at..].chars().next() {
            Some(c) => format!("expected {expected}, found {c:?}"),
            None => format!("the message ends where {expected} was expected"),
        };
        Fault::new(Kind::Syntax, found).at(self.at)
    }
}

/// Returns whether two raw values stand for the same text. Null equals only null.
pub(crate) fn same_values(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    // A different byte means a different text, unless an escape is there or before it.
    let first = one
        .bytes()
        .zip(other.bytes())
        .find(|(a, b)| a != b || *a == b'\\');
    let are_texts = one.starts_with('"') && other.starts_with('"');
    if are_texts && first.is_some_and(|(a, b)| a != b'\\' && b != b'\\') {
        return false;
    }
    let values = [one, other].map(|text| Cursor::new(text, true).value());
    matches!(values, [Ok(one), Ok(other)] if one.same(&other))
}

/// Returns a text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{0}'..='\u{1f}' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a bit mask of the quotes, backslashes and control characters in a block.
#[inline(always)]
pub(crate) fn special_in(block: &[u8; 16]) -> u32 {
    let block = u8x16::new(*block);
    let control = block.min(u8x16::splat(0x1F)).simd_eq(block);
    (block.simd_eq(u8x16::splat(b'"')) | block.simd_eq(u8x16::splat(b'\\')) | control).to_bitmask()
}

/// Returns a bit mask of the quotes, backslashes and control characters in 32 bytes.
#[inline(always)]
pub(crate) fn special_in_32(block: &[u8; 32]) -> u32 {
    let (halves, _) = block.as_chunks::<16>();
    halves
        .iter()
        .rev()
        .fold(0, |hits, half| hits << 16 | special_in(half))
}

/// Returns the 16 bytes from `at` on, with zeros after the end; `None` at the end.
#[inline(always)]
pub(crate) fn block_at(bytes: &[u8], at: usize) -> Option<[u8; 16]> {
    let rest = bytes.get(at..)?;
    match rest.first_chunk::<16>() {
        Some(block) => Some(*block),
        None => last_block(bytes, rest.len()),
    }
}

/// Returns the last bytes, fewer than 16.
#[cold]
fn last_block(bytes: &[u8], length: usize) -> Option<[u8; 16]> {
    if length == 0 {
        return None;
    }
    let missing = 16usize.checked_sub(length)?;
    Some((u128::from_le_bytes(*bytes.last_chunk()?) >> (8 * missing)).to_le_bytes())
}

/// Returns the text between two positions of a reader.
#[inline]
#[allow(
    clippy::string_slice,
    reason = "both are beside a byte that was compared with ASCII"
)]
fn part(text: &str, start: usize, end: usize) -> &str {
    &text[start..end]
}

/// Returns the index of the first quote, backslash or control character from `from` on; the text's length if none
/// exists.
#[inline]
#[allow(
    clippy::indexing_slicing,
    reason = "`from` is in the text, and blocks of it end there"
)]
pub(crate) fn special(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let hits = special_in_32(block);
        if hits != 0 {
            return at + hits.trailing_zeros() as usize;
        }
        at += 32;
    }
    let tail = &bytes[at..];
    at + tail
        .iter()
        .position(|&b| b == b'"' || b == b'\\' || b < 0x20)
        .unwrap_or(tail.len())
}

#[inline]
#[allow(clippy::indexing_slicing, reason = "`from` is in the text")]
fn digits(bytes: &[u8], from: usize) -> usize {
    from + count_digits(&bytes[from..])
}

/// Checks the escape at `at`. Returns the index after it.
fn escape_end(bytes: &[u8], at: usize) -> Result<usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let hex = bytes.get(at + 2..at + 6);
            if hex.is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit)) {
                return Ok(at + 6);
            }
            Err(Fault::new(Kind::Syntax, "\\u needs four hexadecimal digits").at(at))
        }
        Some(_) => Err(Fault::new(Kind::Syntax, "unknown escape in a string").at(at)),
        None => Err(Fault::new(Kind::Syntax, "the message ends inside a string").at(bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_json(text: &str) -> bool {
        let mut cursor = Cursor::new(text, false);
        cursor.skip().is_ok() && cursor.peek().is_none()
    }

    #[test]
    fn accepts_and_refuses_what_serde_json_does() {
        let cases = [
            "0",
            "-0",
            "00",
            "01",
            "-",
            "1.",
            ".5",
            "1.5e",
            "1e+5",
            "1E-5",
            "+1",
            "nul",
            "null",
            "true",
            "tru",
            "\"\"",
            "\"a",
            "\"\\u00e9\"",
            "\"\\u00g9\"",
            "\"\\x\"",
            "\"\t\"",
            "[]",
            "[1,]",
            "[,]",
            "[1 2]",
            "{}",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1 \"b\":2}",
            "[[[[]]]]",
            "[1",
            "{\"a\":",
            " [ 1 , {\"x\" : [ ] } ] ",
            "",
            " ",
            "[]]",
            "\"\u{7f}\"",
            "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\\"aaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
        ];
        for case in cases {
            let theirs = serde_json::from_str::<serde_json::Value>(case).is_ok();
            assert_eq!(is_json(case), theirs, "{case:?}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(is_json(&nested(MAX_DEPTH as usize)));
        let deep = nested(100_000);
        let fault = Cursor::new(&deep, false).skip().unwrap_err().into_parts();
        assert_eq!(fault.kind, Kind::Depth);
    }

    #[test]
    fn strings_decode_as_serde_json_does() {
        for raw in [
            "plain",
            r"a\nb\t\r\b\f\/\\\",
            r"\u00e9\u4e2d",
            r"\ud83d\ude00!",
            r"\ud83d",
            r"\ude00\ud83d",
            r"\ud83dx",
        ] {
            let ours = Text { raw, escaped: true }
                .decode()
                .ok()
                .map(Cow::into_owned);
            let theirs = serde_json::from_str::<String>(&format!("\"{raw}\"")).ok();
            assert_eq!(ours, theirs, "{raw}");
        }
    }

    #[test]
    fn special_finds_the_same_byte_at_every_offset() {
        for length in 0..70 {
            for found in [b'"', b'\\', 0x1F, 0] {
                let mut text = vec![b'a'; length];
                text.push(found);
                text.extend([b'"'; 20]);
                assert_eq!(special(&text, 0), length);
            }
            assert_eq!(special(&vec![0xC3; length], 0), length);
        }
    }
}
