//! Dates and times in MySQL's fixed layouts. Libraries refuse `0000-00-00` and `-838:59:59`, so these are read here.

use crate::mysql::number::{Refusal, Window, digits, window_at_end, window_of};

/// A date, with or without a time of day, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTimeText {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub nanos: u32,
    /// Seconds east of Greenwich, where the text says so.
    pub offset: Option<i32>,
    /// Whether there was a time of day.
    pub has_time: bool,
}

const SECONDS_A_DAY: i64 = 86_400;

impl DateTimeText {
    /// Reads `2021-01-31`, `2021-01-31 12:00:00.123456`, and both in ISO's form with `T` and `Z` or `+08:00`.
    #[inline]
    pub fn parse(text: &str) -> Result<DateTimeText, Refusal> {
        let bytes = text.as_bytes();
        let window = window_of(bytes).unwrap_or_else(|| window_at_end(bytes));
        let (mut written, length) = DateTimeText::prefix(&window)?;
        let rest = bytes.get(length..).ok_or(Refusal::Type)?;
        if !rest.is_empty() {
            written.offset = if written.has_time && written.offset.is_none() { offset(rest)? } else { return Err(Refusal::Type) };
        }
        Ok(written)
    }

    /// The date or date and time that a text begins with, and its length; a zone behind it other than `Z` is left.
    #[inline(always)]
    pub fn prefix(window: &Window) -> Result<(DateTimeText, usize), Refusal> {
        let [from_year, from_day, from_second, _] = words(window);
        let [century, _, year, _, _, month, ..] = Pairs::new(from_year, *b"0000-00-", 8).checked()?;
        // A space stands where ISO 8601 has a `T`, and the other way round.
        let from_day = match window[10] {
            b' ' => from_day,
            b'T' => from_day ^ u64::from(b' ' ^ b'T') << 16,
            _ => {
                let [day, ..] = Pairs::new(from_day, *b"00      ", 2).checked()?;
                return Ok((DateTimeText { day, ..DateTimeText::midnight(century, year, month) }, 10));
            }
        };
        let (days, seconds) = (Pairs::new(from_day, *b"00 00:00", 8), Pairs::new(from_second, *b":00     ", 3));
        let [[day, _, _, hour, _, _, minute, _], [_, second, ..]] = days.checked_with(seconds)?;
        let (nanos, fraction) = match window[19] {
            b'.' => fraction_digits(window.get(20..).unwrap_or_default())?,
            _ => (0, 0),
        };
        let length = if fraction > 0 { 20 + fraction } else { 19 };
        let is_utc = window.get(length) == Some(&b'Z');
        let offset = if is_utc { Some(0) } else { None };
        let date = DateTimeText::midnight(century, year, month);
        Ok((DateTimeText { day, hour, minute, second, nanos, offset, has_time: true, ..date }, length + usize::from(is_utc)))
    }

    /// A month's beginning, but for its day.
    #[inline(always)]
    fn midnight(century: u8, year: u8, month: u8) -> DateTimeText {
        let year = u16::from(century) * 100 + u16::from(year);
        DateTimeText { year, month, day: 0, hour: 0, minute: 0, second: 0, nanos: 0, offset: None, has_time: false }
    }

    /// Whether MySQL would call this a zero date, in whole or in part.
    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        self.year == 0 || self.month == 0 || self.day == 0
    }

    /// Days since 1970. A date that the calendar lacks is out of range.
    #[inline(always)]
    pub fn days(&self) -> Result<i32, Refusal> {
        days_from_civil(self.year, self.month, self.day).ok_or(Refusal::Range)
    }

    /// Seconds since 1970 on the clock that was written, without its fraction.
    #[inline(always)]
    pub fn seconds(&self) -> Result<i64, Refusal> {
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(Refusal::Range);
        }
        let of_day = (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second);
        Ok(i64::from(self.days()?) * SECONDS_A_DAY + of_day)
    }
}

#[inline(always)]
fn pair(tens: u8, ones: u8) -> Result<u8, Refusal> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 { Err(Refusal::Type) } else { Ok(tens * 10 + ones) }
}

/// A window as four words.
#[inline(always)]
fn words(window: &Window) -> [u64; 4] {
    let (words, _) = window.as_chunks::<8>();
    let mut all = [0; 4];
    all.iter_mut().zip(words).for_each(|(to, from)| *to = u64::from_le_bytes(*from));
    all
}

/// Eight bytes of digits with signs between them, as the lanes of one integer: all are checked and joined at once.
#[derive(Clone, Copy)]
struct Pairs {
    lanes: u64,
    /// Lanes whose highest bit is set are not what they should be.
    wrong: u64,
}

