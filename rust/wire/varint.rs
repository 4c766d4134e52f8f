//! Varints of up to 64 bits, which protobuf and Avro share: seven bits in each byte, the lowest first.

/// Length of the longest varint: 64 bits take ten bytes, of which the last has one bit.
const MAX_LEN: usize = 10;

/// Reads a varint of any length. Returns it with its length; on an error, what is wrong with the bytes.
#[inline(never)]
pub(crate) fn varint(bytes: &[u8]) -> Result<(u64, usize), Invalid> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 && (index + 1 < MAX_LEN || byte <= 1) {
            return Ok((number, index + 1));
        }
    }
    Err(if bytes.len() < MAX_LEN { Invalid::Incomplete } else { Invalid::TooLong })
}

/// Why bytes are not a varint.
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
        assert_eq!(varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Ok((u64::MAX, 10)));
        assert_eq!(varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), Err(Invalid::TooLong));
        assert_eq!(varint(b"\x80\x80"), Err(Invalid::Incomplete));
        assert_eq!(varint(b""), Err(Invalid::Incomplete));
    }
}
