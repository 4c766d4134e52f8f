//! Numbers from text, exactly or not at all.

use arrow_buffer::i256;

/// Why a text is not the number that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no number of this kind.
    Type,
    /// It is one that does not fit.
    Range,
}

/// An integer: an optional minus, then digits. Leading zeros (ZEROFILL) are fine.
pub(crate) fn integer(text: &str) -> Result<i128, Refusal> {
    let (negative, digits) = sign(text.as_bytes());
    if digits.is_empty() {
        return Err(Refusal::Type);
    }
    let magnitude = long(digits)?;
    Ok(if negative { -magnitude } else { magnitude })
}

/// An integer that fits 64 bits, which is nearly every one; `None` for all other text.
#[inline]
pub(crate) fn short_integer(text: &str) -> Option<i64> {
    let (value, length) = integer_prefix(&window_of(text.as_bytes())?)?;
    (length == text.len()).then_some(value)
}

/// What a number, a date or a time is read from: a fixed length, so that few reads are checked against it. Zeros stand for what is
/// behind the end of the text.
pub(crate) type Window = [u8; 32];

/// All of a text, with zeros behind it; `None` if it is longer than a window. Blocks of fixed length are copied, which overlap.
#[inline(always)]
pub(crate) fn window_of(text: &[u8]) -> Option<Window> {
    let mut window = [0; 32];
    let (low, high) = window.split_at_mut(16);
    let low: &mut [u8; 16] = low.first_chunk_mut()?;
    match text.len() {
        0..=16 => *low = short(text).to_le_bytes(),
        length @ 17..=32 => {
            *low = *text.first_chunk()?;
            high.copy_from_slice(&(u128::from_le_bytes(*text.last_chunk()?) >> (8 * (32 - length))).to_le_bytes());
        }
        _ => return None,
    }
    Some(window)
}

/// Up to 16 bytes as one number.
#[inline(always)]
fn short(text: &[u8]) -> u128 {
    let behind = 8 * text.len();
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << (behind - 64)
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u128::from(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (behind - 32))
    } else {
        text.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

/// The first bytes of a text, which are copied to `at_end` if there are not enough for a window.
#[inline(always)]
pub(crate) fn window_at<'t>(text: &'t [u8], at_end: &'t mut Window) -> &'t Window {
    match text.first_chunk() {
        Some(window) => window,
        None => {
            *at_end = window_at_end(text);
            at_end
        }
    }
}

/// The beginning of a text that is shorter than a window, or longer.
#[cold]
#[inline(never)]
pub(crate) fn window_at_end(text: &[u8]) -> Window {
    let mut window = [0; 32];
    window.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    window
}

/// The integer that a text begins with, and its length: an optional minus, then as many digits as 64 bits hold.
#[inline(always)]
pub(crate) fn integer_prefix(window: &Window) -> Option<(i64, usize)> {
    let minus = usize::from(window[0] == b'-');
    let (magnitude, count) = digits(window.get(minus..)?)?;
    let value = i64::try_from(magnitude).ok().filter(|_| count > 0)?;
    Some((if minus == 0 { value } else { -value }, minus + count))
}

/// The digits that bytes begin with, which may be none: their value, and how many they are. `None` for more than 19, the most that
/// 64 bits hold, or where fewer than eight bytes follow.
#[inline(always)]
pub(crate) fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    let (value, count) = eight_digits(*bytes.first_chunk()?);
    if count < 8 { Some((value, count)) } else { more_digits(value, bytes.get(8..)?) }
}

/// The digits that bytes begin with and how many they are, if they are at most 16: a time in microseconds has as many.
#[inline(always)]
pub(crate) fn up_to_16_digits(bytes: &[u8; 17]) -> Option<(u64, usize)> {
    let (value, count) = eight_digits(*bytes.first_chunk()?);
    if count < 8 {
        return Some((value, count));
    }
    let (rest, count) = eight_digits(*bytes.get(8..)?.first_chunk()?);
    if bytes[16].is_ascii_digit() && count == 8 {
        return None;
    }
    Some((value * POWERS.get(count)?.unsigned_abs() + rest, 8 + count))
}

/// How many digits bytes begin with.
#[inline]
pub(crate) fn count_digits(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<8>();
    for (at, block) in blocks.iter().enumerate() {
        let others = not_digits(digit_lanes(*block));
        if others != 0 {
            return at * 8 + (others.trailing_zeros() / 8) as usize;
        }
    }
    let read = blocks.len() * 8;
    read + bytes.iter().skip(read).take_while(|byte| byte.is_ascii_digit()).count()
}