impl Pairs {
    /// `form` has a zero for each digit, and the signs in their places; only its first bytes count.
    #[inline(always)]
    fn new(text: u64, form: [u8; 8], count: u32) -> Self {
        // What carries a lane into its highest bit: of a digit more than 9, of a sign more than 0.
        let carry = u64::from_le_bytes(form.map(|byte| if byte == b'0' { 0x76 } else { 0x7F }));
        let counts = u64::MAX >> (64 - 8 * count);
        let lanes = (text ^ u64::from_le_bytes(form)) & counts;
        Pairs { lanes, wrong: (lanes.wrapping_add(carry) | lanes) & 0x8080_8080_8080_8080 & counts }
    }

    /// The numbers of two digits that begin at each byte.
    #[inline(always)]
    fn numbers(self) -> [u8; 8] {
        self.lanes.wrapping_mul(10).wrapping_add(self.lanes >> 8).to_le_bytes()
    }

    #[inline(always)]
    fn checked(self) -> Result<[u8; 8], Refusal> {
        if self.wrong == 0 { Ok(self.numbers()) } else { Err(Refusal::Type) }
    }

    #[inline(always)]
    fn checked_with(self, next: Pairs) -> Result<[[u8; 8]; 2], Refusal> {
        if self.wrong | next.wrong == 0 { Ok([self.numbers(), next.numbers()]) } else { Err(Refusal::Type) }
    }
}

/// Nanoseconds of `.123456`, and what follows.
#[inline]
fn fraction(text: &[u8]) -> Result<(u32, &[u8]), Refusal> {
    let Some(rest) = text.strip_prefix(b".") else { return Ok((0, text)) };
    let (nanos, count) = fraction_digits(rest)?;
    Ok((nanos, rest.get(count..).unwrap_or_default()))
}

/// Nanoseconds of the digits behind a point, and how many these are.
#[inline(always)]
fn fraction_digits(bytes: &[u8]) -> Result<(u32, usize), Refusal> {
    const UNITS: [u32; 10] = [0, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1];
    let (value, count) = digits(bytes).ok_or(Refusal::Type)?;
    match UNITS.get(count) {
        Some(unit) if count > 0 => Ok((value as u32 * unit, count)),
        _ => Err(Refusal::Type),
    }
}

