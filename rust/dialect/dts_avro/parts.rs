//! Compiled decoding of scalars and flat records. It reads the requested fields and skips the others.

use crate::error::Result;
use crate::wire::avro::Reader;
pub(super) use crate::wire::avro_schema::Choice;
use crate::wire::avro_schema::{Schema, Schemas};

/// Type that a requested field must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedType {
    Number,
    Double,
    Text,
    Bytes,
    /// An enum's symbol, or a string.
    Symbol,
}

impl ExpectedType {
    fn name(self) -> &'static str {
        match self {
            ExpectedType::Number => "a number",
            ExpectedType::Double => "a double",
            ExpectedType::Text => "a string",
            ExpectedType::Bytes => "bytes",
            ExpectedType::Symbol => "an enum or a string",
        }
    }
}

/// Encoding of a scalar.
#[derive(Debug)]
pub(super) enum ScalarEncoding {
    Null,
    Number,
    Single,
    Double,
    /// Bytes, or text that is not validated yet.
    Bytes,
    /// An enum, with its symbols.
    Enum(Vec<String>),
}

impl ScalarEncoding {
    pub fn compile(
        schemas: &Schemas,
        schema: &Schema,
        expected: ExpectedType,
    ) -> Result<Self, String> {
        let encoding = match (schema, expected) {
            (Schema::Null, _) => Some(ScalarEncoding::Null),
            (Schema::Int | Schema::Long, ExpectedType::Number) => Some(ScalarEncoding::Number),
            (Schema::Float, ExpectedType::Double) => Some(ScalarEncoding::Single),
            (Schema::Double, ExpectedType::Double) => Some(ScalarEncoding::Double),
            (Schema::String, ExpectedType::Text | ExpectedType::Symbol)
            | (Schema::Bytes, ExpectedType::Bytes) => Some(ScalarEncoding::Bytes),
            (named, ExpectedType::Symbol) => schemas
                .symbols(named)
                .map(|symbols| ScalarEncoding::Enum(symbols.to_vec())),
            _ => None,
        };
        encoding.ok_or_else(|| format!("is not {}", expected.name()))
    }
}

impl Choice<ScalarEncoding> {
    /// Reads bytes; `None` for null.
    #[inline(always)]
    pub fn bytes<'a>(&self, reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
        match self.pick(reader)? {
            ScalarEncoding::Bytes => reader.bytes().map(Some),
            _ => Ok(None),
        }
    }

    /// Reads an integer, or a double as its bits; `None` for null.
    #[inline(always)]
    pub fn number(&self, reader: &mut Reader<'_>) -> Result<Option<i64>> {
        match self.pick(reader)? {
            ScalarEncoding::Number => reader.long().map(Some),
            ScalarEncoding::Double => reader.double().map(|double| Some(double.to_bits() as i64)),
            ScalarEncoding::Single => reader
                .float()
                .map(|single| Some(f64::from(single).to_bits() as i64)),
            _ => Ok(None),
        }
    }

    /// Reads the symbol of an enum, or a string. Returns whether it is a non-empty string.
    pub fn is_text(&self, reader: &mut Reader<'_>) -> Result<bool> {
        match self.pick(reader)? {
            ScalarEncoding::Enum(symbols) => reader.index(symbols.len(), "symbol").map(|_| false),
            ScalarEncoding::Bytes => reader.is_text(),
            _ => Ok(false),
        }
    }

    /// Reads the symbol of an enum, or a string.
    pub fn symbol<'t, 'a: 't>(&'t self, reader: &mut Reader<'a>) -> Result<&'t str> {
        match self.pick(reader)? {
            ScalarEncoding::Enum(symbols) => {
                let symbol = reader.index(symbols.len(), "symbol")?;
                Ok(symbols.get(symbol).map_or("", String::as_str))
            }
            ScalarEncoding::Bytes => reader.text(),
            _ => Ok(""),
        }
    }
}