/// The bytes as the lanes of one integer, digits as their values.
#[inline(always)]
fn digit_lanes(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030
}

/// The highest bit of each lane that is beyond 9; the lowest of them is right whatever the lanes above carry.
#[inline(always)]
fn not_digits(lanes: u64) -> u64 {
    (lanes.wrapping_add(0x7676_7676_7676_7676) | lanes) & 0x8080_8080_8080_8080
}

/// What follows the first eight digits.
#[inline]
fn more_digits(first: u64, bytes: &[u8]) -> Option<(u64, usize)> {
    let (second, count) = eight_digits(*bytes.first_chunk()?);
    let value = first * POWERS.get(count)?.unsigned_abs() + second;
    if count < 8 {
        return Some((value, 8 + count));
    }
    let (third, count) = eight_digits(*bytes.get(8..)?.first_chunk()?);
    if count <= 3 { Some((value * POWERS.get(count)?.unsigned_abs() + third, 16 + count)) } else { None }
}

/// Up to eight digits at once: the bytes are the lanes of one integer.
#[inline(always)]
fn eight_digits(bytes: [u8; 8]) -> (u64, usize) {
    let lanes = digit_lanes(bytes);
    let count = (not_digits(lanes).trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // The first digit goes to the lane that counts most, zeros before it; then neighbours are joined, thrice.
    let lanes = lanes << (64 - 8 * count);
    let pairs = lanes.wrapping_mul(10).wrapping_add(lanes >> 8);
    let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    (low.wrapping_add(high) >> 32, count)
}

#[inline(always)]
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    }
}

fn long(digits: &[u8]) -> Result<i128, Refusal> {
    let mut value = Some(0i128);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Refusal::Type);
        }
        value = value.and_then(|v| v.checked_mul(10)?.checked_add(i128::from(digit)));
    }
    value.ok_or(Refusal::Range)
}

/// What a decimal's digits are gathered in.
pub(crate) trait Unscaled: Copy {
    const ZERO: Self;
    /// `self * 10 + digit`, if that can be held.
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
        self.checked_mul(i256::from_i128(10))?.checked_add(i256::from_i128(i128::from(digit)))
    }
    fn negate(self) -> Self {
        self.wrapping_neg()
    }
}

/// A decimal's unscaled value: the number times ten to the `scale`. Plain or scientific text; zeros past the scale are
/// dropped, other digits there are refused.
#[inline]
pub(crate) fn decimal<T: Unscaled + From64>(text: &str, precision: u8, scale: i8) -> Result<T, Refusal> {
    match plain_decimal(text.as_bytes(), precision, scale) {
        Some(unscaled) => Ok(T::from_i64(unscaled)),
        None => any_decimal(text, precision, scale),
    }
}

/// Widening from what the fast path computes in.
pub(crate) trait From64 {
    fn from_i64(value: i64) -> Self;
}

impl From64 for i128 {
    fn from_i64(value: i64) -> Self {
        value.into()
    }
}

impl From64 for i256 {
    fn from_i64(value: i64) -> Self {
        i256::from_i128(value.into())
    }
}

/// The usual form: at most 18 digits in all, no exponent, not more fraction digits than the scale.
#[inline]
fn plain_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i64> {
    let (value, length) = decimal_prefix(&window_of(text)?, precision, scale)?;
    (length == text.len()).then_some(value)
}

/// The decimal of the usual form that a text begins with, and its length.
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
    let value = whole as i64 * POWERS.get(scale)? + fraction as i64 * POWERS.get(zeros)?;
    if POWERS.get(usize::from(precision)).is_some_and(|limit| value >= *limit) {
        return None;
    }
    let length = minus + whole_digits + if fraction_digits > 0 { 1 + fraction_digits } else { 0 };
    Some((if minus == 0 { value } else { -value }, length))
}

/// Whether a number has no more digits than the precision.
pub(crate) fn fits(number: i64, precision: u8) -> bool {
    POWERS.get(usize::from(precision)).is_none_or(|limit| number.unsigned_abs() < limit.unsigned_abs())
}

const POWERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut n = 1;
    while n < 19 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

