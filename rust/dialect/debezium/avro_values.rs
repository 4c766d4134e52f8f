//! Values of row images in Avro. Each column has a reader, compiled from Avro's type and the attributes of Kafka
//! Connect's converter.

use bumpalo::Bump;

use super::connect_schema::Schema as ConnectSchema;
use crate::connect::{decimal_text, iso, of_integer, sign_extended, unsigned, zoned};
use crate::error::{Kind, Result};
use crate::mysql::number::ParseError;
use crate::mysql::types::{DeclaredType, Encoding};
use crate::value::{Unread, Value};
use crate::wire::avro::Reader;
use crate::wire::avro_json::to_json;
use crate::wire::avro_schema::{Attributes, Choice, Field, NamedKind, Parameters, Schema, Schemas};

/// Reader of the values of a type.
#[derive(Debug)]
pub(super) enum ValueReader {
    Null,
    Boolean,
    /// An integer.
    Number,
    /// The signed form of an unsigned integer: negative from 2^63 on.
    Unsigned,
    /// An integer that encodes a date or a time.
    Epoch(Encoding),
    Single,
    Double,
    Text,
    /// Text of an instant.
    Zoned,
    /// Text of a local date and time.
    Iso,
    Symbol(Vec<String>),
    Bytes(BytesLayout),
    /// The number of a `bit`.
    BigEndian(BytesLayout),
    /// A decimal of this scale.
    Decimal(BytesLayout, i32),
    /// A decimal whose schema has no scale.
    DecimalWithoutScale(BytesLayout),
    /// A record of a scale and a decimal.
    VariableDecimal(PairReader),
    /// A record of an SRID and a WKB.
    Geometry(PairReader, Schema),
    /// Any other type: JSON text.
    Json(Schema),
    /// A value that is not needed.
    Skip(Schema),
}

/// Layout of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum BytesLayout {
    Prefixed,
    Fixed(usize),
}

impl BytesLayout {
    #[inline]
    fn read<'a>(self, reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        match self {
            BytesLayout::Prefixed => reader.bytes(),
            BytesLayout::Fixed(length) => reader.take(length, "a fixed"),
        }
    }
}

/// Context of a reader, besides the bytes.
#[derive(Clone, Copy)]
pub(super) struct ValueContext<'p, 'a> {
    pub schemas: &'p Schemas,
    pub arena: &'a Bump,
    /// True if values are converted to a column's type. Values of a map are text, and text stays as it is.
    pub is_typed: bool,
}

impl ValueReader {
    /// Compiles the reader of a column's type, or of one branch of its union.
    pub fn compile(schemas: &Schemas, schema: &Schema, declared: &ConnectSchema) -> Self {
        let (_, encoding) = declared.encoding();
        let plain = schema.plain();
        let tidb_type = declared.tidb_type();
        match (tidb_type.as_deref(), plain, bytes_layout(schemas, plain)) {
            (Some("BIT"), _, Some(layout)) => return ValueReader::BigEndian(layout),
            (Some("BIGINT UNSIGNED"), Schema::Long, _) => return ValueReader::Unsigned,
            _ => {}
        }
        match (plain, encoding) {
            (
                Schema::Int | Schema::Long,
                Encoding::Days | Encoding::DateTime(_) | Encoding::Time(_) | Encoding::Instant(_),
            ) => ValueReader::Epoch(encoding),
            (Schema::Long, _) if declared.declared("", false).encoding == Encoding::Unsigned => {
                ValueReader::Unsigned
            }
            (Schema::String, Encoding::Zoned) => ValueReader::Zoned,
            (Schema::String, Encoding::Iso) => ValueReader::Iso,
            (Schema::Named(_), Encoding::VariableDecimal) => {
                match PairReader::compile(schemas, plain, ["scale", "value"]) {
                    Some(pair) => ValueReader::VariableDecimal(pair),
                    None => ValueReader::Json(plain.clone()),
                }
            }
            (Schema::Named(_), Encoding::Geometry) => {
                match PairReader::compile(schemas, plain, ["srid", "wkb"]) {
                    Some(pair) => ValueReader::Geometry(pair, plain.clone()),
                    None => ValueReader::Json(plain.clone()),
                }
            }
            _ => match (bytes_layout(schemas, plain), encoding) {
                (Some(layout), Encoding::Decimal(scale)) => ValueReader::Decimal(layout, scale),
                (Some(layout), Encoding::DecimalWithoutScale) => {
                    ValueReader::DecimalWithoutScale(layout)
                }
                _ => ValueReader::plain(schemas, plain),
            },
        }
    }

