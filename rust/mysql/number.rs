//! Exact parsing of numbers: a value is parsed without loss, or rejected.

use arrow_buffer::i256;
use wide::bytemuck::cast;
use wide::{i16x8, u8x16};

use crate::wire::digits::{digit_lanes, non_digit_mask};

/// Reason why text is not the requested number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// The text is not a number of this kind.
    Type,
    /// The number is out of range.
    Range,
}

/// Parses an integer: an optional minus, then digits. Leading zeros (ZEROFILL) are allowed.
pub(crate) fn integer(text: &str) -> Result<i128, ParseError> {
    let (negative, digits) = sign(text.as_bytes());
    if digits.is_empty() {
        return Err(ParseError::Type);
    }
    let magnitude = parse_digits(digits)?;
    Ok(if negative { -magnitude } else { magnitude })
}

/// Parses an integer that fits 64 bits; `None` for all other text. Nearly every integer fits.
#[inline]
pub(crate) fn short_integer(text: &[u8]) -> Option<i64> {
    usual_whole_integer(text).or_else(|| by_window(text))
}

#[inline(never)]
fn by_window(text: &[u8]) -> Option<i64> {
    let (value, length) = integer_prefix(&window_of(text)?)?;
    (length == text.len()).then_some(value)
}

/// Parses a text of at most 15 digits, see [`usual_integer`].
#[inline(always)]
pub(crate) fn usual_whole_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, number) = sign(text);
    if !matches!(number.len(), 1..16) {
        return None;
    }
    let digits = digits_of(last_of_16(number)) & last_bytes(number.len())?;
    let are_digits = digits.min(u8x16::splat(9)).simd_eq(digits).to_bitmask() == 0xFFFF;
    let value = sixteen_digits(digits);
    are_digits.then_some(if is_negative { -value } else { value })
}

/// Returns a text of at most 16 bytes at the end of a block of zeros.
#[inline(always)]
fn last_of_16(text: &[u8]) -> u8x16 {
    debug_assert!(text.len() <= 16);
    u8x16::new((load_up_to_16(text).unbounded_shl(128 - 8 * text.len() as u32)).to_le_bytes())
}

/// Fixed-size parse buffer for a number, date or time, so that few reads need a bounds check. Zeros fill it after the
/// end of the text.
pub(crate) type Window = [u8; 32];

/// Copies text into a window padded with zeros; `None` if the text is longer. Copies overlapping blocks of fixed
/// length.
#[inline(always)]
pub(crate) fn window_of(text: &[u8]) -> Option<Window> {
    let mut window = [0; 32];
    let (low, high) = window.split_at_mut(16);
    let low: &mut [u8; 16] = low.first_chunk_mut()?;
    match text.len() {
        0..=16 => *low = load_up_to_16(text).to_le_bytes(),
        length @ 17..=32 => {
            *low = *text.first_chunk()?;
            high.copy_from_slice(
                &(u128::from_le_bytes(*text.last_chunk()?) >> (8 * (32 - length))).to_le_bytes(),
            );
        }
        _ => return None,
    }
    Some(window)
}

/// Returns up to 16 bytes as one little-endian integer.
#[inline(always)]
fn load_up_to_16(text: &[u8]) -> u128 {
    let bits = 8 * text.len();
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u128::from(u64::from_le_bytes(*first))
            | u128::from(u64::from_le_bytes(*last)) << (bits - 64)
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u128::from(
            u64::from(u32::from_le_bytes(*first))
                | u64::from(u32::from_le_bytes(*last)) << (bits - 32),
        )
    } else {
        let byte = |at: usize| text.get(at).map_or(0, |byte| u32::from(*byte) << (8 * at));
        u128::from(byte(0) | byte(1) | byte(2))
    }
}

/// Returns the first bytes of a text. Copies them to `at_end` if the text is shorter than a window.
#[inline(always)]
pub(crate) fn window_at<'t>(text: &'t [u8], at_end: &'t mut Window) -> &'t Window {
    match text.first_chunk() {
        Some(window) => window,
        None => {
            *at_end = padded_window(text);
            at_end
        }
    }
}

