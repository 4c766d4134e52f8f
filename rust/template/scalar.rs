//! Strings and integers read at a place of a message, without a cursor.

use crate::mysql::number::{integer_prefix, up_to_16_digits, window_at};
use crate::wire::json;

/// The characters of the string without escapes that begins at `at`, and where it ends.
#[inline]
pub(super) fn plain_string(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let start = at + 1;
    let special = json::special_in(&json::block_at(text, start)?);
    let end = if special != 0 { start + special.trailing_zeros() as usize } else { json::special(text, start + 16) };
    if text.get(end) == Some(&b'"') { Some((text.get(start..end)?, end + 1)) } else { None }
}

/// The text at `at`, without its quotes, if it has no escapes, and where it ends.
#[inline]
pub(super) fn plain_text(text: &str, at: usize) -> Option<(&str, usize)> {
    let (_, end) = plain_string(text.as_bytes(), at)?;
    Some((text.get(at + 1..end - 1)?, end))
}

/// The integer at `at`, as JSON writes it, and where it ends.
#[inline]
pub(super) fn integer(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let rest = text.get(at..)?;
    match rest.first_chunk().and_then(up_to_16_digits) {
        // What follows is compared with the literal behind the hole, so it is no fraction.
        Some((number, length)) if length > 0 && rest.first() != Some(&b'0') => Some((number as i64, at + length)),
        _ => other_integer(rest).map(|(number, length)| (number, at + length)),
    }
}

/// Zero, and integers that are negative, long, or near the end of the message.
#[inline(never)]
fn other_integer(rest: &[u8]) -> Option<(i64, usize)> {
    let mut at_end = [0; 32];
    let (number, length) = integer_prefix(window_at(rest, &mut at_end))?;
    // No zeros before other digits.
    let digits = rest.get(usize::from(rest.first() == Some(&b'-'))..length)?;
    let leading_zero = digits.first() == Some(&b'0') && digits.len() > 1;
    (!leading_zero).then_some((number, length))
}