    /// Compiles the reader of a type without logical types.
    pub fn plain(schemas: &Schemas, schema: &Schema) -> Self {
        let schema = schema.plain();
        match schema {
            Schema::Null => ValueReader::Null,
            Schema::Boolean => ValueReader::Boolean,
            Schema::Int | Schema::Long => ValueReader::Number,
            Schema::Float => ValueReader::Single,
            Schema::Double => ValueReader::Double,
            Schema::String => ValueReader::Text,
            other => match (bytes_layout(schemas, other), schemas.symbols(other)) {
                (Some(layout), _) => ValueReader::Bytes(layout),
                (_, Some(symbols)) => ValueReader::Symbol(symbols.to_vec()),
                _ => ValueReader::Json(other.clone()),
            },
        }
    }

    /// Reads a value. A value that cannot be decoded is an error of its cell only.
    #[inline]
    pub fn read<'a>(
        &self,
        reader: &mut Reader<'a>,
        context: ValueContext<'_, 'a>,
    ) -> Result<Value<'a>> {
        let ValueContext {
            schemas,
            arena,
            is_typed,
        } = context;
        Ok(match self {
            ValueReader::Null => Value::Null,
            ValueReader::Boolean => Value::Bool(if reader.boolean()? { "true" } else { "false" }),
            ValueReader::Number => Value::Scaled(reader.long()?, 0),
            ValueReader::Unsigned => unsigned(Value::Scaled(reader.long()?, 0), arena)?,
            ValueReader::Epoch(encoding) => epoch(*encoding, reader, arena)?,
            ValueReader::Single => Value::Single(reader.float()?),
            ValueReader::Double => Value::Double(reader.double()?),
            ValueReader::Text => Value::Text(reader.text()?),
            ValueReader::Zoned if is_typed => {
                let text = reader.text()?;
                zoned(Value::Text(text)).unwrap_or_else(|fault| {
                    unread(
                        fault.kind(),
                        &fault.into_parts().what,
                        text.as_bytes(),
                        arena,
                    )
                })
            }
            ValueReader::Iso if is_typed => iso(Value::Text(reader.text()?), arena),
            ValueReader::Zoned | ValueReader::Iso => Value::Text(reader.text()?),
            ValueReader::Symbol(symbols) => {
                let symbol = reader.index(symbols.len(), "symbol")?;
                Value::Text(arena.alloc_str(symbols.get(symbol).map_or("", String::as_str)))
            }
            ValueReader::BigEndian(layout) => big_endian(layout.read(reader)?, arena),
            ValueReader::Bytes(layout) => Value::Bytes(layout.read(reader)?),
            ValueReader::Decimal(layout, scale) => decimal(layout.read(reader)?, *scale, arena),
            ValueReader::DecimalWithoutScale(layout) => unread(
                Kind::Type,
                "cannot read a decimal whose schema has no scale",
                layout.read(reader)?,
                arena,
            ),
            ValueReader::VariableDecimal(pair) => {
                let start = reader.at();
                let pair = pair.read(reader, context)?;
                variable_decimal(pair, reader.since(start), arena)
            }
            ValueReader::Geometry(pair, _) if is_typed => {
                let start = reader.at();
                let pair = pair.read(reader, context)?;
                geometry(pair, reader.since(start), arena)
            }
            ValueReader::Json(schema) | ValueReader::Geometry(_, schema) => {
                nested(&to_json(schemas, schema, reader)?, arena)
            }
            ValueReader::Skip(schema) => schemas.skip(schema, reader).map(|()| Value::Null)?,
        })
    }
}

/// Returns the JSON text of a record, array or map. A union may also hold a scalar.
fn nested<'a>(json: &str, arena: &'a Bump) -> Value<'a> {
    let text = arena.alloc_str(json);
    if text.starts_with(['{', '[']) {
        Value::Nested(text)
    } else {
        Value::Text(text)
    }
}