/// Copies the first bytes of a text, of any length, into a window padded with zeros.
#[cold]
#[inline(never)]
pub(crate) fn padded_window(text: &[u8]) -> Window {
    let mut window = [0; 32];
    window
        .iter_mut()
        .zip(text)
        .for_each(|(to, from)| *to = *from);
    window
}

/// Parses the integer at the start of the window: an optional minus, then the digits that 64 bits hold. Returns value
/// and length.
#[inline(always)]
pub(crate) fn integer_prefix(window: &Window) -> Option<(i64, usize)> {
    let minus = usize::from(window[0] == b'-');
    let (magnitude, count) = digits(window.get(minus..)?)?;
    if count == 0 {
        return None;
    }
    let value = i64::try_from(magnitude).ok()?;
    Some((if minus == 0 { value } else { -value }, minus + count))
}

/// Returns the window as four little-endian words.
#[inline(always)]
pub(crate) fn words(window: &Window) -> [u64; 4] {
    let (words, _) = window.as_chunks::<8>();
    let mut all = [0; 4];
    all.iter_mut()
        .zip(words)
        .for_each(|(to, from)| *to = u64::from_le_bytes(*from));
    all
}

/// Parses the leading digits, possibly none. Returns their value and count. `None` for more than 19 digits, the most
/// that 64 bits hold, or if fewer than eight bytes follow.
#[inline(always)]
pub(crate) fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    let (value, count) = eight_digits(*bytes.first_chunk()?);
    if count < 8 {
        Some((value, count))
    } else {
        digits_beyond_8(value, bytes.get(8..)?)
    }
}

/// Continues after the first eight digits.
#[inline]
fn digits_beyond_8(first: u64, bytes: &[u8]) -> Option<(u64, usize)> {
    let (second, count) = eight_digits(*bytes.first_chunk()?);
    let value = first * POWERS_OF_TEN.get(count)?.unsigned_abs() + second;
    if count < 8 {
        return Some((value, 8 + count));
    }
    let (third, count) = eight_digits(*bytes.get(8..)?.first_chunk()?);
    if count <= 3 {
        Some((
            value * POWERS_OF_TEN.get(count)?.unsigned_abs() + third,
            16 + count,
        ))
    } else {
        None
    }
}

