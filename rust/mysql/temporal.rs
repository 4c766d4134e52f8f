//! Parsing and printing of dates and times in MySQL's fixed layouts. Libraries reject `0000-00-00` and `-838:59:59`.

use std::ops::Range;

use crate::mysql::number::{
    ParseError, Window, digits, first_of_eight_digits, padded_window, window_of, words,
};

/// Components of a date, with or without a time of day, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTimeText {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub nanos: u32,
    /// Offset in seconds east of UTC, if the text has one.
    pub offset: Option<i32>,
    /// True if the text has a time of day.
    pub has_time: bool,
}

const SECONDS_PER_DAY: i64 = 86_400;

/// The years 1 to 9999, in seconds since the epoch. Python and Spark have the same range. A written date is always
/// within these years, but its instant may not be.
/// its instant may have.
const CALENDAR: Range<i64> = -62_135_596_800..253_402_300_800;

/// Returns the seconds since the epoch, if they are in the calendar.
#[inline(always)]
pub(crate) fn in_calendar(seconds: i64) -> Result<i64, ParseError> {
    if CALENDAR.contains(&seconds) {
        Ok(seconds)
    } else {
        Err(ParseError::Range)
    }
}

impl DateTimeText {
    /// Parses `2021-01-31`, `2021-01-31 12:00:00.123456`, and both in the form of ISO 8601, with `T` and `Z` or
    /// `+08:00`.
    #[inline]
    pub fn parse(text: &str) -> Result<DateTimeText, ParseError> {
        let bytes = text.as_bytes();
        let window = window_of(bytes).unwrap_or_else(|| padded_window(bytes));
        let (mut parsed, length) = DateTimeText::prefix(&window)?;
        let rest = bytes.get(length..).ok_or(ParseError::Type)?;
        if !rest.is_empty() {
            parsed.offset = if parsed.has_time && parsed.offset.is_none() {
                offset(rest)?
            } else {
                return Err(ParseError::Type);
            };
        }
        Ok(parsed)
    }

    /// Parses the date or date and time at the start of the window. Returns it with its length. Leaves a zone other
    /// than `Z` unread.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "a window has 32 bytes")]
    pub fn prefix(window: &Window) -> Result<(DateTimeText, usize), ParseError> {
        let [from_year, from_day, from_second, _] = words(window);
        let [century, _, year, _, _, month, ..] =
            Pairs::new(from_year, *b"0000-00-", 8).checked()?;
        // XOR swaps the space with the `T` of ISO 8601, so one layout serves both.
        let from_day = match window[10] {
            b' ' => from_day,
            b'T' => from_day ^ u64::from(b' ' ^ b'T') << 16,
            _ => {
                let [day, ..] = Pairs::new(from_day, *b"00      ", 2).checked()?;
                return Ok((
                    DateTimeText {
                        day,
                        ..DateTimeText::month_start(century, year, month)
                    },
                    10,
                ));
            }
        };
        let (days, seconds) = (
            Pairs::new(from_day, *b"00 00:00", 8),
            Pairs::new(from_second, *b":00     ", 3),
        );
        let [[day, _, _, hour, _, _, minute, _], [_, second, ..]] = days.checked_with(seconds)?;
        let (nanos, fraction) = match window[19] {
            b'.' => fraction_digits(&window[20..])?,
            _ => (0, 0),
        };
        let length = if fraction > 0 { 20 + fraction } else { 19 };
        let is_utc = window.get(length) == Some(&b'Z');
        let offset = if is_utc { Some(0) } else { None };
        let date = DateTimeText::month_start(century, year, month);
        Ok((
            DateTimeText {
                day,
                hour,
                minute,
                second,
                nanos,
                offset,
                has_time: true,
                ..date
            },
            length + usize::from(is_utc),
        ))
    }

    /// Returns a date of this month without its day.
    #[inline(always)]
    fn month_start(century: u8, year: u8, month: u8) -> DateTimeText {
        let year = u16::from(century) * 100 + u16::from(year);
        DateTimeText {
            year,
            month,
            day: 0,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            offset: None,
            has_time: false,
        }
    }

