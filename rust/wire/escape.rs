//! Decoding of escapes in JSON strings.

use crate::error::{Fault, Kind, Result};

/// Returns the decoded text of a JSON string. Its escapes were validated during reading.
pub(crate) fn unescaped(raw: &str) -> Result<String> {
    let mut out = String::with_capacity(raw.len());
    unescape(raw, |piece| out.push_str(piece))?;
    Ok(out)
}

/// Calls `push` with the decoded pieces of a validated JSON string.
#[allow(
    clippy::string_slice,
    reason = "escapes are ASCII, and `decode_escape` returns the length of one that it has read"
)]
pub(crate) fn unescape(raw: &str, mut push: impl FnMut(&str)) -> Result<()> {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        push(&rest[..at]);
        let (decoded, length) = decode_escape(&rest[at..])?;
        push(decoded.encode_utf8(&mut [0; 4]));
        rest = &rest[at + length..];
    }
    push(rest);
    Ok(())
}

/// Decodes the escape at the start of `text`. Returns the character and the length of the escape.
fn decode_escape(text: &str) -> Result<(char, usize)> {
    let simple = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let what = "a lone surrogate escape is not a character";
            return decode_unicode(text).ok_or_else(|| Fault::new(Kind::Encoding, what));
        }
        Some(&other) => other as char,
        None => {
            return Err(Fault::new(
                Kind::Syntax,
                "lone backslash at the end of a string",
            ));
        }
    };
    Ok((simple, 2))
}

fn decode_unicode(text: &str) -> Option<(char, usize)> {
    let first = unit_at(text, 2)?;
    let second = if text.get(6..8) == Some("\\u") {
        unit_at(text, 8)
    } else {
        None
    };
    let mut chars = char::decode_utf16([first].into_iter().chain(second));
    let c = chars.next()?.ok()?;
    Some((c, 6 * c.len_utf16()))
}

fn unit_at(text: &str, at: usize) -> Option<u16> {
    u16::from_str_radix(text.get(at..at + 4)?, 16).ok()
}