/// Parses up to eight leading digits at once (SWAR: the bytes are the lanes of one integer).
#[inline(always)]
fn eight_digits(bytes: [u8; 8]) -> (u64, usize) {
    let lanes = digit_lanes(bytes);
    let count = (non_digit_mask(lanes).trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // Align the first digit with the most significant lane, with zeros before it.
    (combined(lanes << (64 - 8 * count)), count)
}

/// Parses one to seven digits as the first of eight digits, and fills the others with zeros. Returns the eight-digit
/// number, and the count of parsed digits.
#[inline(always)]
pub(crate) fn first_of_eight_digits(bytes: [u8; 8]) -> Option<(u32, usize)> {
    let lanes = digit_lanes(bytes);
    let count = (non_digit_mask(lanes).trailing_zeros() / 8) as usize;
    let is_short = matches!(count, 1..8);
    is_short.then(|| (combined(lanes & !(u64::MAX << (8 * count))) as u32, count))
}

/// Returns the number of eight digits. Combines adjacent lanes three times.
#[inline(always)]
fn combined(lanes: u64) -> u64 {
    let pairs = lanes.wrapping_mul(10).wrapping_add(lanes >> 8);
    let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

/// The 16 bytes before a text, and the first 32 bytes of it.
pub(crate) type Around = [u8; 48];

/// Start of the text in [`Around`].
pub(crate) const AROUND_START: usize = 16;

/// Returns the bytes around the text at `at`; `None` near an end.
#[inline(always)]
pub(crate) fn around(text: &[u8], at: usize) -> Option<&Around> {
    text.get(at.checked_sub(AROUND_START)?..)?.first_chunk()
}

/// Returns the text in [`Around`].
#[inline(always)]
pub(crate) fn text_of(around: &Around) -> &Window {
    let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, text @ ..] = around;
    text
}

/// Parses an integer of at most 15 digits. Nearly all integers are that short. Returns value and length.
///
/// It reads the digits as the last of 16. So neither the instructions nor the branches depend on the number of digits.
#[inline(always)]
pub(crate) fn usual_integer<const N: usize>(around: &[u8; N]) -> Option<(i64, usize)> {
    let minus = usize::from(around[AROUND_START] == b'-');
    let start = AROUND_START + minus;
    let count = non_digits(block(around, start)?).trailing_zeros() as usize;
    if !matches!(count, 1..16) {
        return None;
    }
    let value = sixteen_digits(digits_of(block(around, start + count - 16)?) & last_bytes(count)?);
    Some((if minus == 0 { value } else { -value }, minus + count))
}

/// Parses a decimal with a point and at most 15 bytes. Returns unscaled integer and length, see [`usual_integer`].
#[inline(always)]
pub(crate) fn usual_decimal(around: &Around, precision: u8, scale: u8) -> Option<(i64, usize)> {
    let minus = usize::from(around[AROUND_START] == b'-');
    let start = AROUND_START + minus;
    let non_digits = non_digits(block(around, start)?);
    let whole = non_digits.trailing_zeros() as usize;
    let end = (non_digits & (non_digits - 1)).trailing_zeros() as usize;
    if whole == 0 || end > 15 || around.get(start + whole) != Some(&b'.') {
        return None;
    }
    let ends = [
        block(around, start + end - 16)?,
        block(around, start + end - 17)?,
    ];
    let value = decimal_at_end(ends, (whole, end - whole - 1), precision, scale)?;
    Some((if minus == 0 { value } else { -value }, minus + end))
}

/// Returns the unscaled integer of a decimal. Its text ends with one block, and one byte after the other block. The
/// digits before the point come from the latter block, so that the point is not between the digits.
#[inline(always)]
fn decimal_at_end(
    [at_end, before_end]: [u8x16; 2],
    (whole, fraction): (usize, usize),
    precision: u8,
    scale: u8,
) -> Option<i64> {
    let scale = usize::from(scale);
    if fraction == 0 || whole + scale > 18 {
        return None;
    }
    let zeros = scale.checked_sub(fraction)?;
    let of_fraction = last_bytes(fraction)?;
    let of_whole = last_bytes(whole + fraction)? & !of_fraction;
    let value = sixteen_digits(digits_of(at_end) & of_fraction | digits_of(before_end) & of_whole)
        * POWERS_OF_TEN.get(zeros)?;
    fits(value, precision).then_some(value)
}

/// Parses a whole text as a decimal, see [`usual_decimal`].
#[inline(always)]
pub(crate) fn usual_whole_decimal(text: &[u8], precision: u8, scale: u8) -> Option<i64> {
    let (is_negative, number) = sign(text);
    if !matches!(number.len(), 3..16) {
        return None;
    }
    let before_end: u128 = load_up_to_16(number) << (128 - 8 * number.len());
    let ends = [before_end, before_end << 8].map(|block| u8x16::new(block.to_le_bytes()));
    let non_digits = non_digits(ends[0]) >> (16 - number.len());
    let whole = non_digits.trailing_zeros() as usize;
    // If the point is the only non-digit, the bit after the text remains.
    if whole == 0
        || number.get(whole) != Some(&b'.')
        || non_digits & (non_digits - 1) != 1 << number.len()
    {
        return None;
    }
    let value = decimal_at_end(ends, (whole, number.len() - whole - 1), precision, scale)?;
    Some(if is_negative { -value } else { value })
}

#[inline(always)]
fn block(around: &[u8], at: usize) -> Option<u8x16> {
    around
        .get(at..)?
        .first_chunk()
        .map(|block| u8x16::new(*block))
}

/// Returns the values of digits. Other bytes get arbitrary values.
#[inline(always)]
fn digits_of(block: u8x16) -> u8x16 {
    block - u8x16::splat(b'0')
}

/// Returns a bit mask of the bytes that are not digits. The bit after the last byte is set too.
#[inline(always)]
fn non_digits(block: u8x16) -> u32 {
    let digits = digits_of(block);
    digits.min(u8x16::splat(9)).simd_eq(digits).to_bitmask() ^ 0x1_FFFF
}

/// Returns a mask of the last bytes of 16.
#[inline(always)]
fn last_bytes(count: usize) -> Option<u8x16> {
    const ENDS: [u8; 32] = {
        let mut ends = [0; 32];
        ends.split_at_mut(16).1.copy_from_slice(&[u8::MAX; 16]);
        ends
    };
    ENDS.get(count..)?
        .first_chunk()
        .map(|mask| u8x16::new(*mask))
}

/// Returns the number of 16 digits. Combines adjacent lanes four times.
#[inline(always)]
fn sixteen_digits(digits: u8x16) -> i64 {
    let lanes: i16x8 = cast(digits);
    let (low, high) = (lanes & i16x8::splat(0xFF), lanes >> 8);
    let (tens, ones) = if cfg!(target_endian = "little") {
        (low, high)
    } else {
        (high, low)
    };
    let pairs: i16x8 = tens * i16x8::splat(10) + ones;
    let fours = pairs.dot(i16x8::new([100, 1, 100, 1, 100, 1, 100, 1]));
    let fours = i16x8::from_i32x8_saturate(cast([fours, fours]));
    let [high, low, ..]: [i32; 4] =
        cast(fours.dot(i16x8::new([10_000, 1, 10_000, 1, 10_000, 1, 10_000, 1])));
    i64::from(high) * 100_000_000 + i64::from(low)
}

#[inline(always)]
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    }
}