    /// Returns whether MySQL considers this a zero date, entirely or in part.
    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        let is_time = self.hour <= 23 && self.minute <= 59 && self.second <= 59;
        (self.year == 0 || self.month == 0 || self.day == 0)
            && self.month <= 12
            && self.day <= 31
            && is_time
    }

    /// Returns days since the epoch. A date that does not exist in the calendar is out of range.
    #[inline(always)]
    pub fn days(&self) -> Result<i32, ParseError> {
        days_from_civil(self.year, self.month, self.day).ok_or(ParseError::Range)
    }

    /// Returns local seconds since the epoch, without the fraction.
    #[inline(always)]
    pub fn seconds(&self) -> Result<i64, ParseError> {
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(ParseError::Range);
        }
        let of_day =
            (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second);
        Ok(i64::from(self.days()?) * SECONDS_PER_DAY + of_day)
    }
}

/// A date and time in the usual form and in the calendar: `2021-01-31 12:00:00.123`, with at most seven fraction
/// digits.
pub(crate) struct UsualDateTime {
    /// Local seconds since the epoch, without the fraction.
    pub seconds: i64,
    pub nanos: u32,
    /// True if `Z` follows. `length` includes the `Z`.
    pub is_utc: bool,
    pub length: usize,
}

impl UsualDateTime {
    /// Parses it at the start of the window. Equals [`DateTimeText::prefix`] for this form, with fewer instructions.
    #[inline(always)]
    pub fn prefix(window: &Window) -> Option<UsualDateTime> {
        /// Addend that carries a day above 31, an hour above 23, a minute or second above 59 into the highest bit of
        /// its lane.
        const BOUNDS: [u64; 2] = [
            u64::from_le_bytes([96, 0, 0, 104, 0, 0, 68, 0]),
            u64::from_le_bytes([0, 68, 0, 0, 0, 0, 0, 0]),
        ];
        let [from_year, from_day, from_second, _] = words(window);
        let from_day = if window[10] == b'T' {
            from_day ^ u64::from(b' ' ^ b'T') << 16
        } else {
            from_day
        };
        let months = Pairs::new(from_year, *b"0000-00-", 8);
        let (days, seconds) = (
            Pairs::new(from_day, *b"00 00:00", 8),
            Pairs::new(from_second, *b":00     ", 3),
        );
        let [of_days, of_seconds] = [days, seconds].map(Pairs::lanes_of_numbers);
        let beyond = (of_days.wrapping_add(BOUNDS[0]) | of_seconds.wrapping_add(BOUNDS[1]))
            & 0x8080_8080_8080_8080;
        if months.invalid | days.invalid | seconds.invalid | beyond != 0 {
            return None;
        }
        let ([century, _, year, _, _, month, ..], [day, _, _, hour, _, _, minute, _]) =
            (months.numbers(), of_days.to_le_bytes());
        let [_, second, ..] = of_seconds.to_le_bytes();
        let days = days_from_civil(u16::from(century) * 100 + u16::from(year), month, day)?;
        let of_day = u32::from(hour) * 3600 + u32::from(minute) * 60 + u32::from(second);
        let (nanos, length) = if window[19] == b'.' {
            usual_fraction(window)?
        } else {
            (0, 19)
        };
        let is_utc = window.get(length) == Some(&b'Z');
        let seconds = i64::from(days) * SECONDS_PER_DAY + i64::from(of_day);
        Some(UsualDateTime {
            seconds,
            nanos,
            is_utc,
            length: length + usize::from(is_utc),
        })
    }
}

/// Returns the days since the epoch of a date in the usual form and in the calendar: `2021-01-31`.
#[inline(always)]
pub(crate) fn usual_date(window: &Window) -> Option<i32> {
    let [from_year, from_day, ..] = words(window);
    let (months, days) = (
        Pairs::new(from_year, *b"0000-00-", 8),
        Pairs::new(from_day, *b"00      ", 2),
    );
    if months.invalid | days.invalid != 0 {
        return None;
    }
    let ([century, _, year, _, _, month, ..], [day, ..]) = (months.numbers(), days.numbers());
    days_from_civil(u16::from(century) * 100 + u16::from(year), month, day)
}

/// Returns the nanoseconds after the seconds of a date and time, and the end of their text.
#[inline(always)]
fn usual_fraction(window: &Window) -> Option<(u32, usize)> {
    let (of_eight, count) = first_of_eight_digits(*window.get(20..)?.first_chunk()?)?;
    Some((of_eight * 10, 20 + count))
}

#[inline(always)]
fn pair(tens: u8, ones: u8) -> Result<u8, ParseError> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        Err(ParseError::Type)
    } else {
        Ok(tens * 10 + ones)
    }
}

/// Eight bytes of digits and separators as the lanes of one integer (SWAR). All lanes are checked and combined at once.
#[derive(Clone, Copy)]
struct Pairs {
    lanes: u64,
    /// Mask with the highest bit of each invalid lane set.
    invalid: u64,
}