/// Path and expected type of a field that is read from a record.
pub(super) type RequestedField = (&'static str, ExpectedType);

fn find(requested: &[RequestedField], path: &str) -> Option<(usize, ExpectedType)> {
    let mut requested = requested.iter().enumerate();
    let (at, (_, expected)) = requested.find(|(_, (requested, _))| *requested == path)?;
    Some((at, *expected))
}

/// A record flattened to a list of fields, some of them requested. Nested records are inlined, because Avro writes no
/// bytes around them.
#[derive(Debug, Default)]
pub(super) struct RecordPlan {
    fields: Vec<FieldPlan>,
    /// Layout of a published record with a fast path.
    layout: RecordLayout,
}

/// Layouts of the records in the published schemas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecordLayout {
    #[default]
    Other,
    /// Integer.
    NumberThenBytes,
    /// Decimal.
    BytesThenNumbers,
    /// TextObject, TextGeometry and BinaryGeometry.
    SkippedThenBytes,
    /// Character and BinaryObject.
    SecondThenFirst,
    /// Field.
    BytesAndNumber,
    /// Timestamp.
    Numbers,
    /// DateTime.
    OptionalNumbers,
}

#[derive(Debug)]
enum FieldPlan {
    /// A requested field of bytes, with its index in the result.
    Bytes(usize, Choice<ScalarEncoding>),
    /// A requested field of a number, with its index in the result.
    Number(usize, Choice<ScalarEncoding>),
    /// An integer that is not requested.
    SkippedInteger,
    Skipped(Schema),
}

impl FieldPlan {
    fn is_bytes(&self, index: usize) -> bool {
        matches!(self, FieldPlan::Bytes(at, Choice::Fixed(ScalarEncoding::Bytes)) if *at == index)
    }

    fn is_number(&self, index: usize) -> bool {
        matches!(self, FieldPlan::Number(at, Choice::Fixed(ScalarEncoding::Number)) if *at == index)
    }

    /// Returns whether it is a union of null and a number.
    fn is_optional_number(&self, index: usize) -> bool {
        let FieldPlan::Number(at, Choice::Union(branches)) = self else {
            return false;
        };
        *at == index && matches!(**branches, [ScalarEncoding::Null, ScalarEncoding::Number])
    }
}

impl RecordLayout {
    fn of(fields: &[FieldPlan]) -> Self {
        match fields {
            [FieldPlan::SkippedInteger, value] if value.is_bytes(0) => {
                RecordLayout::NumberThenBytes
            }
            [value, FieldPlan::SkippedInteger, FieldPlan::SkippedInteger] if value.is_bytes(0) => {
                RecordLayout::BytesThenNumbers
            }
            [FieldPlan::Skipped(Schema::String), value] if value.is_bytes(0) => {
                RecordLayout::SkippedThenBytes
            }
            [first, second] if first.is_bytes(1) && second.is_bytes(0) => {
                RecordLayout::SecondThenFirst
            }
            [first, second] if first.is_bytes(0) && second.is_number(0) => {
                RecordLayout::BytesAndNumber
            }
            [first, second] if first.is_number(0) && second.is_number(1) => RecordLayout::Numbers,
            fields
                if !fields.is_empty()
                    && fields
                        .iter()
                        .enumerate()
                        .all(|(at, field)| field.is_optional_number(at)) =>
            {
                RecordLayout::OptionalNumbers
            }
            _ => RecordLayout::Other,
        }
    }
}

