//! Values against slow but plainly correct conversions.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use jiff::civil::{Date, Time};
use towpath::{Layout, Options, TableSchema};

use super::captures::Message;
use super::dialects::{decode, errors};
use super::input::split_choices;
use super::options::{decoder, plain};

/// A column: its declared type, the requested type, and the expected value of its text.
pub struct Column {
    declared: &'static str,
    asked: &'static str,
    expected: fn(&str) -> Expected,
}

/// Expected value of a text.
#[derive(Debug, PartialEq)]
pub enum Expected {
    /// A cell with this printed form.
    Cell(String),
    Null,
    Error,
    /// Unknown, because the slow conversion does not support this form.
    Unknown,
}

pub const COLUMNS: &[Column] = &[
    Column {
        declared: "bigint",
        asked: "bigint",
        expected: |text| integer(text, i64::MIN.into(), i64::MAX.into()),
    },
    Column {
        declared: "int",
        asked: "int",
        expected: |text| integer(text, i32::MIN.into(), i32::MAX.into()),
    },
    Column {
        declared: "smallint unsigned",
        asked: "smallint",
        expected: |text| integer(text, i16::MIN.into(), i16::MAX.into()),
    },
    Column {
        declared: "tinyint",
        asked: "tinyint",
        expected: |text| integer(text, i8::MIN.into(), i8::MAX.into()),
    },
    Column {
        declared: "bigint unsigned",
        asked: "decimal(20,0)",
        expected: |text| decimal(text, 20, 0),
    },
    Column {
        declared: "decimal(10,2)",
        asked: "decimal(10,2)",
        expected: |text| decimal(text, 10, 2),
    },
    Column {
        declared: "decimal(38,10)",
        asked: "decimal(38,10)",
        expected: |text| decimal(text, 38, 10),
    },
    Column {
        declared: "decimal(65,30)",
        asked: "decimal(76,38)",
        expected: |text| decimal(text, 76, 38),
    },
    Column {
        declared: "double",
        asked: "double",
        expected: |text| float(text, |text| text.parse::<f64>().ok()),
    },
    Column {
        declared: "float",
        asked: "float",
        expected: |text| float(text, |text| text.parse::<f32>().ok().map(f64::from)),
    },
    Column {
        declared: "date",
        asked: "date",
        expected: date,
    },
    Column {
        declared: "datetime(6)",
        asked: "timestamp_ntz",
        expected: date_time,
    },
    Column {
        declared: "timestamp(6)",
        asked: "timestamp",
        expected: date_time,
    },
    Column {
        declared: "time(6)",
        asked: "bigint",
        expected: time,
    },
    Column {
        declared: "bit(64)",
        asked: "binary",
        expected: |text| bits(text, 64),
    },
    Column {
        declared: "bit(10)",
        asked: "binary",
        expected: |text| bits(text, 10),
    },
];

/// Checks the text of a value in three messages. A template reads the last one.
pub fn check(data: &[u8]) {
    let (choices, bytes) = split_choices(data);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let column = &COLUMNS[choices.pick(0, 1, &(0..COLUMNS.len()).collect::<Vec<_>>())];
    let quoted = serde_json::Value::from(text).to_string();
    let message = format!(
        r#"{{"data":[{{"v":{quoted}}}],"database":"shop","table":"orders","type":"INSERT","mysqlType":{{"v":"{}"}}}}"#,
        column.declared
    );
    let schema = Some(TableSchema::Ddl(format!("v {}", column.asked)));
    let messages = vec![
        Message {
            key: None,
            value: Some(message.into_bytes())
        };
        3
    ];
    let rows = decode(
        &decoder(Options {
            schema,
            ..plain("canal-json")
        }),
        &messages,
    );
    let (cells, errors) = (
        rows["after"].as_struct().column(0),
        errors(&rows, Layout::Change),
    );
    let wanted = (column.expected)(text);
    for row in (0..rows.num_rows()).filter(|_| wanted != Expected::Unknown) {
        let found = if errors.is_valid(row) {
            Expected::Error
        } else {
            cell(cells, row)
        };
        assert_eq!(
            found, wanted,
            "{text:?} as {}, row {row}: {errors:?}",
            column.asked
        );
    }
}

