//! Conversion of the values of a table's columns. It is decided once per column and declaration of rows.

use arrow_schema::{DataType, Fields};
use bumpalo::Bump;
use hashbrown::HashMap;

use crate::columns::{ColumnBuilder, Context, ValueOptions};
use crate::connect::{self, Modes};
use crate::error::Result;
use crate::event::{Envelope, ValueFormat};
use crate::interner::folded;
use crate::mysql::types::{DeclaredType, DeclaredTypes, Encoding};
use crate::options::Options;
use crate::value::Value;

/// The user's options for a table's columns.
pub(crate) struct ColumnOptions {
    pub fields: Fields,
    /// Options of each column.
    pub values: Vec<ValueOptions>,
    modes: Modes,
}

impl ColumnOptions {
    pub fn new(options: &Options, fields: Fields) -> Result<Self, String> {
        let (zone, zero_date, binary) = (
            options.zone()?,
            options.zero_date()?,
            options.binary_text()?,
        );
        let values = fields.iter().map(|field| {
            let column = folded(field.name(), options.case_sensitive);
            let labels = options
                .labels
                .iter()
                .find(|(name, _)| folded(name, options.case_sensitive) == column);
            let declared = options
                .column_types
                .iter()
                .find(|(name, _)| folded(name, options.case_sensitive) == column);
            ValueOptions {
                zone: zone.clone(),
                zero_date,
                labels: labels
                    .map(|(_, labels)| labels.as_slice())
                    .unwrap_or_default()
                    .into(),
                declared: declared.map(|(_, text)| DeclaredType::parse(text).into()),
                binary,
            }
        });
        Ok(ColumnOptions {
            values: values.collect(),
            fields,
            modes: Modes::new(options)?,
        })
    }

    /// Returns the converter of a column, in rows with an envelope.
    #[allow(
        clippy::indexing_slicing,
        reason = "callers ask for columns of the table, and each has options"
    )]
    pub fn converter(
        &self,
        column: usize,
        envelope: &Envelope<'_>,
        types: &DeclaredTypes,
    ) -> Converter {
        debug_assert!(column < self.fields.len());
        let requested = self.fields[column].data_type().clone();
        let context = Context::new(column, envelope, types, &self.values[column]);
        let has_fast_path = context.has_fast_path(&requested);
        let mut raw = if has_fast_path { ANY } else { 0 };
        let mut conversion = Box::new(Conversion {
            context,
            requested,
            connect: None,
            has_fast_path,
        });
        let connect = conversion.connect_column(self.modes);
        if envelope.quirks.format == ValueFormat::Connect && !connect.is_plain() {
            // Other numbers and texts have the same encoding, unless it depends on the value.
            let (numbers, texts) = (
                connect.encoding(&Value::Number("1")).ok(),
                connect.encoding(&Value::Text("1")).ok(),
            );
            let scale = if let Some(Encoding::Decimal(scale)) = texts {
                Some(scale)
            } else {
                None
            };
            // A column of timestamps reads text with a zone itself.
            let is_zoned = texts == Some(Encoding::Zoned)
                && matches!(connect.requested, DataType::Timestamp(..));
            raw &= u8::from(numbers == Some(Encoding::Plain)) | u8::from(is_zoned) << 1;
            conversion.connect = Some(ConnectEncoding {
                modes: self.modes,
                numbers,
                scale,
            });
        }
        Converter {
            column,
            raw,
            conversion,
        }
    }
}

/// Conversion of a column's values, in rows with one declaration. It is small, because messages of many tables
/// alternate.
pub(crate) struct Converter {
    /// Index of the column.
    pub column: usize,
    /// Raw values that the column's fast path accepts: one bit for unquoted values, and one for quoted values.
    raw: u8,
    /// The other fields, which the fast path does not need.
    conversion: Box<Conversion>,
}

struct Conversion {
    context: Context,
    requested: DataType,
    /// Kafka Connect's encoding, unless all values are in MySQL's text format.
    connect: Option<ConnectEncoding>,
    /// True if the column's fast path converts its values like any other value.
    has_fast_path: bool,
}

