//! Whether bytes are text.

/// Bytes as text, if they are. simdutf8 is for long texts only.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    if bytes.len() < LONG { std::str::from_utf8(bytes).ok() } else { simdutf8::basic::from_utf8(bytes).ok() }
}

/// From how many bytes on simdutf8 is faster.
const LONG: usize = 64;

/// Whether bytes are text, which a `&str` would have to be asked byte by byte: most are short, and ASCII.
#[inline]
pub(crate) fn is_utf8(bytes: &[u8]) -> bool {
    is_short_ascii(bytes) || is_any_utf8(bytes)
}

/// Zeros behind the bytes make them long enough for simdutf8, and end a character that is cut off.
fn is_any_utf8(bytes: &[u8]) -> bool {
    let mut block = [0; LONG];
    match block.get_mut(..bytes.len()) {
        Some(part) => {
            part.copy_from_slice(bytes);
            simdutf8::basic::from_utf8(&block).is_ok()
        }
        None => simdutf8::basic::from_utf8(bytes).is_ok(),
    }
}

/// Blocks of fixed length that overlap: their order does not matter.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let ends = u64::from_le_bytes(*first) | u64::from_le_bytes(*last);
        let between = if bytes.len() > 16 { bytes.as_chunks::<8>().0 } else { &[] };
        bytes.len() < LONG && between.iter().fold(ends, |all, block| all | u64::from_le_bytes(*block)) & HIGH == 0
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
    fn a_byte_that_is_no_text_is_found_at_every_place() {
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