impl Pairs {
    /// Checks the first `count` bytes of a text. `form` has a zero for each digit, and the separators in their places.
    #[inline(always)]
    fn new(text: u64, form: [u8; 8], count: u32) -> Self {
        // Addend that carries an invalid lane into its highest bit: a digit above 9, a separator above 0.
        let carry = u64::from_le_bytes(form.map(|byte| if byte == b'0' { 0x76 } else { 0x7F }));
        let checked = u64::MAX >> (64 - 8 * count);
        let lanes = (text ^ u64::from_le_bytes(form)) & checked;
        Pairs {
            lanes,
            invalid: (lanes.wrapping_add(carry) | lanes) & 0x8080_8080_8080_8080 & checked,
        }
    }

    /// Returns the two-digit numbers that start at each byte.
    #[inline(always)]
    fn numbers(self) -> [u8; 8] {
        self.lanes_of_numbers().to_le_bytes()
    }

    #[inline(always)]
    fn lanes_of_numbers(self) -> u64 {
        self.lanes.wrapping_mul(10).wrapping_add(self.lanes >> 8)
    }

    #[inline(always)]
    fn checked(self) -> Result<[u8; 8], ParseError> {
        if self.invalid == 0 {
            Ok(self.numbers())
        } else {
            Err(ParseError::Type)
        }
    }

    #[inline(always)]
    fn checked_with(self, next: Pairs) -> Result<[[u8; 8]; 2], ParseError> {
        if self.invalid | next.invalid == 0 {
            Ok([self.numbers(), next.numbers()])
        } else {
            Err(ParseError::Type)
        }
    }
}

/// Parses the nanoseconds of `.123456`. Returns them with the remaining text.
#[inline]
#[allow(clippy::indexing_slicing, reason = "the digits are in the text")]
fn fraction(text: &[u8]) -> Result<(u32, &[u8]), ParseError> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Ok((0, text));
    };
    let (nanos, count) = fraction_digits(rest)?;
    Ok((nanos, &rest[count..]))
}

/// Parses the digits after the decimal point. Returns nanoseconds and digit count.
#[inline(always)]
fn fraction_digits(bytes: &[u8]) -> Result<(u32, usize), ParseError> {
    const UNITS: [u32; 10] = [
        0,
        100_000_000,
        10_000_000,
        1_000_000,
        100_000,
        10_000,
        1000,
        100,
        10,
        1,
    ];
    let (value, count) = digits(bytes).ok_or(ParseError::Type)?;
    match UNITS.get(count) {
        Some(unit) if count > 0 => Ok((value as u32 * unit, count)),
        _ => Err(ParseError::Type),
    }
}

fn offset(text: &[u8]) -> Result<Option<i32>, ParseError> {
    // Tencent's DTS writes a space before the offset.
    match text.strip_prefix(b" ").unwrap_or(text) {
        [] => Ok(None),
        b"Z" => Ok(Some(0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (pair(*h1, *h2)?, pair(*m1, *m2)?);
            if hours > 18 || minutes > 59 {
                return Err(ParseError::Range);
            }
            let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
            Ok(Some(if *sign == b'-' { -seconds } else { seconds }))
        }
        _ => Err(ParseError::Type),
    }
}

/// Returns days from 1970-01-01 in the proleptic Gregorian calendar; `None` for an invalid date. Years that begin in
/// March put the leap day last. The formulas are from Neri and Schneider, "Euclidean affine functions" (2022).
#[inline(always)]
fn days_from_civil(year: u16, month: u8, day: u8) -> Option<i32> {
    let (year, month, day) = (u32::from(year), u32::from(month), u32::from(day));
    let is_date = year > 0
        && (1..=12).contains(&month)
        && day > 0
        && (day <= 28 || day <= days_in_month(year, month));
    if !is_date {
        return None;
    }
    let begins_before = month <= 2;
    let (year, month) = if begins_before {
        (year - 1, month + 12)
    } else {
        (year, month)
    };
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

/// Parses a TIME into microseconds: `12:00:00`, `-838:59:59.000000`.
#[inline]
pub(crate) fn parse_time(text: &str) -> Result<i64, ParseError> {
    let window = window_of(text.as_bytes()).ok_or(ParseError::Type)?;
    let (time, length) = TimeText::prefix(&window)?;
    if length == text.len() {
        time.micros()
    } else {
        Err(ParseError::Type)
    }
}

/// Components of a TIME, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeText {
    negative: bool,
    hours: u64,
    minutes: u8,
    seconds: u8,
    nanos: u32,
}

impl TimeText {
    /// Parses the TIME at the start of the window. Returns it with its length.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "the sign and the digits are in the window"
    )]
    pub fn prefix(bytes: &Window) -> Result<(TimeText, usize), ParseError> {
        let negative = bytes[0] == b'-';
        let unsigned = &bytes[usize::from(negative)..];
        let (hours, count) = digits(unsigned)
            .filter(|(_, count)| matches!(count, 2 | 3))
            .ok_or(ParseError::Type)?;
        let [c0, m0, m1, c1, s0, s1, rest @ ..] = &unsigned[count..] else {
            return Err(ParseError::Type);
        };
        if (*c0, *c1) != (b':', b':') {
            return Err(ParseError::Type);
        }
        let (nanos, after) = fraction(rest)?;
        let time = TimeText {
            negative,
            hours,
            minutes: pair(*m0, *m1)?,
            seconds: pair(*s0, *s1)?,
            nanos,
        };
        Ok((time, bytes.len() - after.len()))
    }

    /// Returns microseconds, if the TIME is in MySQL's range.
    #[inline]
    pub fn micros(self) -> Result<i64, ParseError> {
        let TimeText {
            negative,
            hours,
            minutes,
            seconds,
            nanos,
        } = self;
        if hours > 838 || minutes > 59 || seconds > 59 || !nanos.is_multiple_of(1000) {
            return Err(ParseError::Range);
        }
        let micros = ((hours as i64 * 60 + i64::from(minutes)) * 60 + i64::from(seconds))
            * 1_000_000
            + i64::from(nanos / 1000);
        Ok(if negative { -micros } else { micros })
    }
}