fn any_decimal<T: Unscaled>(text: &str, precision: u8, scale: i8) -> Result<T, Refusal> {
    let (negative, number) = sign(text.as_bytes());
    let (mantissa, exponent) = match number.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (number.get(..at).unwrap_or_default(), exponent(number.get(at + 1..).unwrap_or_default())?),
        None => (number, 0),
    };
    let point = mantissa.iter().position(|b| *b == b'.');
    let whole = mantissa.get(..point.unwrap_or(mantissa.len())).unwrap_or_default();
    let fraction = point.map(|at| mantissa.get(at + 1..).unwrap_or_default());
    let all_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if !all_digits(whole) || fraction.is_some_and(|part| !all_digits(part)) {
        return Err(Refusal::Type);
    }
    let digits = || whole.iter().chain(fraction.unwrap_or_default()).map(|b| b - b'0').skip_while(|d| *d == 0);
    let count = digits().count() as i64;
    // How many of the digits are left of the scaled number's end.
    let kept = count - fraction.map_or(0, |part| part.len() as i64) + exponent + i64::from(scale);
    if count == 0 {
        return Ok(T::ZERO);
    }
    if digits().skip(usize::try_from(kept).unwrap_or(0)).any(|d| d != 0) || kept > i64::from(precision) {
        return Err(Refusal::Range);
    }
    let kept = usize::try_from(kept).unwrap_or(0);
    let mut padded = digits().chain(std::iter::repeat(0)).take(kept);
    let unscaled = padded.try_fold(T::ZERO, T::push).ok_or(Refusal::Range)?;
    Ok(if negative { unscaled.negate() } else { unscaled })
}

/// An exponent; one beyond any decimal's reach is held at a bound, where it is out of range anyway.
fn exponent(text: &[u8]) -> Result<i64, Refusal> {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let (negative, digits) = sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::Type);
    }
    let magnitude = long(digits).map_or(i64::MAX, |v| i64::try_from(v).unwrap_or(i64::MAX)).min(1 << 32);
    Ok(if negative { -magnitude } else { magnitude })
}

/// A decimal's text without its exponent, as MySQL prints it; none where it has no exponent, or one that no decimal can have.
pub(crate) fn plain_text(text: &str) -> Option<String> {
    /// Far beyond MySQL's 65 digits, and short of what would take much memory.
    const MOST: usize = 400;
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit());
    let scale = fraction.len() as i64 - exponent.parse::<i64>().ok().filter(|_| is_number)?;
    let zeros = usize::try_from(scale.unsigned_abs()).ok().filter(|zeros| *zeros <= MOST)?;
    if scale > 0 {
        let padded = format!("{:0>width$}", format!("{whole}{fraction}"), width = zeros + 1);
        let (whole, fraction) = padded.split_at_checked(padded.len() - zeros)?;
        return Some(format!("{sign}{whole}.{fraction}"));
    }
    let padded = format!("{whole}{fraction}{:0<zeros$}", "");
    let digits = padded.trim_start_matches('0');
    Some(format!("{sign}{}", if digits.is_empty() { "0" } else { digits }))
}

/// The shortest text that stands for a float or double, as MySQL prints it: with an exponent where it would be long.
pub(crate) fn print_float<T: std::fmt::Display + std::fmt::LowerExp + Into<f64> + Copy>(value: T) -> String {
    let magnitude = value.into().abs();
    if magnitude == 0.0 || (1e-5..1e15).contains(&magnitude) { format!("{value}") } else { format!("{value:e}") }
}

