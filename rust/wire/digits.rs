//! Digits as lanes of one integer (SWAR).

/// Counts the leading digits.
#[inline]
pub(crate) fn count_digits(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<8>();
    for (at, block) in blocks.iter().enumerate() {
        let non_digits = non_digit_mask(digit_lanes(*block));
        if non_digits != 0 {
            return at * 8 + (non_digits.trailing_zeros() / 8) as usize;
        }
    }
    let read = blocks.len() * 8;
    read + bytes
        .iter()
        .skip(read)
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// Loads the bytes as the lanes of one integer. Digits become their values.
#[inline(always)]
pub(crate) fn digit_lanes(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030
}

/// Sets the highest bit of each lane above 9. The lowest set bit is exact. Carries may corrupt the lanes above it.
#[inline(always)]
pub(crate) fn non_digit_mask(lanes: u64) -> u64 {
    (lanes.wrapping_add(0x7676_7676_7676_7676) | lanes) & 0x8080_8080_8080_8080
}
