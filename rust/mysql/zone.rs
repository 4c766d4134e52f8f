//! Time zone of text without an offset.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use crate::mysql::number::ParseError;
use crate::mysql::temporal::{civil, in_calendar};

/// Time zone. UTC has its own variant because nearly all users choose it.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    Other(TimeZone),
}

/// Returns the seconds by which to move a time before jiff converts it. jiff's timestamps end before its dates end, and
/// applications use MySQL's last date to mean "for ever". The calendar and the rules of every zone are the same 400
/// years earlier.
fn shift(seconds: i64) -> i64 {
    const CYCLE: i64 = 146_097 * 86_400;
    const LAST_DAYS: i64 = 253_402_300_800 - 3 * 86_400;
    if seconds < LAST_DAYS { 0 } else { CYCLE }
}

impl Zone {
    /// Parses `UTC`, an offset like `+08:00`, or an IANA name.
    pub fn parse(name: &str) -> Option<Zone> {
        match name {
            "UTC" | "Z" | "Etc/UTC" | "GMT" => Some(Zone::Utc),
            name if name.starts_with(['+', '-']) => {
                let (hours, minutes) = name.get(1..)?.split_once(':')?;
                let seconds = offset_part(hours, 24)? * 3600 + offset_part(minutes, 60)? * 60;
                let seconds = if name.starts_with('-') {
                    -seconds
                } else {
                    seconds
                };
                Some(Zone::Other(TimeZone::fixed(
                    Offset::from_seconds(seconds).ok()?,
                )))
            }
            name => TimeZone::get(name).ok().map(Zone::Other),
        }
    }

    /// Converts local seconds to an instant, both since the epoch. Out of range: a local time that an offset change
    /// skips or repeats, and an instant outside of the calendar.
    #[inline]
    pub fn instant(&self, local: i64) -> Result<i64, ParseError> {
        match self {
            Zone::Utc => Ok(local),
            Zone::Other(zone) => {
                let shift = shift(local);
                let local = civil(local - shift).ok_or(ParseError::Range)?;
                let instant = zone
                    .to_ambiguous_timestamp(local)
                    .unambiguous()
                    .map_err(|_| ParseError::Range)?;
                in_calendar(instant.as_second() + shift)
            }
        }
    }

    /// Describes the clock change that skips or repeats a local time, in seconds since the epoch.
    #[cold]
    pub fn change_at(&self, local: i64) -> Option<String> {
        let Zone::Other(zone) = self else { return None };
        let name = zone.iana_name()?;
        Some(
            match zone
                .to_ambiguous_timestamp(civil(local - shift(local))?)
                .offset()
            {
                AmbiguousOffset::Unambiguous { .. } => return None,
                AmbiguousOffset::Gap { before, after } => {
                    format!(
                        "this local time does not exist in {name}: clocks went forward from {before} to {after}"
                    )
                }
                AmbiguousOffset::Fold { before, after } => {
                    format!(
                        "this local time is ambiguous in {name}: clocks went back from {before} to {after}"
                    )
                }
            },
        )
    }

    /// Converts an instant to local seconds, both since the epoch.
    #[inline]
    pub fn local(&self, instant: i64) -> Result<i64, ParseError> {
        match self {
            Zone::Utc => Ok(instant),
            Zone::Other(zone) => {
                let at = Timestamp::from_second(instant - shift(instant))
                    .map_err(|_| ParseError::Range)?;
                in_calendar(instant + i64::from(zone.to_offset(at).seconds()))
            }
        }
    }
}

/// Parses the hours or the minutes of an offset.
fn offset_part(text: &str, limit: i32) -> Option<i32> {
    let is_part = matches!(text.len(), 1..=2) && text.bytes().all(|digit| digit.is_ascii_digit());
    match text.parse() {
        Ok(part) if is_part && part < limit => Some(part),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_names() {
        let shanghai = Zone::parse("Asia/Shanghai").unwrap();
        assert_eq!(shanghai.instant(8 * 3600), Ok(0));
        assert_eq!(shanghai.local(0), Ok(8 * 3600));
        assert_eq!(Zone::parse("-03:30").unwrap().instant(0), Ok(12_600));
        for invalid in [
            "Mars/Olympus",
            "+8",
            "+08:99",
            "+24:00",
            "+08:-30",
            "+-8:00",
            "+8:",
        ] {
            assert!(Zone::parse(invalid).is_none(), "{invalid}");
        }
    }

    fn seconds(text: &str) -> i64 {
        let parsed = crate::mysql::temporal::DateTimeText::parse(text).unwrap();
        parsed.seconds().unwrap()
    }

    #[test]
    fn instants_are_in_the_calendar() {
        let (shanghai, new_york) = (
            Zone::parse("+08:00").unwrap(),
            Zone::parse("-05:00").unwrap(),
        );
        assert_eq!(
            shanghai.instant(seconds("0001-01-01 07:59:59")),
            Err(ParseError::Range)
        );
        assert_eq!(
            shanghai.instant(seconds("0001-01-01 08:00:00")),
            Ok(seconds("0001-01-01 00:00:00"))
        );
        assert_eq!(
            new_york.local(seconds("0001-01-01 04:59:59")),
            Err(ParseError::Range)
        );
        assert_eq!(
            new_york.local(seconds("0001-01-01 05:00:00")),
            Ok(seconds("0001-01-01 00:00:00"))
        );
    }

    #[test]
    fn the_last_days_have_instants() {
        let end = seconds("9999-12-31 23:59:59");
        for (name, hours) in [
            ("Asia/Shanghai", 8),
            ("+08:00", 8),
            ("Australia/Sydney", 11),
            ("Europe/Berlin", 1),
            ("Pacific/Kiritimati", 14),
        ] {
            let zone = Zone::parse(name).unwrap();
            for hour in 0..100 {
                let (local, instant) = (end - hour * 3600, end - (hour + hours) * 3600);
                assert_eq!(
                    (zone.instant(local), zone.local(instant)),
                    (Ok(instant), Ok(local)),
                    "{name} {hour}"
                );
            }
            assert_eq!(
                zone.local(end - hours * 3600 + 1),
                Err(ParseError::Range),
                "{name}"
            );
        }
        let new_york = Zone::parse("America/New_York").unwrap();
        assert_eq!(new_york.instant(end - 5 * 3600), Ok(end));
        assert_eq!(new_york.instant(end - 5 * 3600 + 1), Err(ParseError::Range));
        assert_eq!(new_york.local(end), Ok(end - 5 * 3600));
    }

    #[test]
    fn skipped_or_repeated_local_time_has_no_instant() {
        let new_york = Zone::parse("America/New_York").unwrap();
        assert_eq!(
            new_york.instant(seconds("2021-03-14 02:30:00")),
            Err(ParseError::Range)
        );
        assert_eq!(
            new_york.instant(seconds("2021-11-07 01:30:00")),
            Err(ParseError::Range)
        );
        assert_eq!(
            new_york.instant(seconds("2021-11-07 03:00:00")),
            Ok(seconds("2021-11-07 08:00:00"))
        );
    }
}