/// Prints a DATE in MySQL's format, from days since the epoch.
pub(crate) fn print_date(days: i32) -> String {
    civil(i64::from(days) * SECONDS_PER_DAY).map_or_else(String::new, |at| at.date().to_string())
}

/// Prints a DATETIME in MySQL's format, from microseconds since the epoch, with the fraction digits that it needs:
/// none, 3 or 6.
pub(crate) fn print_datetime(micros: i64) -> String {
    let Some(at) = civil(micros.div_euclid(1_000_000)) else {
        return String::new();
    };
    let (date, time) = (at.date(), at.time());
    format!(
        "{date} {:02}:{:02}:{:02}{}",
        time.hour(),
        time.minute(),
        time.second(),
        print_fraction(micros.rem_euclid(1_000_000))
    )
}

/// Prints a TIME in MySQL's format, from microseconds.
pub(crate) fn print_time(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, fraction) = (
        micros.unsigned_abs() / 1_000_000,
        micros.unsigned_abs() % 1_000_000,
    );
    let time = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    format!("{sign}{time}{}", print_fraction(fraction as i64))
}

fn print_fraction(micros: i64) -> String {
    match micros {
        0 => String::new(),
        micros if micros % 1000 == 0 => format!(".{:03}", micros / 1000),
        micros => format!(".{micros:06}"),
    }
}

/// Returns date and time from seconds since the epoch. Avoids jiff's timestamps, which end a day before its dates end:
/// applications use MySQL's last date to mean "for ever".
pub(crate) fn civil(seconds: i64) -> Option<jiff::civil::DateTime> {
    jiff::civil::date(1970, 1, 1)
        .at(0, 0, 0, 0)
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .ok()
}

/// Returns microseconds since 1970 of a TiDB commit timestamp: milliseconds above 18 bits of a counter. `None` for 0,
/// which means unset.
pub(crate) fn micros_of_commit_ts(ts: i64) -> Option<i64> {
    Some((ts >> 18) * 1000).filter(|micros| *micros > 0)
}

