//! UTF-8 validation.

use crate::error::{Fault, Kind, Result};

/// Returns the bytes as text, if they are valid UTF-8. simdutf8 is only for long texts.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    if bytes.len() < SIMD_MIN_LEN { std::str::from_utf8(bytes).ok() } else { simdutf8::basic::from_utf8(bytes).ok() }
}

/// Returns the bytes as text; the fault of others says `what` and names the first invalid byte.
pub(crate) fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| Fault::new(Kind::Encoding, what).at(error.valid_up_to()))
}

/// Length from which simdutf8 is faster.
const SIMD_MIN_LEN: usize = 64;

/// Whether the bytes are valid UTF-8. Most are short ASCII, which has a fast path without std's loop over bytes.
#[inline]
pub(crate) fn is_utf8(bytes: &[u8]) -> bool {
    is_short_ascii(bytes) || is_utf8_simd(bytes)
}

/// Pads short bytes with zeros: they are then long enough for simdutf8, and a truncated character is invalid.
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

/// SWAR over overlapping blocks of fixed length, in any order.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let ends = u64::from_le_bytes(*first) | u64::from_le_bytes(*last);
        let between = if bytes.len() > 16 { bytes.as_chunks::<8>().0 } else { &[] };
        bytes.len() < SIMD_MIN_LEN && between.iter().fold(ends, |all, block| all | u64::from_le_bytes(*block)) & HIGH == 0
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u32::from_le_bytes(*first) | u32::from_le_bytes(*last)) & HIGH as u32 == 0
    } else {
        bytes.iter().fold(0, |all, byte| all | byte) < 0x80
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