fn cell(cells: &ArrayRef, row: usize) -> Expected {
    use arrow_array::types::{
        Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, TimestampMicrosecondType,
    };
    use arrow_schema::DataType;
    if cells.is_null(row) {
        return Expected::Null;
    }
    Expected::Cell(match cells.data_type() {
        DataType::Int8 => cells.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => cells.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => cells.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => cells.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Decimal128(..) => cells
            .as_primitive::<Decimal128Type>()
            .value(row)
            .to_string(),
        DataType::Decimal256(..) => cells
            .as_primitive::<Decimal256Type>()
            .value(row)
            .to_string(),
        DataType::Float32 => f64::from(cells.as_primitive::<Float32Type>().value(row))
            .to_bits()
            .to_string(),
        DataType::Float64 => cells
            .as_primitive::<Float64Type>()
            .value(row)
            .to_bits()
            .to_string(),
        DataType::Date32 => cells.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Timestamp(..) => cells
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
            .to_string(),
        DataType::Binary => format!("{:?}", cells.as_binary::<i32>().value(row)),
        other => panic!("{other} is not printed"),
    })
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn integer(text: &str, least: i128, most: i128) -> Expected {
    if !all_digits(text.strip_prefix('-').unwrap_or(text)) {
        return Expected::Error;
    }
    match text.parse::<i128>() {
        Ok(value) if (least..=most).contains(&value) => Expected::Cell(value.to_string()),
        _ => Expected::Error,
    }
}

/// Moves the decimal point in the text, digit by digit.
fn decimal(text: &str, precision: usize, scale: i64) -> Expected {
    let (sign, number) = text
        .strip_prefix('-')
        .map_or(("", text), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if ![whole, fraction, exponent_digits]
        .into_iter()
        .all(all_digits)
    {
        // Nobody reads `+-5` as an exponent.
        return Expected::Error;
    }
    if whole
        .bytes()
        .chain(fraction.bytes())
        .all(|digit| digit == b'0')
    {
        return Expected::Cell("0".into());
    }
    let Ok(exponent) = exponent.parse::<i64>() else {
        return Expected::Error;
    };
    if exponent.abs() > 100_000 {
        return Expected::Unknown;
    }
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let mut behind_point = fraction.len() as i64 - exponent;
    while behind_point > scale {
        if digits.pop().unwrap_or(b'0') != b'0' {
            return Expected::Error;
        }
        behind_point -= 1;
    }
    while behind_point < scale {
        digits.push(b'0');
        behind_point += 1;
    }
    let digits = String::from_utf8(digits).expect("digits are text");
    let unscaled = digits.trim_start_matches('0');
    if unscaled.len() > precision {
        Expected::Error
    } else {
        Expected::Cell(format!("{sign}{unscaled}"))
    }
}

fn float(text: &str, parse: fn(&str) -> Option<f64>) -> Expected {
    let number = text.strip_prefix('-').unwrap_or(text);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit());
    match parse(text).filter(|value| is_number && value.is_finite()) {
        Some(value) => Expected::Cell(value.to_bits().to_string()),
        None => Expected::Error,
    }
}

/// Returns the parts of `YYYY-MM-DD`. Other forms are not judged.
fn date_of(text: &str) -> Result<Date, Expected> {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return Err(Expected::Unknown);
    };
    if ![year, month, day].into_iter().all(all_digits)
        || [year.len(), month.len(), day.len()] != [4, 2, 2]
    {
        return Err(Expected::Unknown);
    }
    let (year, month, day) = (
        year.parse().unwrap_or(0),
        month.parse().unwrap_or(0),
        day.parse().unwrap_or(0),
    );
    if year == 0 || month == 0 || day == 0 {
        // Zero dates have rules of their own.
        return Err(Expected::Unknown);
    }
    Date::new(year, month, day).map_err(|_| Expected::Error)
}

fn date(text: &str) -> Expected {
    match date_of(text) {
        Ok(date) => Expected::Cell(days(date).to_string()),
        Err(expected) => expected,
    }
}

fn days(date: Date) -> i64 {
    let since = date
        .since(Date::constant(1970, 1, 1))
        .expect("both are dates");
    since.get_days().into()
}

fn date_time(text: &str) -> Expected {
    let Some((day, clock)) = text.split_once(' ') else {
        return Expected::Unknown;
    };
    let (date, micros) = match (date_of(day), clock_of(clock)) {
        (Ok(date), Some(micros)) => (date, micros),
        (Err(expected), Some(_)) => return expected,
        _ => return Expected::Unknown,
    };
    let valid = Time::new(
        (micros / 3_600_000_000).try_into().unwrap_or(i8::MAX),
        0,
        0,
        0,
    );
    if valid.is_err() {
        return Expected::Error;
    }
    Expected::Cell((days(date) * 86_400_000_000 + micros).to_string())
}

/// Returns the microseconds of `HH:MM:SS` with up to six fraction digits. Other forms are not judged.
fn clock_of(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else {
        return None;
    };
    let is_form = [hours, minutes, seconds, fraction]
        .into_iter()
        .all(all_digits)
        && fraction.len() <= 6;
    if !is_form || ![2, 3].contains(&hours.len()) || minutes.len() != 2 || seconds.len() != 2 {
        return None;
    }
    let number = |text: &str| text.parse::<i64>().ok();
    let (minutes, seconds) = (number(minutes)?, number(seconds)?);
    let fraction = number(&format!("{fraction:0<6}"))?;
    (minutes < 60 && seconds < 60)
        .then_some(((number(hours)? * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction)
}

fn time(text: &str) -> Expected {
    const LONGEST: i64 = ((838 * 60 + 59) * 60 + 59) * 1_000_000;
    let (sign, clock) = text
        .strip_prefix('-')
        .map_or((1, text), |clock| (-1, clock));
    match clock_of(clock) {
        Some(micros) if micros <= LONGEST => Expected::Cell((sign * micros).to_string()),
        _ => Expected::Unknown,
    }
}

/// Returns the big-endian bytes of a number.
fn bits(text: &str, width: usize) -> Expected {
    if !all_digits(text) {
        return Expected::Unknown;
    }
    match text.parse::<u64>() {
        Ok(value) if width == 64 || value >> width == 0 => Expected::Cell(format!(
            "{:?}",
            &value.to_be_bytes()[8 - width.div_ceil(8)..]
        )),
        _ => Expected::Error,
    }
}