/// Returns microseconds from an epoch in seconds, milliseconds, microseconds or nanoseconds. The digit count selects
/// the unit.
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
            let expected = date
                .since((jiff::Unit::Day, civil::date(1970, 1, 1)))
                .map(|span| span.get_days());
            assert_eq!(
                DateTimeText::parse(&text).and_then(|w| w.days()).ok(),
                expected.ok(),
                "{text}"
            );
            date = date.saturating_add(jiff::Span::new().days(97));
        }
    }

    #[test]
    fn invalid_and_zero_dates() {
        for text in ["2021-02-30", "2021-13-01", "1900-02-29", "2021-04-31"] {
            assert_eq!(
                DateTimeText::parse(text).and_then(|w| w.days()),
                Err(ParseError::Range),
                "{text}"
            );
        }
        for text in [
            "2021-1-01",
            "20210101",
            "",
            "2021/01/01",
            "2021-01-01 ",
            "2021-01-01 10:00",
            "2021-01-01 10:00:00.",
            "+021-01-01",
        ] {
            assert_eq!(DateTimeText::parse(text), Err(ParseError::Type), "{text:?}");
        }
        for text in [
            "0000-00-00",
            "2021-00-10",
            "2021-10-00",
            "0000-01-01",
            "0000-00-00 00:00:00.000",
        ] {
            assert!(
                DateTimeText::parse(text).is_ok_and(|w| w.is_zero()),
                "{text}"
            );
        }
    }

    #[test]
    fn usual_date_times_are_those_of_their_prefixes() {
        let dates = [
            "2021-01-31",
            "2024-02-29",
            "2023-02-29",
            "2021-00-10",
            "0000-01-01",
            "9999-12-31",
            "2021-13-01",
            "2021-12-32",
            "x021-01-01",
        ];
        let times = [
            " 00:00:00",
            "T23:59:59",
            " 24:00:00",
            " 23:60:00",
            " 23:59:60",
            " 99:99:99",
            " 1:00:00",
            "-01:00:00",
            " 01:00;00",
            "",
        ];
        let fractions = [
            "",
            ".",
            ".0",
            ".5",
            ".123",
            ".123456",
            ".1234567",
            ".12345678",
            ".123456789",
            ".12x",
            "+08:00",
        ];
        for (date, time, fraction, end) in cases(&dates, &times, &fractions, &["\"", "Z\"", " "]) {
            let mut window = [b','; 32];
            let text = format!("{date}{time}{fraction}{end}");
            window[..text.len()].copy_from_slice(text.as_bytes());
            let parsed = DateTimeText::prefix(&window)
                .ok()
                .filter(|(parsed, _)| parsed.has_time && fraction.len() < 9);
            let expected = parsed.and_then(|(parsed, length)| {
                Some((
                    parsed.seconds().ok()?,
                    parsed.nanos,
                    parsed.offset.is_some(),
                    length,
                ))
            });
            let usual = UsualDateTime::prefix(&window)
                .map(|usual| (usual.seconds, usual.nanos, usual.is_utc, usual.length));
            assert_eq!(usual, expected, "{text}");
        }
    }

    #[test]
    fn usual_dates_are_those_of_their_prefixes() {
        for date in [
            "2021-01-31",
            "2024-02-29",
            "2023-02-29",
            "2021-00-10",
            "0000-01-01",
            "9999-12-31",
            "2021-13-01",
            "2021-1-011",
            "2021-01-3x",
        ] {
            let window = window_of(format!("{date}\"").as_bytes()).unwrap();
            let expected = DateTimeText::prefix(&window)
                .ok()
                .and_then(|(parsed, _)| parsed.days().ok());
            assert_eq!(usual_date(&window), expected, "{date}");
        }
    }

    /// Returns each combination of the parts of a text.
    fn cases<'c>(
        one: &'c [&str],
        two: &'c [&str],
        three: &'c [&str],
        four: &'c [&str],
    ) -> impl Iterator<Item = (&'c str, &'c str, &'c str, &'c str)> {
        let pairs = one
            .iter()
            .flat_map(|one| two.iter().map(move |two| (*one, *two)));
        let triples =
            pairs.flat_map(|(one, two)| three.iter().map(move |three| (one, two, *three)));
        triples.flat_map(|(one, two, three)| four.iter().map(move |four| (one, two, three, *four)))
    }

    #[test]
    fn times_up_to_838_hours() {
        assert_eq!(parse_time("-838:59:59.000000"), Ok(-3_020_399_000_000));
        assert_eq!(parse_time("00:00:00.5"), Ok(500_000));
        assert_eq!(parse_time("839:00:00"), Err(ParseError::Range));
        assert_eq!(parse_time("10:60:00"), Err(ParseError::Range));
        for text in [
            "1:00:00",
            "10:00",
            "10:00:00x",
            "+10:00:00",
            "",
            "--1:00:00",
        ] {
            assert_eq!(parse_time(text), Err(ParseError::Type), "{text:?}");
        }
    }

    #[test]
    fn epoch_unit_follows_digit_count() {
        assert_eq!(micros_of_epoch(0), None);
        for number in [
            1_655_812_326,
            1_655_812_326_000,
            1_655_812_326_000_000,
            1_655_812_326_000_000_000,
        ] {
            assert_eq!(micros_of_epoch(number), Some(1_655_812_326_000_000));
        }
    }
}
