//! Dates and times in MySQL's fixed layouts. Libraries refuse `0000-00-00` and `-838:59:59`, so these are read here.

use crate::mysql::number::Refusal;

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
        let bytes = text.as_bytes();
        let date: &[u8; 10] = bytes.first_chunk().ok_or(Refusal::Type)?;
        if date[4] != b'-' || date[7] != b'-' {
            return Err(Refusal::Type);
        }
        let mut written = Written {
            year: pair(date[0], date[1])? as u16 * 100 + pair(date[2], date[3])? as u16,
            month: pair(date[5], date[6])?,
            day: pair(date[8], date[9])?,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            offset: None,
            has_time: false,
        };
        let rest = bytes.get(10..).unwrap_or_default();
        if !rest.is_empty() {
            written.read_time(rest)?;
        }
        Ok(written)
    }

    /// `rest` is what follows the date, with its separator.
    #[inline]
    fn read_time(&mut self, rest: &[u8]) -> Result<(), Refusal> {
        let time: &[u8; 9] = rest.first_chunk().ok_or(Refusal::Type)?;
        if !matches!(time[0], b' ' | b'T') || time[3] != b':' || time[6] != b':' {
            return Err(Refusal::Type);
        }
        self.hour = pair(time[1], time[2])?;
        self.minute = pair(time[4], time[5])?;
        self.second = pair(time[7], time[8])?;
        self.has_time = true;
        let (nanos, rest) = fraction(rest.get(9..).unwrap_or_default())?;
        self.nanos = nanos;
        self.offset = offset(rest)?;
        Ok(())
    }

    /// Whether MySQL would call this a zero date, in whole or in part.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.year == 0 || self.month == 0 || self.day == 0
    }

    /// Days since 1970. A date that the calendar lacks is out of range.
    #[inline]
    pub fn days(&self) -> Result<i32, Refusal> {
        let in_calendar =
            self.year > 0 && (1..=12).contains(&self.month) && self.day > 0 && self.day <= days_in_month(self.year, self.month);
        if in_calendar { Ok(days_from_civil(self.year, self.month, self.day)) } else { Err(Refusal::Range) }
    }

    /// Seconds since 1970 on the clock that was written, without its fraction.
    #[inline]
    pub fn seconds(&self) -> Result<i64, Refusal> {
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(Refusal::Range);
        }
        let of_day = (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second);
        Ok(i64::from(self.days()?) * SECONDS_A_DAY + of_day)
    }
}

#[inline]
fn pair(tens: u8, ones: u8) -> Result<u8, Refusal> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 { Err(Refusal::Type) } else { Ok(tens * 10 + ones) }
}

/// Nanoseconds of `.123456`, and what follows.
#[inline]
fn fraction(text: &[u8]) -> Result<(u32, &[u8]), Refusal> {
    let Some(digits) = text.strip_prefix(b".") else { return Ok((0, text)) };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at_checked(count).unwrap_or((digits, &[]));
    if count == 0 || count > 9 {
        return Err(Refusal::Type);
    }
    let nanos = digits.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0')) * 10u32.pow(9 - count as u32);
    Ok((nanos, rest))
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

fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so that the leap day is
/// the last of its year.
#[inline]
fn days_from_civil(year: u16, month: u8, day: u8) -> i32 {
    let (year, month) = if month > 2 { (i32::from(year), i32::from(month) - 3) } else { (i32::from(year) - 1, i32::from(month) + 9) };
    let day_of_year = (153 * month + 2) / 5 + i32::from(day) - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// Microseconds of a TIME: `12:00:00`, `-838:59:59.000000`.
#[inline]
pub(crate) fn time_of(text: &str) -> Result<i64, Refusal> {
    let (negative, clock) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let colon = clock.iter().position(|b| *b == b':').filter(|at| (2..=3).contains(at)).ok_or(Refusal::Type)?;
    let (hours, rest) = clock.split_at_checked(colon).ok_or(Refusal::Type)?;
    let hours =
        hours.iter().try_fold(0i64, |n, b| if b.is_ascii_digit() { Ok(n * 10 + i64::from(b - b'0')) } else { Err(Refusal::Type) })?;
    let clock: &[u8; 6] = rest.first_chunk().ok_or(Refusal::Type)?;
    if clock[3] != b':' {
        return Err(Refusal::Type);
    }
    let (minutes, seconds) = (pair(clock[1], clock[2])?, pair(clock[4], clock[5])?);
    let (nanos, rest) = fraction(rest.get(6..).unwrap_or_default())?;
    if !rest.is_empty() {
        return Err(Refusal::Type);
    }
    if hours > 838 || minutes > 59 || seconds > 59 || nanos % 1000 != 0 {
        return Err(Refusal::Range);
    }
    let micros = ((hours * 60 + i64::from(minutes)) * 60 + i64::from(seconds)) * 1_000_000 + i64::from(nanos / 1000);
    Ok(if negative { -micros } else { micros })
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