/// The nearest float or double. MySQL has neither infinity nor NaN, so text beyond the largest is out of range.
#[inline]
pub(crate) fn float<T: std::str::FromStr + Into<f64> + Copy>(text: &str) -> Result<T, Refusal> {
    let (_, number) = sign(text.as_bytes());
    let looks_right = number.first().is_some_and(u8::is_ascii_digit) && number.last().is_some_and(u8::is_ascii_digit);
    let value: T = text.parse().ok().filter(|_| looks_right).ok_or(Refusal::Type)?;
    if value.into().is_finite() { Ok(value) } else { Err(Refusal::Range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_text_and_zeros() {
        let text: Vec<u8> = (1..=40).collect();
        for length in 0..=32 {
            let mut expected = [0; 32];
            expected[..length].copy_from_slice(&text[..length]);
            assert_eq!(window_of(&text[..length]), Some(expected), "{length}");
        }
        assert_eq!(window_of(&text[..33]), None);
    }

    #[test]
    fn integers_are_exact_or_refused() {
        let cases: [(&str, Result<i128, Refusal>); 15] = [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("00", Ok(0)),
            ("0000000042", Ok(42)),
            ("-9223372036854775808", Ok(i64::MIN.into())),
            ("18446744073709551615", Ok(u64::MAX.into())),
            ("170141183460469231731687303715884105728", Err(Refusal::Range)),
            ("+1", Err(Refusal::Type)),
            ("1e3", Err(Refusal::Type)),
            (" 1", Err(Refusal::Type)),
            ("1.0", Err(Refusal::Type)),
            ("", Err(Refusal::Type)),
            ("-", Err(Refusal::Type)),
            ("１", Err(Refusal::Type)),
            ("999999999999999999999999999999999999999999x", Err(Refusal::Type)),
        ];
        for (text, expected) in cases {
            assert_eq!(integer(text), expected, "{text:?}");
            assert!(short_integer(text).is_none_or(|short| Ok(i128::from(short)) == expected), "{text:?}");
        }
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        let cases: [(&str, u8, i8, Result<i128, Refusal>); 22] = [
            ("12.50", 10, 2, Ok(1250)),
            ("12.5", 10, 2, Ok(1250)),
            ("-12", 10, 2, Ok(-1200)),
            ("12.500", 10, 2, Ok(1250)),
            ("12.505", 10, 2, Err(Refusal::Range)),
            ("99999999.99", 10, 2, Ok(9_999_999_999)),
            ("100000000.00", 10, 2, Err(Refusal::Range)),
            ("1E+3", 10, 2, Ok(100_000)),
            ("1.25e-1", 10, 3, Ok(125)),
            ("1.25e-1", 10, 2, Err(Refusal::Range)),
            ("0e999999999999999999999", 10, 2, Ok(0)),
            ("1e999999999999999999999", 10, 2, Err(Refusal::Range)),
            ("1e-999999999999999999999", 10, 2, Err(Refusal::Range)),
            ("-0.00", 10, 2, Ok(0)),
            ("99999999999999999999999999999999999999", 38, 0, Ok(10i128.pow(38) - 1)),
            ("100000000000000000000000000000000000000", 38, 0, Err(Refusal::Range)),
            ("12,50", 10, 2, Err(Refusal::Type)),
            ("1.", 10, 2, Err(Refusal::Type)),
            (".5", 10, 2, Err(Refusal::Type)),
            ("+1", 10, 2, Err(Refusal::Type)),
            ("1e", 10, 2, Err(Refusal::Type)),
            ("", 10, 2, Err(Refusal::Type)),
        ];
        for (text, precision, scale, expected) in cases {
            assert_eq!(decimal::<i128>(text, precision, scale), expected, "{text:?} as decimal({precision},{scale})");
        }
        let widest = "9".repeat(76);
        assert!(decimal::<i256>(&widest, 76, 0).is_ok());
        assert_eq!(decimal::<i256>(&format!("{widest}9"), 76, 0), Err(Refusal::Range));
    }

    #[test]
    fn the_fast_path_of_decimals_agrees_with_the_general_one() {
        for text in ["0", "7.1", "-0.01", "123456789012.3456", "000.10", "5.00", "-99999999999999.9"] {
            for scale in [0, 1, 2, 4] {
                if let Some(fast) = plain_decimal(text.as_bytes(), 18, scale) {
                    assert_eq!(Ok(i128::from(fast)), any_decimal(text, 18, scale), "{text} {scale}");
                }
            }
        }
    }

    #[test]
    fn decimals_lose_their_exponent() {
        let cases = [("1E+3", "1000"), ("-1.5e-7", "-0.00000015"), ("0E-10", "0.0000000000"), ("0E3", "0"), ("12.34E1", "123.4")];
        for (text, plain) in cases {
            assert_eq!(plain_text(text).as_deref(), Some(plain), "{text}");
        }
        for text in ["12.5", "1e1000", "e", "1e", "1ex"] {
            assert_eq!(plain_text(text), None, "{text}");
        }
    }

    #[test]
    fn floats_are_printed_as_mysql_does() {
        let doubles = [(0.0, "0"), (-0.5, "-0.5"), (1e14, "100000000000000"), (1e15, "1e15"), (1.5e-6, "1.5e-6"), (5e-324, "5e-324")];
        for (value, text) in doubles {
            assert_eq!(print_float::<f64>(value), text);
        }
        assert_eq!((print_float(0.1f32), print_float(f64::from(0.1f32))), ("0.1".into(), "0.10000000149011612".into()));
    }

    #[test]
    fn floats_are_the_nearest_or_refused() {
        assert_eq!(float::<f32>("3.40282347E38"), Ok(f32::MAX));
        assert_eq!(float::<f64>("4.9E-324"), Ok(5e-324));
        assert_eq!(float::<f32>("1e39"), Err(Refusal::Range));
        for text in ["inf", "NaN", "+1", "1.", ".5", "", "-", "1,5", " 1", "0x10"] {
            assert_eq!(float::<f64>(text), Err(Refusal::Type), "{text:?}");
        }
    }
}
