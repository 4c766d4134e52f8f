//! Dates and times in MySQL's fixed layouts. Libraries refuse `0000-00-00` and `-838:59:59`, so these are read here.

use crate::mysql::number::{Refusal, digits, with_room};

/// A date, with or without a time of day, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
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

impl Written {
    /// Reads `2021-01-31`, `2021-01-31 12:00:00.123456`, and both in ISO's form with `T` and `Z` or `+08:00`.
    #[inline]
    pub fn parse(text: &str) -> Result<Written, Refusal> {
        // No date is longer than 35 bytes.
        let room = with_room::<48>(text.as_bytes()).ok_or(Refusal::Type)?;
        let (mut written, length) = Written::prefix(&room)?;
        let rest = text.as_bytes().get(length..).unwrap_or_default();
        if !rest.is_empty() {
            written.offset = if written.has_time && written.offset.is_none() { offset(rest)? } else { return Err(Refusal::Type) };
        }
        Ok(written)
    }

    /// The date or date and time that bytes begin with, and its length; a zone behind it other than `Z` is left.
    #[inline(always)]
    pub fn prefix(bytes: &[u8]) -> Result<(Written, usize), Refusal> {
        let [century, decade, rest @ ..]: [u8; 10] = *bytes.first_chunk().ok_or(Refusal::Type)?;
        let [year, _, _, month, _, _, day, _] = pairs(rest, *b"00-00-00")?;
        let mut written = Written {
            year: u16::from(pair(century, decade)?) * 100 + u16::from(year),
            month,
            day,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            offset: None,
            has_time: false,
        };
        let Some(b' ' | b'T') = bytes.get(10) else { return Ok((written, 10)) };
        let length = 11 + written.read_time(bytes.get(11..).unwrap_or_default())?;
        if bytes.get(length) == Some(&b'Z') {
            written.offset = Some(0);
            return Ok((written, length + 1));
        }
        Ok((written, length))
    }

    /// Reads the time of day that follows the date and its separator, and returns its length.
    #[inline(always)]
    fn read_time(&mut self, rest: &[u8]) -> Result<usize, Refusal> {
        let [hour, _, _, minute, _, _, second, _] = pairs(*rest.first_chunk().ok_or(Refusal::Type)?, *b"00:00:00")?;
        (self.hour, self.minute, self.second) = (hour, minute, second);
        self.has_time = true;
        match rest.get(8) {
            Some(b'.') => {
                let (nanos, length) = fraction_digits(rest.get(9..).unwrap_or_default())?;
                self.nanos = nanos;
                Ok(9 + length)
            }
            _ => Ok(8),
        }
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

/// The numbers of two digits that begin at each byte of a text with signs between them. All bytes are checked and joined at once, as
/// lanes of one integer. `form` has a zero for each digit, and the signs in their places.
#[inline(always)]
fn pairs(text: [u8; 8], form: [u8; 8]) -> Result<[u8; 8], Refusal> {
    // What carries a lane into its highest bit: of a digit more than 9, of a sign more than 0.
    let carry = u64::from_le_bytes(form.map(|byte| if byte == b'0' { 0x76 } else { 0x7F }));
    let lanes = u64::from_le_bytes(text) ^ u64::from_le_bytes(form);
    if (lanes.wrapping_add(carry) | lanes) & 0x8080_8080_8080_8080 != 0 {
        return Err(Refusal::Type);
    }
    Ok(lanes.wrapping_mul(10).wrapping_add(lanes >> 8).to_le_bytes())
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

/// Days from 1970-01-01 in the proleptic Gregorian calendar, if it has the date.
#[inline(always)]
fn days_from_civil(year: u16, month: u8, day: u8) -> Option<i32> {
    /// How many days a month has, and how many the months before it.
    const MONTHS: [(u8, u16); 16] = [
        (0, 0),
        (31, 0),
        (28, 31),
        (31, 59),
        (30, 90),
        (31, 120),
        (30, 151),
        (31, 181),
        (31, 212),
        (30, 243),
        (31, 273),
        (30, 304),
        (31, 334),
        (0, 0),
        (0, 0),
        (0, 0),
    ];
    let before = u32::from(year).checked_sub(1)?;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (length, months) = *MONTHS.get(usize::from(month))?;
    if day == 0 || day > length + u8::from(is_leap && month == 2) {
        return None;
    }
    let of_year = u32::from(months) + u32::from(is_leap && month > 2) + u32::from(day);
    Some((before * 365 + before / 4 - before / 100 + before / 400 + of_year) as i32 - 719_163)
}

/// Microseconds of a TIME: `12:00:00`, `-838:59:59.000000`.
#[inline]
pub(crate) fn time_of(text: &str) -> Result<i64, Refusal> {
    let room = with_room::<32>(text.as_bytes()).ok_or(Refusal::Type)?;
    let (time, length) = WrittenTime::prefix(&room)?;
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
    /// The TIME that bytes begin with, and its length.
    #[inline]
    pub fn prefix(bytes: &[u8]) -> Result<(WrittenTime, usize), Refusal> {
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
            assert_eq!(Written::parse(&text).and_then(|w| w.days()).ok(), expected.ok(), "{text}");
            date = date.saturating_add(jiff::Span::new().days(97));
        }
    }

    #[test]
    fn dates_that_are_none() {
        for text in ["2021-02-30", "2021-13-01", "1900-02-29", "2021-04-31"] {
            assert_eq!(Written::parse(text).and_then(|w| w.days()), Err(Refusal::Range), "{text}");
        }
        for text in ["2021-1-01", "20210101", "", "2021/01/01", "2021-01-01 ", "2021-01-01 10:00", "2021-01-01 10:00:00.", "+021-01-01"] {
            assert_eq!(Written::parse(text), Err(Refusal::Type), "{text:?}");
        }
        for text in ["0000-00-00", "2021-00-10", "2021-10-00", "0000-01-01", "0000-00-00 00:00:00.000"] {
            assert!(Written::parse(text).is_ok_and(|w| w.is_zero()), "{text}");
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
