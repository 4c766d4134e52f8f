//! Settings of the connector that affect the encodings of values.

use crate::options::{Options, named};
use crate::wire::binary_text::BinaryText;

/// Debezium's `decimal.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecimalMode {
    /// Base64 of the unscaled integer.
    Precise,
    /// Text.
    String,
    /// A JSON number.
    Double,
}

/// Debezium's `time.precision.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeMode {
    /// Unit by the column's precision; TIME always in microseconds.
    AdaptiveTimeMicroseconds,
    /// Unit by the column's precision.
    Adaptive,
    /// Milliseconds.
    Connect,
    /// ISO text.
    IsoString,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Debezium's `bigint.unsigned.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsignedMode {
    /// A signed 64-bit integer. 2^63 and above wrap to negative.
    Long,
    /// Base64 of the integer.
    Precise,
}

/// The connector's settings that the user configures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes {
    pub decimal: Option<DecimalMode>,
    pub time: Option<TimeMode>,
    pub binary: Option<BinaryText>,
    pub unsigned: Option<UnsignedMode>,
}

impl Modes {
    /// Parses the settings in the options.
    pub fn new(options: &Options) -> Result<Self, String> {
        fn mode<T: Copy>(
            argument: &str,
            name: Option<&String>,
            names: &[(&str, T)],
        ) -> Result<Option<T>, String> {
            name.map(|name| named(argument, name, names)).transpose()
        }
        Ok(Modes {
            decimal: mode(
                "decimal_handling_mode",
                options.decimal_handling_mode.as_ref(),
                &DecimalMode::NAMES,
            )?,
            time: mode(
                "time_precision_mode",
                options.time_precision_mode.as_ref(),
                &TimeMode::NAMES,
            )?,
            binary: options.binary_text()?,
            unsigned: mode(
                "bigint_unsigned_handling_mode",
                options.bigint_unsigned_handling_mode.as_ref(),
                &UnsignedMode::NAMES,
            )?,
        })
    }
}

impl DecimalMode {
    pub(crate) const NAMES: [(&'static str, DecimalMode); 3] = [
        ("precise", DecimalMode::Precise),
        ("string", DecimalMode::String),
        ("double", DecimalMode::Double),
    ];
}

impl TimeMode {
    pub(crate) const NAMES: [(&'static str, TimeMode); 6] = [
        (
            "adaptive_time_microseconds",
            TimeMode::AdaptiveTimeMicroseconds,
        ),
        ("adaptive", TimeMode::Adaptive),
        ("connect", TimeMode::Connect),
        ("isostring", TimeMode::IsoString),
        ("microseconds", TimeMode::Microseconds),
        ("nanoseconds", TimeMode::Nanoseconds),
    ];
}

impl UnsignedMode {
    pub(crate) const NAMES: [(&'static str, UnsignedMode); 2] = [
        ("long", UnsignedMode::Long),
        ("precise", UnsignedMode::Precise),
    ];
}