fn bytes_layout(schemas: &Schemas, schema: &Schema) -> Option<BytesLayout> {
    match (schema, schemas.named(schema).map(|named| &named.kind)) {
        (Schema::Bytes, _) => Some(BytesLayout::Prefixed),
        (_, Some(NamedKind::Fixed(length))) => Some(BytesLayout::Fixed(*length)),
        _ => None,
    }
}

#[cold]
fn unread<'a>(kind: Kind, why: &str, bytes: &'a [u8], arena: &'a Bump) -> Value<'a> {
    Value::Unread(arena.alloc(Unread {
        kind,
        why: arena.alloc_str(why),
        bytes,
    }))
}

#[inline]
fn epoch<'a>(encoding: Encoding, reader: &mut Reader<'a>, arena: &'a Bump) -> Result<Value<'a>> {
    let start = reader.at();
    let number = reader.long()?;
    Ok(match of_integer(encoding, number) {
        Some(value) => value,
        None => unread(
            Kind::Range,
            &format!("{number} does not fit into {}", epoch_name(encoding)),
            reader.since(start),
            arena,
        ),
    })
}

fn epoch_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Days => "a date",
        Encoding::Time(_) => "a time in microseconds",
        _ => "a date and time in microseconds",
    }
}

/// Decodes an unsigned integer of at most 64 bits.
fn big_endian<'a>(bytes: &'a [u8], arena: &'a Bump) -> Value<'a> {
    if bytes.len() > size_of::<u64>() {
        return unread(
            Kind::Range,
            "a bit value of more than 8 bytes does not fit into 64 bits",
            bytes,
            arena,
        );
    }
    let number = bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    Value::Number(arena.alloc_str(&number.to_string()))
}

/// Decodes the big-endian two's complement of an unscaled integer.
#[inline]
fn decimal<'a>(bytes: &'a [u8], scale: i32, arena: &'a Bump) -> Value<'a> {
    if let (1..=8, 0..=18) = (bytes.len(), scale) {
        return Value::Scaled(
            i64::from_be_bytes(sign_extended(bytes)),
            scale.unsigned_abs(),
        );
    }
    match decimal_text(bytes, scale) {
        Ok(decimal) => Value::Number(arena.alloc_str(&decimal)),
        Err(ParseError::Type) => unread(Kind::Type, "a decimal has no bytes", bytes, arena),
        Err(ParseError::Range) => {
            let why = format!(
                "a decimal of {} bytes and scale {scale} does not fit into 256 bits",
                bytes.len()
            );
            unread(Kind::Range, &why, bytes, arena)
        }
    }
}

fn variable_decimal<'a>(pair: [Value<'a>; 2], raw: &'a [u8], arena: &'a Bump) -> Value<'a> {
    match pair {
        [Value::Scaled(scale, 0), Value::Bytes(bytes)] => {
            decimal(bytes, i32::try_from(scale).unwrap_or(i32::MAX), arena)
        }
        _ => unread(
            Kind::Type,
            "a VariableScaleDecimal has no scale or no value",
            raw,
            arena,
        ),
    }
}

/// Returns MySQL's storage format: the SRID, little-endian, and the WKB. A missing SRID is 0.
fn geometry<'a>(pair: [Value<'a>; 2], raw: &'a [u8], arena: &'a Bump) -> Value<'a> {
    let srid = match pair[0] {
        Value::Null => Some(0),
        Value::Scaled(number, 0) => i32::try_from(number).ok(),
        _ => None,
    };
    match (srid, pair[1]) {
        (Some(srid), Value::Bytes(wkb)) => {
            let bytes = srid.to_le_bytes().into_iter().chain(wkb.iter().copied());
            Value::Bytes(arena.alloc_slice_fill_iter(bytes.collect::<Vec<_>>()))
        }
        _ => unread(Kind::Type, "a geometry has no WKB", raw, arena),
    }
}

/// Reader of two fields of a record.
#[derive(Debug)]
pub(super) struct PairReader(Vec<(Option<usize>, Choice<ValueReader>)>);

