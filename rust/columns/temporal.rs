//! Dates, timestamps and times.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, ArrowTimestampType, Date32Type};
use arrow_schema::{DataType, TimeUnit};

use super::primitive::primitives;
use super::{Column, Context, ValueOptions, ZeroDate, refused, scalar, spell};
use crate::event::Value;
use crate::mysql::number::Refusal;
use crate::mysql::temporal::{Written, time_of};
use crate::mysql::zone::Zone;

/// A column of `data_type`, whose number `convert` finds in the text, `None` being null, or `native` in a value that is
/// not text.
fn temporal<T, C, N>(data_type: DataType, convert: C, native: N) -> Box<dyn Column>
where
    T: ArrowPrimitiveType,
    C: Fn(&str) -> Result<Option<T::Native>, Refusal> + Send + 'static,
    N: Fn(&Value<'_>) -> Result<T::Native, Refusal> + Send + 'static,
{
    let asked = spell(&data_type);
    primitives::<T, _>(data_type, move |value: &Value<'_>, _: &Context<'_>| {
        let converted = match value {
            Value::Date(_) | Value::Clock(_) | Value::Instant(_) | Value::Time(_) => native(value).map(Some),
            written => scalar(written, &convert)?,
        };
        converted.map_err(|refusal| refused(value, refusal, &asked))
    })
}

const A_DAY: i64 = 86_400_000_000;

/// What a zero date becomes in a column that cannot hold it.
fn zero_date(options: &ValueOptions) -> impl Fn() -> Result<(), Refusal> + Send + use<> {
    let is_error = options.zero_date == ZeroDate::Error;
    move || if is_error { Err(Refusal::Range) } else { Ok(()) }
}

/// A column of dates. A time of day other than midnight would be lost, so it is refused.
pub(super) fn dates(options: &ValueOptions) -> Box<dyn Column> {
    let zero = zero_date(options);
    let convert = move |text: &str| {
        let written = Written::parse(text)?;
        if written.is_zero() {
            return zero().map(|()| None);
        }
        let days = written.days()?;
        let is_midnight = (written.hour, written.minute, written.second, written.nanos) == (0, 0, 0, 0);
        if is_midnight && written.offset.is_none() { Ok(Some(days)) } else { Err(Refusal::Range) }
    };
    temporal::<Date32Type, _, _>(DataType::Date32, convert, |value| match value {
        Value::Date(days) => Ok(*days),
        Value::Clock(micros) if micros % A_DAY == 0 => i32::try_from(micros / A_DAY).map_err(|_| Refusal::Range),
        Value::Clock(_) => Err(Refusal::Range),
        _ => Err(Refusal::Type),
    })
}

/// A column of timestamps: instants if `zone` is given, else clocks.
pub(super) fn timestamps<T: ArrowTimestampType>(zone: Option<Arc<str>>, options: &ValueOptions) -> Box<dyn Column> {
    let (zero, written_in, is_instant) = (zero_date(options), options.zone.clone(), zone.is_some());
    let a_second: i64 = match T::UNIT {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let nanos_a_unit = (1_000_000_000 / a_second) as u32;
    let units = move |seconds: i64, nanos: u32| {
        if !nanos.is_multiple_of(nanos_a_unit) {
            return Err(Refusal::Range);
        }
        // The first moments that nanoseconds can hold are within a second that they cannot.
        let units = i128::from(seconds) * i128::from(a_second) + i128::from(nanos / nanos_a_unit);
        i64::try_from(units).map_err(|_| Refusal::Range)
    };
    let clocks_zone = written_in.clone();
    let convert = move |text: &str| {
        let written = Written::parse(text)?;
        if written.is_zero() {
            return zero().map(|()| None);
        }
        units(seconds_of(&written, &written_in, is_instant)?, written.nanos).map(Some)
    };
    temporal::<T, _, _>(DataType::Timestamp(T::UNIT, zone), convert, move |value| {
        let (micros, was_instant) = match value {
            Value::Date(days) => (i64::from(*days) * A_DAY, false),
            Value::Clock(micros) => (*micros, false),
            Value::Instant(micros) => (*micros, true),
            _ => return Err(Refusal::Type),
        };
        let seconds = micros.div_euclid(1_000_000);
        let seconds = match (was_instant, is_instant) {
            (true, false) => clocks_zone.clock(seconds)?,
            (false, true) => clocks_zone.instant(seconds)?,
            _ => seconds,
        };
        units(seconds, micros.rem_euclid(1_000_000) as u32 * 1000)
    })
}

/// Seconds since 1970 of an instant, or of a clock.
#[inline]
fn seconds_of(written: &Written, zone: &Zone, is_instant: bool) -> Result<i64, Refusal> {
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
    let of_day = matches!(T::DATA_TYPE, DataType::Time64(_));
    let units = move |time: i64| {
        let fits = time % micros == 0 && (!of_day || (0..A_DAY).contains(&time));
        if fits { Ok(time / micros * per_micro) } else { Err(Refusal::Range) }
    };
    let convert = move |text: &str| time_of(text).and_then(units).map(Some);
    temporal::<T, _, _>(T::DATA_TYPE, convert, move |value| match value {
        Value::Time(time) => units(*time),
        _ => Err(Refusal::Type),
    })
}