fn parse_digits(digits: &[u8]) -> Result<i128, ParseError> {
    let mut value = Some(0i128);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(ParseError::Type);
        }
        value = value.and_then(|v| v.checked_mul(10)?.checked_add(i128::from(digit)));
    }
    value.ok_or(ParseError::Range)
}

/// Unscaled integer of a decimal.
pub(crate) trait Unscaled: Copy {
    const ZERO: Self;
    /// Returns `self * 10 + digit`, if it does not overflow.
    fn push(self, digit: u8) -> Option<Self>;
    fn negate(self) -> Self;
}

impl Unscaled for i128 {
    const ZERO: Self = 0;
    #[inline]
    fn push(self, digit: u8) -> Option<Self> {
        self.checked_mul(10)?.checked_add(i128::from(digit))
    }
    fn negate(self) -> Self {
        -self
    }
}

impl Unscaled for i256 {
    const ZERO: Self = i256::ZERO;
    fn push(self, digit: u8) -> Option<Self> {
        self.checked_mul(i256::from_i128(10))?
            .checked_add(i256::from_i128(i128::from(digit)))
    }
    fn negate(self) -> Self {
        self.wrapping_neg()
    }
}

/// Parses a decimal's unscaled integer: the number times ten to the `scale`. Accepts plain or scientific text. Drops
/// zeros after the scale, and rejects other digits there.
#[inline]
pub(crate) fn decimal<T: Unscaled + FromI64>(
    text: &str,
    precision: u8,
    scale: i8,
) -> Result<T, ParseError> {
    match plain_decimal(text.as_bytes(), precision, scale) {
        Some(unscaled) => Ok(T::from_i64(unscaled)),
        None => decimal_fallback(text, precision, scale),
    }
}

/// Conversion from the integer type of the fast path.
pub(crate) trait FromI64 {
    fn from_i64(value: i64) -> Self;
}

impl FromI64 for i128 {
    fn from_i64(value: i64) -> Self {
        value.into()
    }
}

impl FromI64 for i256 {
    fn from_i64(value: i64) -> Self {
        i256::from_i128(value.into())
    }
}

/// Fast path for at most 18 digits in all, no exponent, and no more fraction digits than the scale.
#[inline]
fn plain_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i64> {
    let usual = u8::try_from(scale)
        .ok()
        .and_then(|scale| usual_whole_decimal(text, precision, scale));
    usual.or_else(|| decimal_by_window(text, precision, scale))
}

