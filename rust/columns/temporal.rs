//! Dates, timestamps and times.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, ArrowTimestampType, Date32Type};
use arrow_schema::{DataType, TimeUnit};

use super::primitive::{Convert, primitives};
use super::{Column, Context, ValueOptions, ZeroDate, refused, scalar, spell};
use crate::error::Result;
use crate::mysql::number::{Refusal, Window};
use crate::mysql::temporal::{DateTimeText, WrittenTime, time_of};
use crate::mysql::zone::Zone;
use crate::value::Value;

const A_DAY: i64 = 86_400_000_000;

/// Runs `native` over a value that is a date or time already, or `text` over the text of any other.
fn temporal<N>(
    value: &Value<'_>,
    asked: &DataType,
    text: impl Fn(&str) -> Result<Option<N>, Refusal>,
    native: impl Fn(&Value<'_>) -> Result<N, Refusal>,
) -> Result<Option<N>> {
    let converted = match value {
        Value::Date(_) | Value::DateTime(_) | Value::Timestamp(_) | Value::Time(_) => native(value).map(Some),
        written => scalar(written, text)?,
    };
    converted.map_err(|refusal| refused(value, refusal, &spell(asked)))
}

/// A column of dates.
pub(super) fn dates(options: &ValueOptions) -> Box<dyn Column> {
    primitives::<Date32Type, _>(DataType::Date32, Dates { zero_date: options.zero_date })
}

struct Dates {
    zero_date: ZeroDate,
}

/// What a zero date becomes in a column that cannot hold it.
fn zero<N>(zero_date: ZeroDate) -> Result<Option<N>, Refusal> {
    if zero_date == ZeroDate::Error { Err(Refusal::Range) } else { Ok(None) }
}

/// Days since 1970. A time of day other than midnight would be lost, so it is refused.
#[inline(always)]
fn days(written: &DateTimeText) -> Result<i32, Refusal> {
    let days = written.days()?;
    let is_midnight = (written.hour, written.minute, written.second, written.nanos) == (0, 0, 0, 0);
    if is_midnight && written.offset.is_none() { Ok(days) } else { Err(Refusal::Range) }
}

impl Convert<Date32Type> for Dates {
    const IS_NUMBER: bool = false;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(i32, usize)> {
        let (written, length) = DateTimeText::prefix(window).ok()?;
        Some((days(&written).ok()?, length))
    }

    fn convert(&self, value: &Value<'_>, _: &Context<'_>) -> Result<Option<i32>> {
        let text = |text: &str| {
            let written = DateTimeText::parse(text)?;
            if written.is_zero() { zero(self.zero_date) } else { days(&written).map(Some) }
        };
        temporal(value, &DataType::Date32, text, |value| match value {
            Value::Date(days) => Ok(*days),
            Value::DateTime(micros) if micros % A_DAY == 0 => i32::try_from(micros / A_DAY).map_err(|_| Refusal::Range),
            Value::DateTime(_) => Err(Refusal::Range),
            _ => Err(Refusal::Type),
        })
    }
}

/// A column of timestamps: instants if `zone` is given, else clocks.
pub(super) fn timestamps<T: ArrowTimestampType>(zone: Option<Arc<str>>, options: &ValueOptions) -> Box<dyn Column> {
    let (is_instant, data_type) = (zone.is_some(), DataType::Timestamp(T::UNIT, zone));
    let convert = Timestamps { data_type: data_type.clone(), written_in: options.zone.clone(), is_instant, zero_date: options.zero_date };
    primitives::<T, _>(data_type, convert)
}

struct Timestamps {
    data_type: DataType,
    /// The zone of text that names none.
    written_in: Zone,
    is_instant: bool,
    zero_date: ZeroDate,
}

/// How many of a unit a second has.
const fn a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[inline(always)]
fn units<T: ArrowTimestampType>(seconds: i64, nanos: u32) -> Result<i64, Refusal> {
    let a_second = a_second(T::UNIT);
    let nanos_a_unit = (1_000_000_000 / a_second) as u32;
    if !nanos.is_multiple_of(nanos_a_unit) {
        return Err(Refusal::Range);
    }
    let within = i64::from(nanos / nanos_a_unit);
    match seconds.checked_mul(a_second) {
        Some(units) => units.checked_add(within).ok_or(Refusal::Range),
        // The first moments that nanoseconds can hold are within a second that they cannot.
        None => i64::try_from(i128::from(seconds) * i128::from(a_second) + i128::from(within)).map_err(|_| Refusal::Range),
    }
}

impl Timestamps {
    #[inline(always)]
    fn written<T: ArrowTimestampType>(&self, written: &DateTimeText) -> Result<i64, Refusal> {
        units::<T>(seconds_of(written, &self.written_in, self.is_instant)?, written.nanos)
    }

    fn native<T: ArrowTimestampType>(&self, value: &Value<'_>) -> Result<i64, Refusal> {
        let (micros, was_instant) = match value {
            Value::Date(days) => (i64::from(*days) * A_DAY, false),
            Value::DateTime(micros) => (*micros, false),
            Value::Timestamp(micros) => (*micros, true),
            _ => return Err(Refusal::Type),
        };
        let seconds = micros.div_euclid(1_000_000);
        let seconds = match (was_instant, self.is_instant) {
            (true, false) => self.written_in.clock(seconds)?,
            (false, true) => self.written_in.instant(seconds)?,
            _ => seconds,
        };
        units::<T>(seconds, micros.rem_euclid(1_000_000) as u32 * 1000)
    }
}

impl<T: ArrowTimestampType> Convert<T> for Timestamps {
    const IS_NUMBER: bool = false;

    #[inline(always)]
    fn prefix(&self, window: &Window) -> Option<(i64, usize)> {
        let (written, length) = DateTimeText::prefix(window).ok()?;
        if written.is_zero() {
            return None;
        }
        Some((self.written::<T>(&written).ok()?, length))
    }

    fn convert(&self, value: &Value<'_>, _: &Context<'_>) -> Result<Option<i64>> {
        let text = |text: &str| {
            let written = DateTimeText::parse(text)?;
            if written.is_zero() { zero(self.zero_date) } else { self.written::<T>(&written).map(Some) }
        };
        temporal(value, &self.data_type, text, |value| self.native::<T>(value))
    }
}

/// Seconds since 1970 of an instant, or of a clock.
#[inline(always)]
fn seconds_of(written: &DateTimeText, zone: &Zone, is_instant: bool) -> Result<i64, Refusal> {
    let clock = written.seconds()?;
    match (written.offset, is_instant) {
        (None, true) => zone.instant(clock),
        (None, false) => Ok(clock),
        (Some(offset), true) => Ok(clock - i64::from(offset)),
        (Some(offset), false) => zone.clock(clock - i64::from(offset)),
    }
}

/// A column of TIMEs: as long as they may be for durations, within a day for times of day. A unit is
/// `micros / per_micro` microseconds.
pub(super) fn times<T>(micros: i64, per_micro: i64) -> Box<dyn Column>
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
    fn units<T: ArrowPrimitiveType>(&self, time: i64) -> Result<i64, Refusal> {
        let of_day = matches!(T::DATA_TYPE, DataType::Time64(_));
        let fits = time % self.micros == 0 && (!of_day || (0..A_DAY).contains(&time));
        if fits { Ok(time / self.micros * self.per_micro) } else { Err(Refusal::Range) }
    }
}

impl<T: ArrowPrimitiveType<Native = i64>> Convert<T> for Times {
    const IS_NUMBER: bool = false;

    fn prefix(&self, window: &Window) -> Option<(i64, usize)> {
        let (time, length) = WrittenTime::prefix(window).ok()?;
        Some((time.micros().and_then(|micros| self.units::<T>(micros)).ok()?, length))
    }

    fn convert(&self, value: &Value<'_>, _: &Context<'_>) -> Result<Option<i64>> {
        temporal(
            value,
            &T::DATA_TYPE,
            |text| time_of(text).and_then(|time| self.units::<T>(time)).map(Some),
            |value| match value {
                Value::Time(time) => self.units::<T>(*time),
                _ => Err(Refusal::Type),
            },
        )
    }
}
