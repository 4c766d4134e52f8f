//! The time zone in which a producer wrote zone-less text.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::mysql::number::Refusal;
use crate::mysql::temporal::civil;

/// A time zone, with UTC apart because nearly everyone uses it.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    Other(TimeZone),
}

impl Zone {
    /// `UTC`, an offset like `+08:00`, or a name of the IANA database.
    pub fn parse(name: &str) -> Option<Zone> {
        match name {
            "UTC" | "Z" | "Etc/UTC" | "GMT" => Some(Zone::Utc),
            name if name.starts_with(['+', '-']) => {
                let (hours, minutes) = name.get(1..)?.split_once(':')?;
                let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
                let seconds = if name.starts_with('-') { -seconds } else { seconds };
                Some(Zone::Other(TimeZone::fixed(Offset::from_seconds(seconds).ok()?)))
            }
            name => TimeZone::get(name).ok().map(Zone::Other),
        }
    }

    /// The instant of a clock in this zone, both in seconds since 1970. A clock that a change of offset skips or
    /// repeats is no instant, so it is out of range.
    #[inline]
    pub fn instant(&self, clock: i64) -> Result<i64, Refusal> {
        match self {
            Zone::Utc => Ok(clock),
            Zone::Other(zone) => {
                let clock = civil(clock).ok_or(Refusal::Range)?;
                let instant = zone.to_ambiguous_timestamp(clock).unambiguous().map_err(|_| Refusal::Range)?;
                Ok(instant.as_second())
            }
        }
    }

    /// The clock in this zone at an instant, both in seconds since 1970.
    #[inline]
    pub fn clock(&self, instant: i64) -> Result<i64, Refusal> {
        match self {
            Zone::Utc => Ok(instant),
            Zone::Other(zone) => {
                let at = Timestamp::from_second(instant).map_err(|_| Refusal::Range)?;
                Ok(instant + i64::from(zone.to_offset(at).seconds()))
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
        assert_eq!(shanghai.clock(0), Ok(8 * 3600));
        assert_eq!(Zone::parse("-03:30").unwrap().instant(0), Ok(12_600));
        assert!(Zone::parse("Mars/Olympus").is_none() && Zone::parse("+8").is_none());
    }

    #[test]
    fn a_clock_that_is_skipped_or_repeated_is_no_instant() {
        let new_york = Zone::parse("America/New_York").unwrap();
        let clock = |text: &str| crate::mysql::temporal::DateTimeText::parse(text).unwrap().seconds().unwrap();
        assert_eq!(new_york.instant(clock("2021-03-14 02:30:00")), Err(Refusal::Range));
        assert_eq!(new_york.instant(clock("2021-11-07 01:30:00")), Err(Refusal::Range));
        assert_eq!(new_york.instant(clock("2021-11-07 03:00:00")), Ok(clock("2021-11-07 08:00:00")));
    }
}
