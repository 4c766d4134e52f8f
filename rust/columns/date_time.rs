//! Builders of date, timestamp and time columns.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, ArrowTimestampType, Date32Type};
use arrow_schema::{DataType, TimeUnit};

use super::primitive::{Convert, primitives};
use super::{ColumnBuilder, Context, ValueOptions, ZeroDate, conversion_fault, scalar, spell};
use crate::error::{Fault, Kind, Result, excerpt};
use crate::mysql::number::{Around, ParseError, Window, text_of, window_of};
use crate::mysql::temporal::{
    DateTimeText, TimeText, UsualDateTime, in_calendar, parse_time, usual_date,
};
use crate::mysql::zone::Zone;
use crate::value::Value;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Length of `2021-01-31`.
const DATE_LENGTH: usize = 10;

/// Applies `native` to a value of a date or time type, and `text` to the text of any other value.
fn temporal<N>(
    value: &Value<'_>,
    target: &DataType,
    text: impl Fn(&str) -> Result<Option<N>, ParseError>,
    native: impl Fn(&Value<'_>) -> Result<N, ParseError>,
) -> Result<Option<N>> {
    let converted = match value {
        Value::Date(_) | Value::DateTime(_) | Value::Timestamp(_) | Value::Time(_) => {
            native(value).map(Some)
        }
        other => scalar(other, text)?,
    };
    converted.map_err(|error| conversion_fault(value, error, &spell(target)))
}

/// Creates a builder of dates.
pub(super) fn dates(options: &ValueOptions) -> Box<dyn ColumnBuilder> {
    primitives::<Date32Type, _>(
        DataType::Date32,
        Dates {
            zone: options.zone.clone(),
            zero_date: options.zero_date,
        },
    )
}

struct Dates {
    /// Zone in which an instant is midnight.
    zone: Zone,
    zero_date: ZeroDate,
}

/// Applies the policy for zero dates.
fn zero_date_value<N>(zero_date: ZeroDate) -> Result<Option<N>, ParseError> {
    if zero_date == ZeroDate::Error {
        Err(ParseError::Range)
    } else {
        Ok(None)
    }
}

/// Returns days since the epoch. Rejects a time of day other than midnight, which would be lost.
#[inline(always)]
fn days(parsed: &DateTimeText) -> Result<i32, ParseError> {
    let days = parsed.days()?;
    let is_midnight = (parsed.hour, parsed.minute, parsed.second, parsed.nanos) == (0, 0, 0, 0);
    if is_midnight && parsed.offset.is_none() {
        Ok(days)
    } else {
        Err(ParseError::Range)
    }
}

impl Convert<Date32Type> for Dates {
    const IS_NUMBER: bool = false;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(i32, usize)> {
        let (parsed, length) = DateTimeText::prefix(window).ok()?;
        Some((days(&parsed).ok()?, length))
    }

    #[inline(always)]
    fn usual_prefix(&self, around: &Around) -> Option<(i32, usize)> {
        usual_date(text_of(around)).map(|days| (days, DATE_LENGTH))
    }

    #[inline(always)]
    fn usual(&self, text: &[u8]) -> Option<i32> {
        if text.len() != DATE_LENGTH {
            return None;
        }
        usual_date(&window_of(text)?)
    }

    fn native(&self, value: &Value<'_>) -> Option<i32> {
        if let Value::Date(days) = value {
            Some(*days)
        } else {
            None
        }
    }

    fn convert(&self, value: &Value<'_>, _: &Context) -> Result<Option<i32>> {
        let text = |text: &str| {
            let parsed = DateTimeText::parse(text)?;
            if parsed.is_zero() {
                zero_date_value(self.zero_date)
            } else {
                days(&parsed).map(Some)
            }
        };
        temporal(value, &DataType::Date32, text, |value| match value {
            Value::Date(days) => Ok(*days),
            Value::DateTime(micros) if micros % MICROS_PER_DAY == 0 => {
                i32::try_from(micros / MICROS_PER_DAY).map_err(|_| ParseError::Range)
            }
            Value::Timestamp(micros) => {
                let local = self.zone.local(micros.div_euclid(1_000_000))?;
                let is_midnight = local % 86_400 == 0 && micros % 1_000_000 == 0;
                if is_midnight {
                    i32::try_from(local / 86_400).map_err(|_| ParseError::Range)
                } else {
                    Err(ParseError::Range)
                }
            }
            Value::DateTime(_) => Err(ParseError::Range),
            _ => Err(ParseError::Type),
        })
    }
}

/// Creates a builder of timestamps: instants if `zone` is given, otherwise local date-times.
pub(super) fn timestamps<T: ArrowTimestampType>(
    zone: Option<Arc<str>>,
    options: &ValueOptions,
) -> Box<dyn ColumnBuilder> {
    let (is_instant, data_type) = (zone.is_some(), DataType::Timestamp(T::UNIT, zone));
    let convert = Timestamps {
        data_type: data_type.clone(),
        default_zone: options.zone.clone(),
        is_instant,
        zero_date: options.zero_date,
    };
    primitives::<T, _>(data_type, convert)
}

struct Timestamps {
    data_type: DataType,
    /// Zone of text without an offset.
    default_zone: Zone,
    is_instant: bool,
    zero_date: ZeroDate,
}

/// Units per second.
const fn units_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[inline(always)]
fn units<T: ArrowTimestampType>(seconds: i64, nanos: u32) -> Result<i64, ParseError> {
    let units_per_second = units_per_second(T::UNIT);
    let nanos_per_unit = (1_000_000_000 / units_per_second) as u32;
    if !nanos.is_multiple_of(nanos_per_unit) {
        return Err(ParseError::Range);
    }
    let fraction = i64::from(nanos / nanos_per_unit);
    match seconds.checked_mul(units_per_second) {
        Some(units) => units.checked_add(fraction).ok_or(ParseError::Range),
        // The earliest nanosecond timestamps: the whole second does not fit, but the sum does.
        None => {
            i64::try_from(i128::from(seconds) * i128::from(units_per_second) + i128::from(fraction))
                .map_err(|_| ParseError::Range)
        }
    }
}

impl Timestamps {
    #[inline(always)]
    fn parsed_units<T: ArrowTimestampType>(
        &self,
        parsed: &DateTimeText,
        zone: &Zone,
    ) -> Result<i64, ParseError> {
        units::<T>(seconds_of(parsed, zone, self.is_instant)?, parsed.nanos)
    }

    /// Returns the value of text in the usual form, and its length.
    #[inline(always)]
    fn usual_value<T: ArrowTimestampType>(&self, window: &Window) -> Option<(i64, usize)> {
        let usual = UsualDateTime::prefix(window)?;
        let needs_no_rules =
            matches!(self.default_zone, Zone::Utc) || usual.is_utc == self.is_instant;
        if !needs_no_rules {
            return None;
        }
        Some((units::<T>(usual.seconds, usual.nanos).ok()?, usual.length))
    }

    /// Returns the zone of an instant's text, if the message names it.
    fn named_zone(&self, value: &Value<'_>) -> Result<Option<Zone>> {
        match value {
            Value::Zoned(zoned) if self.is_instant => match Zone::parse(zoned.zone) {
                None => Err(Fault::new(
                    Kind::Type,
                    format!("{} is not a known time zone", excerpt(zoned.zone)),
                )),
                zone => Ok(zone),
            },
            _ => Ok(None),
        }
    }

    fn native_units<T: ArrowTimestampType>(&self, value: &Value<'_>) -> Result<i64, ParseError> {
        let (micros, was_instant) = match value {
            Value::Date(days) => (i64::from(*days) * MICROS_PER_DAY, false),
            Value::DateTime(micros) => (*micros, false),
            Value::Timestamp(micros) => (*micros, true),
            _ => return Err(ParseError::Type),
        };
        let seconds = micros.div_euclid(1_000_000);
        let seconds = match (was_instant, self.is_instant) {
            (true, false) => self.default_zone.local(seconds)?,
            (false, true) => self.default_zone.instant(seconds)?,
            _ => seconds,
        };
        units::<T>(seconds, micros.rem_euclid(1_000_000) as u32 * 1000)
    }
}

impl<T: ArrowTimestampType> Convert<T> for Timestamps {
    const IS_NUMBER: bool = false;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(i64, usize)> {
        // A zero date is not in the calendar.
        let (parsed, length) = DateTimeText::prefix(window).ok()?;
        Some((
            self.parsed_units::<T>(&parsed, &self.default_zone).ok()?,
            length,
        ))
    }

    /// Returns the value of text that does not depend on a zone's rules.
    #[inline(always)]
    fn usual_prefix(&self, around: &Around) -> Option<(i64, usize)> {
        self.usual_value::<T>(text_of(around))
    }

    #[inline(always)]
    fn usual(&self, text: &[u8]) -> Option<i64> {
        let (value, length) = self.usual_value::<T>(&window_of(text)?)?;
        (length == text.len()).then_some(value)
    }

    fn native(&self, value: &Value<'_>) -> Option<i64> {
        match (value, self.is_instant) {
            (Value::DateTime(micros), false) | (Value::Timestamp(micros), true)
                if T::UNIT == TimeUnit::Microsecond =>
            {
                Some(*micros)
            }
            (Value::DateTime(_), false) | (Value::Timestamp(_), true) => {
                self.native_units::<T>(value).ok()
            }
            _ => None,
        }
    }

    fn convert(&self, value: &Value<'_>, _: &Context) -> Result<Option<i64>> {
        let named = self.named_zone(value)?;
        let zone = named.as_ref().unwrap_or(&self.default_zone);
        let text = |text: &str| {
            let parsed = DateTimeText::parse(text)?;
            if parsed.is_zero() {
                zero_date_value(self.zero_date)
            } else {
                self.parsed_units::<T>(&parsed, zone).map(Some)
            }
        };
        let converted = temporal(value, &self.data_type, text, |value| {
            self.native_units::<T>(value)
        });
        converted.map_err(|fault| {
            if self.is_instant {
                with_change(fault, value, zone, named.is_some())
            } else {
                fault
            }
        })
    }
}

/// Adds to a fault the clock change that skips or repeats its local time, and the setting that resolves it.
#[cold]
fn with_change(fault: Fault, value: &Value<'_>, zone: &Zone, is_named: bool) -> Fault {
    let local = match value {
        Value::DateTime(micros) => Some(micros.div_euclid(1_000_000)),
        Value::Date(days) => Some(i64::from(*days) * 86_400),
        value => match value.text().map(|text| DateTimeText::parse(&text)) {
            Ok(Ok(parsed)) if parsed.offset.is_none() => parsed.seconds().ok(),
            _ => None,
        },
    };
    let cure = if is_named {
        ""
    } else {
        "set time_zone to the producer's time zone, or "
    };
    match local.and_then(|local| zone.change_at(local)) {
        Some(change) => fault.because(format!("{change}; {cure}request timestamp_ntz or string")),
        None => fault,
    }
}

/// Returns the seconds since the epoch of an instant, or of a local date-time.
#[inline(always)]
fn seconds_of(parsed: &DateTimeText, zone: &Zone, is_instant: bool) -> Result<i64, ParseError> {
    let local = parsed.seconds()?;
    match (parsed.offset, is_instant) {
        (None, true) => zone.instant(local),
        (None, false) => Ok(local),
        (Some(offset), true) => in_calendar(local - i64::from(offset)),
        (Some(offset), false) => zone.local(local - i64::from(offset)),
    }
}

/// Creates a builder of TIMEs: durations of any length, or times of day within a day. A unit is `micros / per_micro`
/// microseconds.
pub(super) fn times<T>(micros: i64, per_micro: i64) -> Box<dyn ColumnBuilder>
where
    T: ArrowPrimitiveType<Native = i64>,
{
    primitives::<T, _>(T::DATA_TYPE, Times { micros, per_micro })
}

struct Times {
    micros: i64,
    per_micro: i64,
}

impl Times {
    fn units<T: ArrowPrimitiveType>(&self, time: i64) -> Result<i64, ParseError> {
        let of_day = matches!(T::DATA_TYPE, DataType::Time64(_));
        let fits = time % self.micros == 0 && (!of_day || (0..MICROS_PER_DAY).contains(&time));
        if fits {
            Ok(time / self.micros * self.per_micro)
        } else {
            Err(ParseError::Range)
        }
    }
}

impl<T: ArrowPrimitiveType<Native = i64>> Convert<T> for Times {
    const IS_NUMBER: bool = false;

    fn prefix(&self, window: &Window) -> Option<(i64, usize)> {
        let (time, length) = TimeText::prefix(window).ok()?;
        Some((
            time.micros()
                .and_then(|micros| self.units::<T>(micros))
                .ok()?,
            length,
        ))
    }

    fn convert(&self, value: &Value<'_>, _: &Context) -> Result<Option<i64>> {
        temporal(
            value,
            &T::DATA_TYPE,
            |text| {
                parse_time(text)
                    .and_then(|time| self.units::<T>(time))
                    .map(Some)
            },
            |value| match value {
                Value::Time(time) => self.units::<T>(*time),
                _ => Err(ParseError::Type),
            },
        )
    }
}
