//! Varints of up to 64 bits, which protobuf and Avro share: seven bits in each byte, the lowest first.

/// Length of the longest varint: 64 bits take ten bytes. The last byte has one bit.
const MAX_LEN: usize = 10;

/// Reads a varint of any length. Returns it with its length, or what is wrong with the bytes.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Result<(u64, usize), Invalid> {
    bytes
        .first_chunk()
        .and_then(|block| up_to_8_bytes(*block))
        .map_or_else(|| any_varint(bytes), Ok)
}

/// Reads a varint of at most eight bytes as lanes of one integer.
#[inline]
fn up_to_8_bytes(block: [u8; 8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(block);
    let last_bit = (!word & 0x8080_8080_8080_8080).trailing_zeros();
    let lanes =
        word & 0x7F7F_7F7F_7F7F_7F7F & u64::MAX.checked_shr(63u32.checked_sub(last_bit)?)?;
    let pairs = lanes & 0x007F_007F_007F_007F | (lanes & 0x7F00_7F00_7F00_7F00) >> 1;
    let quads = pairs & 0x0000_3FFF_0000_3FFF | (pairs & 0x3FFF_0000_3FFF_0000) >> 2;
    Some((
        quads & 0x0FFF_FFFF | (quads & 0x0FFF_FFFF_0000_0000) >> 4,
        last_bit as usize / 8 + 1,
    ))
}

#[inline(never)]
fn any_varint(bytes: &[u8]) -> Result<(u64, usize), Invalid> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 && (index + 1 < MAX_LEN || byte <= 1) {
            return Ok((number, index + 1));
        }
    }
    Err(if bytes.len() < MAX_LEN {
        Invalid::Incomplete
    } else {
        Invalid::TooLong
    })
}

/// Reason why bytes are not a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// The bytes end within it.
    Incomplete,
    /// It has more than 64 bits.
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_limits() {
        assert_eq!(varint(b"\x00"), Ok((0, 1)));
        assert_eq!(varint(b"\xac\x02rest"), Ok((300, 2)));
        for bits in 0..64 {
            for number in [
                1u64 << bits,
                u64::MAX >> bits,
                0x5A5A_5A5A_5A5A_5A5A >> bits,
            ] {
                let length = (64 - number.leading_zeros()).div_ceil(7).max(1) as usize;
                let byte = |at: usize| {
                    (number >> (7 * at)) as u8 & 0x7F | if at + 1 < length { 0x80 } else { 0 }
                };
                let bytes: Vec<u8> = (0..length).map(byte).chain([0xFF; 9]).collect();
                assert_eq!(varint(&bytes), Ok((number, length)), "{number:#x}");
                assert_eq!(
                    varint(&bytes[..length]),
                    Ok((number, length)),
                    "{number:#x} at the end"
                );
            }
        }
        assert_eq!(
            varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            Ok((u64::MAX, 10))
        );
        assert_eq!(
            varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
            Err(Invalid::TooLong)
        );
        assert_eq!(varint(b"\x80\x80"), Err(Invalid::Incomplete));
        assert_eq!(varint(b""), Err(Invalid::Incomplete));
    }
}