impl PairReader {
    fn compile(schemas: &Schemas, record: &Schema, names: [&str; 2]) -> Option<Self> {
        let fields = schemas.fields(record)?.iter().map(|field| {
            let slot = names.iter().position(|name| *name == field.name);
            let reader = match slot {
                Some(_) => Choice::compile(&field.schema, |branch| {
                    Ok(ValueReader::plain(schemas, branch))
                })
                .ok()?,
                None => Choice::Fixed(ValueReader::Skip(field.schema.clone())),
            };
            Some((slot, reader))
        });
        fields.collect::<Option<_>>().map(PairReader)
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a>,
        context: ValueContext<'_, 'a>,
    ) -> Result<[Value<'a>; 2]> {
        let mut pair = [Value::Null; 2];
        for (slot, field) in &self.0 {
            let value = field.pick(reader)?.read(reader, context)?;
            if let Some(slot) = slot.and_then(|slot| pair.get_mut(slot)) {
                *slot = value;
            }
        }
        Ok(pair)
    }
}

/// Precision that Connect's converter writes if it does not know the precision.
const UNKNOWN_PRECISION: u64 = 64;

/// Returns Connect's schema of a column, from the type's attributes. In a union, the type is the first branch that is
/// not null.
pub(super) fn connect_schema(schemas: &Schemas, field: &Field) -> ConnectSchema {
    let branch = match field.schema.plain() {
        Schema::Union(branches) => branches
            .iter()
            .find(|branch| *branch.plain() != Schema::Null),
        _ => Some(&field.schema),
    };
    match branch {
        Some(branch) => connect_branch(schemas, field, branch),
        None => ConnectSchema::default(),
    }
}

/// Returns Connect's schema of one branch of a column's union.
pub(super) fn connect_branch(schemas: &Schemas, field: &Field, branch: &Schema) -> ConnectSchema {
    let none = Attributes::default();
    let attributes = schemas.attributes(branch).unwrap_or(&none);
    let mut parameters = attributes.connect_parameters.clone().unwrap_or_default();
    parameters.extend(field.parameters.clone().unwrap_or_default());
    add_decimal(attributes, &mut parameters);
    ConnectSchema {
        tidb_type: None,
        kind: Some(connect_kind(schemas, branch.plain(), attributes).to_owned()),
        name: attributes
            .connect_name
            .clone()
            .or_else(|| attributes.logical_type.clone()),
        field: Some(field.name.clone()),
        fields: None,
        parameters: Some(parameters),
    }
}

/// Copies precision and scale of a decimal from Avro's attributes to Connect's parameters.
fn add_decimal(attributes: &Attributes, parameters: &mut Parameters) {
    let precision = attributes
        .precision
        .filter(|precision| *precision != UNKNOWN_PRECISION);
    if let Some(scale) = attributes.scale {
        parameters.entry("scale").or_insert(scale.into());
    }
    if let Some(precision) = precision {
        parameters
            .entry("connect.decimal.precision")
            .or_insert(precision.into());
    }
}

fn connect_kind<'s>(schemas: &Schemas, plain: &Schema, attributes: &'s Attributes) -> &'s str {
    match plain {
        Schema::Int => attributes.connect_type.as_deref().unwrap_or("int32"),
        Schema::Long => "int64",
        Schema::Float => "float",
        Schema::Double => "double",
        Schema::Boolean => "boolean",
        Schema::Bytes => "bytes",
        Schema::Array(_) => "array",
        Schema::Map(_) => "map",
        other => match schemas.named(other).map(|named| &named.kind) {
            Some(NamedKind::Fixed(_)) => "bytes",
            Some(NamedKind::Record(_)) => "struct",
            _ => "string",
        },
    }
}

/// Returns the declared type of a column. The values are already decoded, unless their form depends on the requested
/// type.
pub(super) fn declared_type(column: &ConnectSchema, spelling: &str) -> DeclaredType {
    if column.tidb_type().is_some() {
        return DeclaredType::parse(spelling);
    }
    let mut declared = column.declared(spelling, false);
    if !matches!(
        declared.encoding,
        Encoding::Bits | Encoding::Geometry | Encoding::ZonedTime
    ) {
        declared.encoding = Encoding::Plain;
    }
    declared
}