#[inline(never)]
fn decimal_by_window(text: &[u8], precision: u8, scale: i8) -> Option<i64> {
    let (value, length) = decimal_prefix(&window_of(text)?, precision, scale)?;
    (length == text.len()).then_some(value)
}

/// Parses the decimal of the fast path's form at the start of the window. Returns unscaled integer and length.
#[inline(always)]
pub(crate) fn decimal_prefix(window: &Window, precision: u8, scale: i8) -> Option<(i64, usize)> {
    let minus = usize::from(window[0] == b'-');
    let unsigned = window.get(minus..)?;
    let scale = usize::try_from(scale).ok()?;
    let (whole, whole_digits) = digits(unsigned).filter(|(_, count)| *count > 0)?;
    let (fraction, fraction_digits) = match unsigned.get(whole_digits) {
        Some(b'.') => digits(unsigned.get(whole_digits + 1..)?).filter(|(_, count)| *count > 0)?,
        _ => (0, 0),
    };
    if whole_digits + scale > 18 {
        return None;
    }
    let zeros = scale.checked_sub(fraction_digits)?;
    let value =
        whole as i64 * POWERS_OF_TEN.get(scale)? + fraction as i64 * POWERS_OF_TEN.get(zeros)?;
    if POWERS_OF_TEN
        .get(usize::from(precision))
        .is_some_and(|limit| value >= *limit)
    {
        return None;
    }
    let length = minus
        + whole_digits
        + if fraction_digits > 0 {
            1 + fraction_digits
        } else {
            0
        };
    Some((if minus == 0 { value } else { -value }, length))
}

/// Returns whether a number has no more digits than the precision.
#[inline]
pub(crate) fn fits(number: i64, precision: u8) -> bool {
    POWERS_OF_TEN
        .get(usize::from(precision))
        .is_none_or(|limit| number.unsigned_abs() < limit.unsigned_abs())
}

// The compiler evaluates it. An index out of bounds is a compile error.
#[allow(clippy::indexing_slicing)]
const POWERS_OF_TEN: [i64; 19] = {
    let mut powers = [1; 19];
    let mut n = 1;
    while n < 19 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

fn decimal_fallback<T: Unscaled>(text: &str, precision: u8, scale: i8) -> Result<T, ParseError> {
    let (negative, number) = sign(text.as_bytes());
    let (mantissa, power) = split_once(number, |b| matches!(b, b'e' | b'E'));
    let exponent = power.map_or(Ok(0), exponent)?;
    let (whole, fraction) = split_once(mantissa, |b| *b == b'.');
    for part in std::iter::once(whole).chain(fraction) {
        if part.is_empty() || !part.iter().all(u8::is_ascii_digit) {
            return Err(ParseError::Type);
        }
    }
    let digits = || {
        whole
            .iter()
            .chain(fraction.unwrap_or_default())
            .map(|b| b - b'0')
            .skip_while(|d| *d == 0)
    };
    let count = digits().count() as i64;
    // Digits that remain in the unscaled integer.
    let kept = count - fraction.map_or(0, |part| part.len() as i64) + exponent + i64::from(scale);
    if count == 0 {
        return Ok(T::ZERO);
    }
    if digits()
        .skip(usize::try_from(kept).unwrap_or(0))
        .any(|d| d != 0)
        || kept > i64::from(precision)
    {
        return Err(ParseError::Range);
    }
    let kept = usize::try_from(kept).unwrap_or(0);
    let mut padded = digits().chain(std::iter::repeat(0)).take(kept);
    let unscaled = padded.try_fold(T::ZERO, T::push).ok_or(ParseError::Range)?;
    Ok(if negative {
        unscaled.negate()
    } else {
        unscaled
    })
}

/// Splits bytes at the first separator, which neither part has.
#[allow(clippy::indexing_slicing, reason = "the separator is in the bytes")]
fn split_once(bytes: &[u8], is_separator: fn(&u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(is_separator) {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    }
}

/// Parses an exponent, clamped to a bound that is out of range for every decimal.
fn exponent(text: &[u8]) -> Result<i64, ParseError> {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let (negative, digits) = sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ParseError::Type);
    }
    let magnitude = parse_digits(digits)
        .map_or(i64::MAX, |v| i64::try_from(v).unwrap_or(i64::MAX))
        .min(1 << 32);
    Ok(if negative { -magnitude } else { magnitude })
}