/// The requested values of a record: bytes, then numbers, each in the order of the request.
type RequestedValues<'a, const BYTES: usize, const NUMBERS: usize> =
    ([Option<&'a [u8]>; BYTES], [Option<i64>; NUMBERS]);

impl RecordPlan {
    /// Compiles the decoding of a record's requested fields: bytes, then numbers.
    pub fn compile(
        schemas: &Schemas,
        schema: &Schema,
        bytes: &[RequestedField],
        numbers: &[RequestedField],
    ) -> Result<Self, String> {
        let mut plan = RecordPlan::default();
        plan.add(schemas, schema, "", (bytes, numbers))?;
        let name = schemas.named(schema).map_or("", |named| &named.name);
        plan.layout = RecordLayout::of(&plan.fields);
        let (mut found_bytes, mut found_numbers) = (Vec::new(), Vec::new());
        for field in &plan.fields {
            match field {
                FieldPlan::Bytes(at, _) => found_bytes.push(*at),
                FieldPlan::Number(at, _) => found_numbers.push(*at),
                _ => {}
            }
        }
        match missing(bytes, &found_bytes).or(missing(numbers, &found_numbers)) {
            Some(path) => Err(format!("{name} has no field {path}")),
            None => Ok(plan),
        }
    }

    fn add(
        &mut self,
        schemas: &Schemas,
        schema: &Schema,
        parent: &str,
        requested: (&[RequestedField], &[RequestedField]),
    ) -> Result<(), String> {
        let (bytes, numbers) = requested;
        for field in schemas.fields(schema).unwrap_or_default() {
            let path = format!("{parent}{}", field.name);
            let inner = format!("{path}.");
            let compile = |expected| {
                compile_scalar(schemas, &field.schema, expected)
                    .map_err(|what| format!("{path} {what}"))
            };
            if let Some((at, expected)) = find(bytes, &path) {
                self.fields.push(FieldPlan::Bytes(at, compile(expected)?));
            } else if let Some((at, expected)) = find(numbers, &path) {
                self.fields.push(FieldPlan::Number(at, compile(expected)?));
            } else if schemas.fields(&field.schema).is_some()
                && bytes
                    .iter()
                    .chain(numbers)
                    .any(|(path, _)| path.starts_with(&inner))
            {
                self.add(schemas, &field.schema, &inner, requested)?;
            } else if matches!(field.schema, Schema::Int | Schema::Long) {
                self.fields.push(FieldPlan::SkippedInteger);
            } else {
                self.fields.push(FieldPlan::Skipped(field.schema.clone()));
            }
        }
        Ok(())
    }

    /// Returns whether each field is a union of null and a requested number, in the request's order.
    pub fn has_optional_numbers(&self) -> bool {
        self.layout == RecordLayout::OptionalNumbers
    }

    #[inline(always)]
    pub fn read<'a, const B: usize, const N: usize>(
        &self,
        reader: &mut Reader<'a>,
        schemas: &Schemas,
    ) -> Result<RequestedValues<'a, B, N>> {
        let mut found = ([None; B], [None; N]);
        let (bytes, numbers) = &mut found;
        match (self.layout, &mut bytes[..], &mut numbers[..]) {
            (RecordLayout::NumberThenBytes, [value], _) => {
                reader.long()?;
                *value = Some(reader.bytes()?);
            }
            (RecordLayout::BytesThenNumbers, [value], _) => {
                *value = Some(reader.bytes()?);
                reader.long()?;
                reader.long()?;
            }
            (RecordLayout::SkippedThenBytes, [value], _) => {
                reader.bytes()?;
                *value = Some(reader.bytes()?);
            }
            (RecordLayout::SecondThenFirst, [first, second], _) => {
                *second = Some(reader.bytes()?);
                *first = Some(reader.bytes()?);
            }
            (RecordLayout::BytesAndNumber, [value], [number]) => {
                *value = Some(reader.bytes()?);
                *number = Some(reader.long()?);
            }
            (RecordLayout::Numbers, _, [first, second]) => {
                *first = Some(reader.long()?);
                *second = Some(reader.long()?);
            }
            (RecordLayout::OptionalNumbers, _, numbers) => {
                for number in numbers {
                    *number = reader.optional_long()?;
                }
            }
            _ => self.read_each(reader, schemas, bytes, numbers)?,
        }
        Ok(found)
    }

    fn read_each<'a>(
        &self,
        reader: &mut Reader<'a>,
        schemas: &Schemas,
        bytes: &mut [Option<&'a [u8]>],
        numbers: &mut [Option<i64>],
    ) -> Result<()> {
        for field in &self.fields {
            match field {
                FieldPlan::Bytes(at, encoding) => {
                    let found = encoding.bytes(reader)?;
                    bytes
                        .get_mut(*at)
                        .into_iter()
                        .for_each(|slot| *slot = found);
                }
                FieldPlan::Number(at, encoding) => {
                    let found = encoding.number(reader)?;
                    numbers
                        .get_mut(*at)
                        .into_iter()
                        .for_each(|slot| *slot = found);
                }
                FieldPlan::SkippedInteger => reader.long().map(drop)?,
                FieldPlan::Skipped(schema) => schemas.skip(schema, reader)?,
            }
        }
        Ok(())
    }
}

/// Returns the path of the first requested field that was not found.
fn missing(requested: &[RequestedField], found: &[usize]) -> Option<&'static str> {
    requested
        .iter()
        .enumerate()
        .find(|(at, _)| !found.contains(at))
        .map(|(_, (path, _))| *path)
}

/// Compiles the decoding of a scalar.
pub(super) fn compile_scalar(
    schemas: &Schemas,
    schema: &Schema,
    expected: ExpectedType,
) -> Result<Choice<ScalarEncoding>, String> {
    Choice::compile(schema, |branch| {
        ScalarEncoding::compile(schemas, branch, expected)
    })
}
