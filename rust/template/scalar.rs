//! Parsing of strings and integers, and hashing of names, at a position of a message, without a cursor.

use crate::mysql::number::{AROUND_START, integer_prefix, usual_integer, window_at};
use crate::wire::json;

/// Reads the string at `at`. Returns its characters and end; `None` if it has escapes.
#[inline]
pub(super) fn plain_string(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let start = at + 1;
    let special = json::special_in(&json::block_at(text, start)?);
    let end = if special != 0 {
        start + special.trailing_zeros() as usize
    } else {
        json::special(text, start + 16)
    };
    if text.get(end) == Some(&b'"') {
        Some((text.get(start..end)?, end + 1))
    } else {
        None
    }
}

/// Reads the string at `at` as text without quotes. Returns it with its end; `None` if it has escapes.
#[inline]
pub(super) fn plain_text(text: &str, at: usize) -> Option<(&str, usize)> {
    let (_, end) = plain_string(text.as_bytes(), at)?;
    Some((text.get(at + 1..end - 1)?, end))
}

/// Reads the JSON integer at `at`. Returns it with its end.
#[inline(always)]
pub(super) fn integer(text: &[u8], at: usize) -> Option<(i64, usize)> {
    // Take only the bytes that [`usual_integer`] reads, so that few integers are too near the message's end.
    let around = at
        .checked_sub(AROUND_START)
        .and_then(|start| text.get(start..)?.first_chunk::<34>());
    match around.and_then(|around| Some((around[AROUND_START], usual_integer(around)?))) {
        // JSON forbids leading zeros. A fraction cannot follow, because the next comparison is with the literal after
        // the placeholder.
        Some((first, (number, length))) if first > b'0' || length == 1 => {
            Some((number, at + length))
        }
        _ => integer_fallback(text, at),
    }
}

/// Reads integers that are negative, long, or near an end of the message.
#[inline(never)]
fn integer_fallback(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let (rest, mut at_end) = (text.get(at..)?, [0; 32]);
    let (number, length) = integer_prefix(window_at(rest, &mut at_end))?;
    let digits = rest.get(usize::from(rest.first() == Some(&b'-'))..length)?;
    if digits.first() == Some(&b'0') && digits.len() > 1 {
        return None;
    }
    Some((number, at + length))
}

/// Hashes the bytes before the first quote, in blocks of 16.
#[inline(always)]
pub(super) fn hash(name: &[u8], mut hash: u64) -> u64 {
    /// Names whose first 64 bytes are equal have the same hash.
    const MAX_BLOCKS: usize = 4;
    let (blocks, _) = name.as_chunks::<16>();
    for block in blocks.iter().take(MAX_BLOCKS) {
        let special = json::special_in(block);
        // Shift out the quote and the bytes after it.
        let lanes =
            u128::from_le_bytes(*block).unbounded_shl(128 - 8 * special.trailing_zeros().min(16));
        hash = (hash ^ lanes as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
            ^ (lanes >> 64) as u64;
        // Names differ most at their ends, which are the highest bits.
        hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        if special != 0 {
            break;
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn a_hash_depends_on_all_of_a_name_and_on_nothing_behind_it() {
        for length in 0..40 {
            let of = |last: u8, behind: u8| {
                hash(
                    &[vec![b'x'; length], vec![last, b'"'], vec![behind; 48]].concat(),
                    0,
                )
            };
            let slots: std::collections::HashSet<u64> = (b'a'..=b'z')
                .map(|last| of(last, b',') >> 40 & 1023)
                .collect();
            assert!(slots.len() > 20, "{length}: {}", slots.len());
            assert_eq!(of(b'a', b','), of(b'a', 0), "{length}");
        }
    }
}