/// Kafka Connect's encoding of a column's values.
pub(crate) struct ConnectEncoding {
    modes: Modes,
    /// Encoding of all numbers, if it does not depend on the value.
    pub numbers: Option<Encoding>,
    /// Scale of decimals, if all text is a decimal in base64.
    pub scale: Option<i32>,
}

/// Values with and without quotes.
const ANY: u8 = 0b11;

impl Converter {
    /// Returns whether the column's fast path accepts all values in raw form.
    #[inline(always)]
    pub fn takes_any(&self) -> bool {
        self.raw == ANY
    }

    /// Returns whether the column's fast path accepts values with (or without) quotes.
    #[inline(always)]
    pub fn takes(&self, is_quoted: bool) -> bool {
        self.raw >> u8::from(is_quoted) & 1 == 1
    }

    /// Returns Kafka Connect's encoding, unless all values are in MySQL's text format.
    pub fn connect(&self) -> Option<&ConnectEncoding> {
        self.conversion.connect.as_ref()
    }

    /// Decodes a value, if it is in an encoding of Kafka Connect.
    #[inline(always)]
    pub fn decode<'a>(&self, value: Value<'a>, arena: &'a Bump) -> Result<Value<'a>> {
        match self.connect() {
            Some(connect) if !value.is_null() => {
                connect::decode(value, &self.conversion.connect_column(connect.modes), arena)
            }
            _ => Ok(value),
        }
    }

    /// Fast path: decodes an integer that is a date or time.
    pub fn decode_integer(&self, number: i64) -> Option<Value<'static>> {
        connect::of_integer(self.connect()?.numbers?, number)
    }

    /// Fast path: decodes a decimal in base64.
    pub fn decode_decimal(&self, base64: &str) -> Option<Value<'static>> {
        connect::short_decimal(base64, self.connect()?.scale?, &self.conversion.requested)
            .map(Value::Unscaled)
    }

    /// Appends a decoded value. On error, appends null and returns the reason.
    #[inline(always)]
    pub fn append(&self, value: &Value<'_>, column: &mut dyn ColumnBuilder) -> Result<()> {
        if value.is_null() {
            column.push_nulls(1);
            return Ok(());
        }
        let Conversion {
            context,
            connect,
            has_fast_path,
            ..
        } = &*self.conversion;
        let is_decoded = connect.is_some() && *has_fast_path;
        if (is_decoded || value.plain().is_none()) && column.try_push(value) {
            return Ok(());
        }
        column.append(&value.as_text(), context)
    }
}

impl Conversion {
    fn connect_column(&self, modes: Modes) -> connect::Column<'_> {
        let Context {
            by_message,
            by_user,
            ..
        } = &self.context;
        connect::Column {
            declared: by_message.as_deref(),
            configured: by_user.as_deref(),
            requested: &self.requested,
            modes,
        }
    }
}

/// Converters of rows, by the declarations of their envelopes: types, and the dialect as the address of its quirks.
#[derive(Default)]
pub(crate) struct KnownConverters(HashMap<(usize, Option<usize>), Vec<Converter>>);

impl KnownConverters {
    /// Number of declarations to keep. Messages of that many tables can alternate before converters are made again.
    const MAX: usize = 128;

    #[inline]
    pub fn get(
        &mut self,
        envelope: &Envelope<'_>,
        columns: &ColumnOptions,
        types: &DeclaredTypes,
    ) -> &[Converter] {
        let key = (std::ptr::from_ref(envelope.quirks).addr(), envelope.types);
        if self.0.len() >= Self::MAX && !self.0.contains_key(&key) {
            self.0.clear();
        }
        self.0.entry(key).or_insert_with(|| {
            (0..columns.fields.len())
                .map(|column| columns.converter(column, envelope, types))
                .collect()
        })
    }
}

/// Returns whether the conversion of values to this type depends on the declared type of their column.
pub(super) fn depends_on_declared(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Decimal128(_, 0) | DataType::Decimal256(_, 0)
        )
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::Struct(_)
        )
}
