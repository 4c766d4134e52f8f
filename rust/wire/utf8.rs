//! UTF-8 validation.

use crate::error::{Fault, Kind, Result};

/// Returns the bytes as text, if they are valid UTF-8. simdutf8 pays off only for long texts.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    if bytes.len() < SIMD_MIN_LEN {
        std::str::from_utf8(bytes).ok()
    } else {
        simdutf8::basic::from_utf8(bytes).ok()
    }
}

/// Returns the bytes as text. The fault of invalid bytes says `what`, and names the first invalid byte.
pub(crate) fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str> {
    simdutf8::compat::from_utf8(bytes)
        .map_err(|error| Fault::new(Kind::Encoding, what).at(error.valid_up_to()))
}

/// Returns whether bytes begin like JSON in UTF-16: with its byte order mark, or with ASCII in every other byte.
pub(crate) fn is_utf16(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0xFF, 0xFE, ..]
            | [0xFE, 0xFF, ..]
            | [b'{' | b'[', 0, 1..=0x7F, 0, ..]
            | [0, b'{' | b'[', 0, 1..=0x7F, ..]
    )
}

/// Length from which simdutf8 is faster.
const SIMD_MIN_LEN: usize = 64;

/// Returns whether the bytes are valid UTF-8. Most are short ASCII, which has a fast path without std's loop over
/// bytes.
#[inline]
pub(crate) fn is_utf8(bytes: &[u8]) -> bool {
    is_short_ascii(bytes) || is_utf8_simd(bytes)
}

/// Pads short bytes with zeros. Then they are long enough for simdutf8, and a truncated character is invalid.
fn is_utf8_simd(bytes: &[u8]) -> bool {
    let mut block = [0; SIMD_MIN_LEN];
    match block.get_mut(..bytes.len()) {
        Some(part) => {
            part.copy_from_slice(bytes);
            simdutf8::basic::from_utf8(&block).is_ok()
        }
        None => simdutf8::basic::from_utf8(bytes).is_ok(),
    }
}

/// Returns whether the bytes are short ASCII. SWAR over overlapping blocks of fixed length, in any order.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let ends = u64::from_le_bytes(*first) | u64::from_le_bytes(*last);
        let between = if bytes.len() > 16 {
            bytes.as_chunks::<8>().0
        } else {
            &[]
        };
        bytes.len() < SIMD_MIN_LEN
            && between
                .iter()
                .fold(ends, |all, block| all | u64::from_le_bytes(*block))
                & HIGH
                == 0
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u32::from_le_bytes(*first) | u32::from_le_bytes(*last)) & HIGH as u32 == 0
    } else {
        bytes.iter().fold(0, |all, byte| all | byte) < 0x80
    }
}

/// The texts of a buffer. Their UTF-8 is checked in groups, because checking many texts costs little more than checking
/// one.
pub(crate) struct Texts<'a> {
    buffer: &'a [u8],
    /// The last valid group, and its start in the buffer.
    group: &'a str,
    start: usize,
    /// True if a group was invalid, because other bytes are between the texts.
    has_failed: bool,
}

impl<'a> Texts<'a> {
    /// Size of a group in bytes. It fits into a core's first-level cache.
    const GROUP_BYTES: usize = 16 << 10;

    pub fn new(buffer: &'a [u8]) -> Self {
        Texts {
            buffer,
            group: "",
            start: 0,
            has_failed: false,
        }
    }

    /// Returns bytes as text, if they are valid UTF-8. They may be outside the buffer.
    #[inline]
    pub fn text(&mut self, bytes: &'a [u8]) -> Option<&'a str> {
        let at = (bytes.as_ptr() as usize).wrapping_sub(self.buffer.as_ptr() as usize);
        self.in_group(at, bytes.len())
            .or_else(|| self.next_group(at, bytes.len()))
            .or_else(|| simdutf8::basic::from_utf8(bytes).ok())
    }

    #[inline]
    fn in_group(&self, at: usize, length: usize) -> Option<&'a str> {
        let at = at.checked_sub(self.start)?;
        self.group.get(at..at.checked_add(length)?)
    }

    /// Checks the group that begins with a text.
    #[inline(never)]
    fn next_group(&mut self, at: usize, length: usize) -> Option<&'a str> {
        if self.has_failed || length > Self::GROUP_BYTES / 4 {
            return None;
        }
        let rest = self.buffer.get(at..)?;
        let end = whole_characters(rest, rest.len().min(Self::GROUP_BYTES));
        let group = simdutf8::basic::from_utf8(rest.get(..end)?);
        self.has_failed = group.is_err();
        (self.start, self.group) = (at, group.ok()?);
        self.group.get(..length)
    }
}

/// Moves an end back to a character boundary.
fn whole_characters(bytes: &[u8], end: usize) -> usize {
    (end.saturating_sub(3)..=end)
        .rev()
        .find(|end| bytes.get(*end).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_buffer_are_those_that_each_is() {
        for broken in [None, Some(30_001), Some(50_000)] {
            let mut buffer = "{中文\u{1F600}é}a".repeat(4000).into_bytes();
            broken.into_iter().for_each(|at: usize| buffer[at] = 0xFF);
            for step in [1, 3, 7, 16, 333, 5000] {
                let mut texts = Texts::new(&buffer);
                assert!(
                    buffer
                        .chunks(step)
                        .all(|part| texts.text(part) == std::str::from_utf8(part).ok()),
                    "{broken:?}, {step}"
                );
            }
        }
        assert_eq!(Texts::new(b"here").text(b"elsewhere"), Some("elsewhere"));
    }

    #[test]
    fn an_invalid_byte_is_found_at_every_offset() {
        for length in 0..150 {
            let mut bytes = vec![b'a'; length];
            assert!(is_utf8(&bytes));
            for at in 0..length {
                bytes[at] = 0xC3;
                assert!(!is_utf8(&bytes), "{at} of {length}");
                bytes[at] = b'a';
            }
        }
        assert!(is_utf8("中文 und ein längerer Text, der über vierundsechzig Bytes hinausgeht, damit simdutf8 ihn liest".as_bytes()));
    }
}