/// Returns a decimal's text without its exponent, in MySQL's format. `None` if it has no exponent, or one that no
/// decimal can have.
pub(crate) fn without_exponent(text: &str) -> Option<String> {
    /// Far beyond MySQL's 65 digits, and small enough to bound the allocation.
    const MAX_ZEROS: usize = 400;
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut digits = whole.bytes().chain(fraction.bytes());
    if whole.is_empty() || !digits.all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = (fraction.len() as i64).checked_sub(exponent.parse().ok()?)?;
    let zeros = usize::try_from(scale.unsigned_abs())
        .ok()
        .filter(|zeros| *zeros <= MAX_ZEROS)?;
    if scale > 0 {
        let padded = format!(
            "{:0>width$}",
            format!("{whole}{fraction}"),
            width = zeros + 1
        );
        let (whole, fraction) = padded.split_at_checked(padded.len() - zeros)?;
        return Some(format!("{sign}{whole}.{fraction}"));
    }
    let padded = format!("{whole}{fraction}{:0<zeros$}", "");
    let digits = padded.trim_start_matches('0');
    Some(format!(
        "{sign}{}",
        if digits.is_empty() { "0" } else { digits }
    ))
}

/// Prints a decimal with `scale` fraction digits.
pub(crate) fn print_scaled(unscaled: i64, scale: u32) -> String {
    let scale = scale as usize;
    if scale == 0 {
        return unscaled.to_string();
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Returns the shortest text that round-trips a float or double, in MySQL's format: with an exponent if plain text
/// would be long.
pub(crate) fn print_float<T: std::fmt::Display + std::fmt::LowerExp + Into<f64> + Copy>(
    value: T,
) -> String {
    let magnitude = value.into().abs();
    if magnitude == 0.0 || (1e-5..1e15).contains(&magnitude) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

/// Parses the nearest float or double. MySQL has neither infinity nor NaN, so text beyond the largest number is out of
/// range.
#[inline]
pub(crate) fn float<T: std::str::FromStr + Into<f64> + Copy>(text: &str) -> Result<T, ParseError> {
    let (_, number) = sign(text.as_bytes());
    let has_digit_ends = number.first().is_some_and(u8::is_ascii_digit)
        && number.last().is_some_and(u8::is_ascii_digit);
    let value: T = match text.parse() {
        Ok(value) if has_digit_ends => value,
        _ => return Err(ParseError::Type),
    };
    if value.into().is_finite() {
        Ok(value)
    } else {
        Err(ParseError::Range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_printed_with_their_scale() {
        for (unscaled, scale, text) in [
            (1250, 2, "12.50"),
            (-5, 3, "-0.005"),
            (7, 0, "7"),
            (0, 1, "0.0"),
            (i64::MIN, 18, "-9.223372036854775808"),
        ] {
            assert_eq!(print_scaled(unscaled, scale), text);
        }
    }

    #[test]
    fn exponents_of_any_size() {
        assert_eq!(without_exponent("1.5e3").as_deref(), Some("1500"));
        assert_eq!(without_exponent("-15E-3").as_deref(), Some("-0.015"));
        for beyond in [
            "1e401",
            "1e-402",
            "1e-9223372036854775808",
            "1e9223372036854775807",
            "1e99999999999999999999",
        ] {
            assert_eq!(without_exponent(beyond), None, "{beyond}");
        }
    }

    #[test]
    fn window_is_text_padded_with_zeros() {
        let text: Vec<u8> = (1..=40).collect();
        for length in 0..=32 {
            let mut expected = [0; 32];
            expected[..length].copy_from_slice(&text[..length]);
            assert_eq!(window_of(&text[..length]), Some(expected), "{length}");
        }
        assert_eq!(window_of(&text[..33]), None);
    }

    #[test]
    fn integers_are_exact_or_rejected() {
        let cases: [(&str, Result<i128, ParseError>); 15] = [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("00", Ok(0)),
            ("0000000042", Ok(42)),
            ("-9223372036854775808", Ok(i64::MIN.into())),
            ("18446744073709551615", Ok(u64::MAX.into())),
            (
                "170141183460469231731687303715884105728",
                Err(ParseError::Range),
            ),
            ("+1", Err(ParseError::Type)),
            ("1e3", Err(ParseError::Type)),
            (" 1", Err(ParseError::Type)),
            ("1.0", Err(ParseError::Type)),
            ("", Err(ParseError::Type)),
            ("-", Err(ParseError::Type)),
            ("１", Err(ParseError::Type)),
            (
                "999999999999999999999999999999999999999999x",
                Err(ParseError::Type),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(integer(text), expected, "{text:?}");
            assert!(
                short_integer(text.as_bytes())
                    .is_none_or(|short| Ok(i128::from(short)) == expected),
                "{text:?}"
            );
        }
    }

    #[test]
    fn decimals_are_exact_or_rejected() {
        let cases: [(&str, u8, i8, Result<i128, ParseError>); 22] = [
            ("12.50", 10, 2, Ok(1250)),
            ("12.5", 10, 2, Ok(1250)),
            ("-12", 10, 2, Ok(-1200)),
            ("12.500", 10, 2, Ok(1250)),
            ("12.505", 10, 2, Err(ParseError::Range)),
            ("99999999.99", 10, 2, Ok(9_999_999_999)),
            ("100000000.00", 10, 2, Err(ParseError::Range)),
            ("1E+3", 10, 2, Ok(100_000)),
            ("1.25e-1", 10, 3, Ok(125)),
            ("1.25e-1", 10, 2, Err(ParseError::Range)),
            ("0e999999999999999999999", 10, 2, Ok(0)),
            ("1e999999999999999999999", 10, 2, Err(ParseError::Range)),
            ("1e-999999999999999999999", 10, 2, Err(ParseError::Range)),
            ("-0.00", 10, 2, Ok(0)),
            (
                "99999999999999999999999999999999999999",
                38,
                0,
                Ok(10i128.pow(38) - 1),
            ),
            (
                "100000000000000000000000000000000000000",
                38,
                0,
                Err(ParseError::Range),
            ),
            ("12,50", 10, 2, Err(ParseError::Type)),
            ("1.", 10, 2, Err(ParseError::Type)),
            (".5", 10, 2, Err(ParseError::Type)),
            ("+1", 10, 2, Err(ParseError::Type)),
            ("1e", 10, 2, Err(ParseError::Type)),
            ("", 10, 2, Err(ParseError::Type)),
        ];
        for (text, precision, scale, expected) in cases {
            assert_eq!(
                decimal::<i128>(text, precision, scale),
                expected,
                "{text:?} as decimal({precision},{scale})"
            );
        }
        let widest = "9".repeat(76);
        assert!(decimal::<i256>(&widest, 76, 0).is_ok());
        assert_eq!(
            decimal::<i256>(&format!("{widest}9"), 76, 0),
            Err(ParseError::Range)
        );
    }

    /// Returns a text after other digits, which messages do not have.
    fn around(text: &str) -> Around {
        let mut around = [b'7'; 48];
        around[AROUND_START..].fill(b',');
        around[AROUND_START..][..text.len()].copy_from_slice(text.as_bytes());
        around
    }

    #[test]
    fn usual_numbers_are_those_of_their_prefixes() {
        let digits = "12345678901234567";
        let integers = (0..=17).flat_map(|count| {
            ["", "-", "0", "+"].map(|sign| format!("{sign}{}", &digits[..count]))
        });
        for text in integers.chain(["-0", "000", "1x2", "9".repeat(15).as_str()].map(String::from))
        {
            let usual = usual_integer(&around(&text));
            let is_usual = text.trim_start_matches('-').len() < 16;
            let prefix = integer_prefix(&window_of(text.as_bytes()).unwrap());
            assert_eq!(usual, if is_usual { prefix } else { None }, "{text}");
            let whole = prefix
                .filter(|(_, length)| *length == text.len())
                .map(|(value, _)| value);
            assert_eq!(
                (
                    usual_whole_integer(text.as_bytes()),
                    short_integer(text.as_bytes())
                ),
                (if is_usual { whole } else { None }, whole),
                "{text}"
            );
        }
        for (whole, fraction, scale) in (0..=14).flat_map(|whole| {
            (0..=14).flat_map(move |f| [0, 2, 4, 14].map(|scale| (whole, f, scale)))
        }) {
            for sign in ["", "-", "--"] {
                let text = format!("{sign}{}.{}", &digits[..whole], &digits[2..][..fraction]);
                let usual = usual_decimal(&around(&text), 18, scale);
                let is_usual = whole > 0 && fraction > 0 && whole + fraction < 15;
                let prefix = decimal_prefix(&window_of(text.as_bytes()).unwrap(), 18, scale as i8);
                let prefix = if is_usual { prefix } else { None };
                assert_eq!(usual, prefix, "{text}");
                let value = prefix.map(|(value, _)| value);
                assert_eq!(
                    usual_whole_decimal(text.as_bytes(), 18, scale),
                    value,
                    "{text}"
                );
            }
        }
        assert_eq!(usual_decimal(&around("99.99"), 4, 2), Some((9999, 5)));
        assert_eq!(usual_decimal(&around("100.00"), 4, 2), None);
        assert_eq!(usual_decimal(&around("1.2.3"), 4, 2), Some((120, 3)));
        assert_eq!(
            ["1.2.3", "1.2x", "x1.2", "1x2", "1.", ".12"].map(|text| usual_whole_decimal(
                text.as_bytes(),
                4,
                2
            )),
            [None; 6]
        );
    }

    #[test]
    fn decimal_fast_path_agrees_with_fallback() {
        for text in [
            "0",
            "7.1",
            "-0.01",
            "123456789012.3456",
            "000.10",
            "5.00",
            "-99999999999999.9",
        ] {
            for scale in [0, 1, 2, 4] {
                if let Some(fast) = plain_decimal(text.as_bytes(), 18, scale) {
                    assert_eq!(
                        Ok(i128::from(fast)),
                        decimal_fallback(text, 18, scale),
                        "{text} {scale}"
                    );
                }
            }
        }
    }

    #[test]
    fn exponents_are_expanded() {
        let cases = [
            ("1E+3", "1000"),
            ("-1.5e-7", "-0.00000015"),
            ("0E-10", "0.0000000000"),
            ("0E3", "0"),
            ("12.34E1", "123.4"),
        ];
        for (text, plain) in cases {
            assert_eq!(without_exponent(text).as_deref(), Some(plain), "{text}");
        }
        for text in ["12.5", "1e1000", "e", "1e", "1ex"] {
            assert_eq!(without_exponent(text), None, "{text}");
        }
    }

    #[test]
    fn floats_are_printed_as_mysql_does() {
        let doubles = [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1.5e-6, "1.5e-6"),
            (5e-324, "5e-324"),
        ];
        for (value, text) in doubles {
            assert_eq!(print_float::<f64>(value), text);
        }
        assert_eq!(
            (print_float(0.1f32), print_float(f64::from(0.1f32))),
            ("0.1".into(), "0.10000000149011612".into())
        );
    }

    #[test]
    fn floats_are_nearest_or_rejected() {
        assert_eq!(float::<f32>("3.40282347E38"), Ok(f32::MAX));
        assert_eq!(float::<f64>("4.9E-324"), Ok(5e-324));
        assert_eq!(float::<f32>("1e39"), Err(ParseError::Range));
        for text in ["inf", "NaN", "+1", "1.", ".5", "", "-", "1,5", " 1", "0x10"] {
            assert_eq!(float::<f64>(text), Err(ParseError::Type), "{text:?}");
        }
    }
}