fn offset(text: &[u8]) -> Result<Option<i32>, Refusal> {
    match text {
        [] => Ok(None),
        b"Z" => Ok(Some(0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (pair(*h1, *h2)?, pair(*m1, *m2)?);
            if hours > 18 || minutes > 59 {
                return Err(Refusal::Range);
            }
            let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
            Ok(Some(if *sign == b'-' { -seconds } else { seconds }))
        }
        _ => Err(Refusal::Type),
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, if it has the date. With a year that begins in March the leap day is
/// its last: the formulas are those of Neri and Schneider, "Euclidean affine functions" (2022).
#[inline(always)]
fn days_from_civil(year: u16, month: u8, day: u8) -> Option<i32> {
    let (year, month, day) = (u32::from(year), u32::from(month), u32::from(day));
    let is_date = year > 0 && (1..=12).contains(&month) && day > 0 && (day <= 28 || day <= days_in_month(year, month));
    if !is_date {
        return None;
    }
    let begins_before = month <= 2;
    let (year, month) = if begins_before { (year - 1, month + 12) } else { (year, month) };
    let century = year / 100;
    let days = year * 1461 / 4 - century + century / 4 + (979 * month - 2919) / 32 + day;
    Some(days as i32 - 719_469)
}

fn days_in_month(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Microseconds of a TIME: `12:00:00`, `-838:59:59.000000`.
#[inline]
pub(crate) fn time_of(text: &str) -> Result<i64, Refusal> {
    let window = window_of(text.as_bytes()).ok_or(Refusal::Type)?;
    let (time, length) = WrittenTime::prefix(&window)?;
    if length == text.len() { time.micros() } else { Err(Refusal::Type) }
}

/// A TIME, as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenTime {
    negative: bool,
    hours: u64,
    minutes: u8,
    seconds: u8,
    nanos: u32,
}

impl WrittenTime {
    /// The TIME that a text begins with, and its length.
    #[inline]
    pub fn prefix(bytes: &Window) -> Result<(WrittenTime, usize), Refusal> {
        let negative = bytes.first() == Some(&b'-');
        let clock = bytes.get(usize::from(negative)..).unwrap_or_default();
        let (hours, count) = digits(clock).filter(|(_, count)| matches!(count, 2 | 3)).ok_or(Refusal::Type)?;
        let rest = clock.get(count..).unwrap_or_default();
        let [c0, m0, m1, c1, s0, s1]: [u8; 6] = *rest.first_chunk().ok_or(Refusal::Type)?;
        if (c0, c1) != (b':', b':') {
            return Err(Refusal::Type);
        }
        let behind = rest.get(6..).unwrap_or_default();
        let (nanos, after) = fraction(behind)?;
        let time = WrittenTime { negative, hours, minutes: pair(m0, m1)?, seconds: pair(s0, s1)?, nanos };
        Ok((time, bytes.len() - after.len()))
    }

    /// Microseconds, if MySQL has such a TIME.
    #[inline]
    pub fn micros(self) -> Result<i64, Refusal> {
        let WrittenTime { negative, hours, minutes, seconds, nanos } = self;
        if hours > 838 || minutes > 59 || seconds > 59 || !nanos.is_multiple_of(1000) {
            return Err(Refusal::Range);
        }
        let micros = ((hours as i64 * 60 + i64::from(minutes)) * 60 + i64::from(seconds)) * 1_000_000 + i64::from(nanos / 1000);
        Ok(if negative { -micros } else { micros })
    }
}

/// A DATE as MySQL prints it, from days since 1970.
pub(crate) fn print_date(days: i32) -> String {
    civil(i64::from(days) * SECONDS_A_DAY).map_or_else(String::new, |at| at.date().to_string())
}

/// A DATETIME as MySQL prints it, from microseconds since 1970, with as many fraction digits as it needs: none, 3 or 6.
pub(crate) fn print_clock(micros: i64) -> String {
    let Some(at) = civil(micros.div_euclid(1_000_000)) else { return String::new() };
    let (date, time) = (at.date(), at.time());
    format!("{date} {:02}:{:02}:{:02}{}", time.hour(), time.minute(), time.second(), print_fraction(micros.rem_euclid(1_000_000)))
}

/// A TIME as MySQL prints it, from microseconds.
pub(crate) fn print_time(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, fraction) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{sign}{clock}{}", print_fraction(fraction as i64))
}

fn print_fraction(micros: i64) -> String {
    match micros {
        0 => String::new(),
        micros if micros % 1000 == 0 => format!(".{:03}", micros / 1000),
        micros => format!(".{micros:06}"),
    }
}

/// The date and time of day so many seconds after 1970 began. Not by jiff's instants, which end a day before its dates do: the last
/// of MySQL's is the one that means "for ever".
pub(crate) fn civil(seconds: i64) -> Option<jiff::civil::DateTime> {
    jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0).checked_add(jiff::SignedDuration::from_secs(seconds)).ok()
}

/// Microseconds since 1970 of a number whose unit its length tells: seconds, milliseconds, microseconds or nanoseconds.
pub(crate) fn micros_of_epoch(number: i64) -> Option<i64> {
    match number.unsigned_abs() {
        0 => None,
        1..100_000_000_000 => number.checked_mul(1_000_000),
        100_000_000_000..100_000_000_000_000 => number.checked_mul(1000),
        100_000_000_000_000..100_000_000_000_000_000 => Some(number),
        _ => Some(number.div_euclid(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil;

    #[test]
    fn days_agree_with_jiff() {
        let mut date = civil::date(1, 1, 1);
        while date.year() < 9990 {
            let text = date.to_string();
            let expected = date.since((jiff::Unit::Day, civil::date(1970, 1, 1))).map(|span| span.get_days());
            assert_eq!(DateTimeText::parse(&text).and_then(|w| w.days()).ok(), expected.ok(), "{text}");
            date = date.saturating_add(jiff::Span::new().days(97));
        }
    }

    #[test]
    fn dates_that_are_none() {
        for text in ["2021-02-30", "2021-13-01", "1900-02-29", "2021-04-31"] {
            assert_eq!(DateTimeText::parse(text).and_then(|w| w.days()), Err(Refusal::Range), "{text}");
        }
        for text in ["2021-1-01", "20210101", "", "2021/01/01", "2021-01-01 ", "2021-01-01 10:00", "2021-01-01 10:00:00.", "+021-01-01"] {
            assert_eq!(DateTimeText::parse(text), Err(Refusal::Type), "{text:?}");
        }
        for text in ["0000-00-00", "2021-00-10", "2021-10-00", "0000-01-01", "0000-00-00 00:00:00.000"] {
            assert!(DateTimeText::parse(text).is_ok_and(|w| w.is_zero()), "{text}");
        }
    }

    #[test]
    fn times_of_day_and_longer() {
        assert_eq!(time_of("-838:59:59.000000"), Ok(-3_020_399_000_000));
        assert_eq!(time_of("00:00:00.5"), Ok(500_000));
        assert_eq!(time_of("839:00:00"), Err(Refusal::Range));
        assert_eq!(time_of("10:60:00"), Err(Refusal::Range));
        for text in ["1:00:00", "10:00", "10:00:00x", "+10:00:00", "", "--1:00:00"] {
            assert_eq!(time_of(text), Err(Refusal::Type), "{text:?}");
        }
    }

    #[test]
    fn epochs_tell_their_unit_by_their_length() {
        assert_eq!(micros_of_epoch(0), None);
        for number in [1_655_812_326, 1_655_812_326_000, 1_655_812_326_000_000, 1_655_812_326_000_000_000] {
            assert_eq!(micros_of_epoch(number), Some(1_655_812_326_000_000));
        }
    }
}
