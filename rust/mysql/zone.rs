//! Time zone of text without an offset.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::mysql::number::ParseError;
use crate::mysql::temporal::{civil, in_calendar};

/// Time zone. UTC has its own variant because nearly everyone uses it.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    Other(TimeZone),
}

impl Zone {
    /// Parses `UTC`, an offset like `+08:00`, or an IANA name.
    pub fn parse(name: &str) -> Option<Zone> {
        match name {
            "UTC" | "Z" | "Etc/UTC" | "GMT" => Some(Zone::Utc),
            name if name.starts_with(['+', '-']) => {
                let (hours, minutes) = name.get(1..)?.split_once(':')?;
                let part = |text: &str, limit: i32| {
                    let is_part = matches!(text.len(), 1..=2) && text.bytes().all(|digit| digit.is_ascii_digit());
                    text.parse::<i32>().ok().filter(|part| is_part && *part < limit)
                };
                let seconds = part(hours, 24)? * 3600 + part(minutes, 60)? * 60;
                let seconds = if name.starts_with('-') { -seconds } else { seconds };
                Some(Zone::Other(TimeZone::fixed(Offset::from_seconds(seconds).ok()?)))
            }
            name => TimeZone::get(name).ok().map(Zone::Other),
        }
    }

    /// Converts local seconds to an instant, both since the epoch. A local time that an offset change skips or repeats is out of
    /// range, and so is an instant outside of the calendar.
    #[inline]
    pub fn instant(&self, local: i64) -> Result<i64, ParseError> {
        match self {
            Zone::Utc => Ok(local),
            Zone::Other(zone) => {
                let local = civil(local).ok_or(ParseError::Range)?;
                let instant = zone.to_ambiguous_timestamp(local).unambiguous().map_err(|_| ParseError::Range)?;
                in_calendar(instant.as_second())
            }
        }
    }

    /// Converts an instant to local seconds, both since the epoch.
    #[inline]
    pub fn local(&self, instant: i64) -> Result<i64, ParseError> {
        match self {
            Zone::Utc => Ok(instant),
            Zone::Other(zone) => {
                let at = Timestamp::from_second(instant).map_err(|_| ParseError::Range)?;
                in_calendar(instant + i64::from(zone.to_offset(at).seconds()))
            }
        }
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
        for invalid in ["Mars/Olympus", "+8", "+08:99", "+24:00", "+08:-30", "+-8:00", "+8:"] {
            assert!(Zone::parse(invalid).is_none(), "{invalid}");
        }
    }

    #[test]
    fn instants_are_in_the_calendar() {
        let seconds = |text: &str| crate::mysql::temporal::DateTimeText::parse(text).unwrap().seconds().unwrap();
        let (shanghai, new_york) = (Zone::parse("+08:00").unwrap(), Zone::parse("-05:00").unwrap());
        assert_eq!(shanghai.instant(seconds("0001-01-01 07:59:59")), Err(ParseError::Range));
        assert_eq!(shanghai.instant(seconds("0001-01-01 08:00:00")), Ok(seconds("0001-01-01 00:00:00")));
        assert_eq!(new_york.local(seconds("0001-01-01 04:59:59")), Err(ParseError::Range));
        assert_eq!(new_york.local(seconds("0001-01-01 05:00:00")), Ok(seconds("0001-01-01 00:00:00")));
    }

    #[test]
    fn skipped_or_repeated_local_time_has_no_instant() {
        let new_york = Zone::parse("America/New_York").unwrap();
        let local = |text: &str| crate::mysql::temporal::DateTimeText::parse(text).unwrap().seconds().unwrap();
        assert_eq!(new_york.instant(local("2021-03-14 02:30:00")), Err(ParseError::Range));
        assert_eq!(new_york.instant(local("2021-11-07 01:30:00")), Err(ParseError::Range));
        assert_eq!(new_york.instant(local("2021-11-07 03:00:00")), Ok(local("2021-11-07 08:00:00")));
    }
}
