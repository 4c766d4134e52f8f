//! The single values of a record, compiled: which of them are wanted, and how to step over the others.

use crate::error::{Fault, Kind, Result};
use crate::wire::avro::Reader;
use crate::wire::avro_schema::{Schema, Schemas};

/// What a field must hold to be of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedType {
    Number,
    Double,
    Text,
    Bytes,
    Word,
}

impl ExpectedType {
    fn name(self) -> &'static str {
        match self {
            ExpectedType::Number => "a number",
            ExpectedType::Double => "a double",
            ExpectedType::Text => "a string",
            ExpectedType::Bytes => "bytes",
            ExpectedType::Word => "an enum or a string",
        }
    }
}

/// How a single value is written.
#[derive(Debug)]
pub(super) enum ScalarEncoding {
    Null,
    Number,
    Single,
    Double,
    /// Bytes, or text before anybody has looked whether it is UTF-8.
    Bytes,
    /// An enum's symbols.
    Words(Vec<String>),
}

impl ScalarEncoding {
    pub fn compile(schemas: &Schemas, schema: &Schema, expected: ExpectedType) -> Result<Self, String> {
        let written = match (schema, expected) {
            (Schema::Null, _) => Some(ScalarEncoding::Null),
            (Schema::Int | Schema::Long, ExpectedType::Number) => Some(ScalarEncoding::Number),
            (Schema::Float, ExpectedType::Double) => Some(ScalarEncoding::Single),
            (Schema::Double, ExpectedType::Double) => Some(ScalarEncoding::Double),
            (Schema::String, ExpectedType::Text | ExpectedType::Word) | (Schema::Bytes, ExpectedType::Bytes) => Some(ScalarEncoding::Bytes),
            (named, ExpectedType::Word) => schemas.symbols(named).map(|symbols| ScalarEncoding::Words(symbols.to_vec())),
            _ => None,
        };
        written.ok_or_else(|| format!("is not {}", expected.name()))
    }
}

/// What stands in one place: always the same, or one of a union's branches.
#[derive(Debug)]
pub(super) enum Choice<T> {
    Always(T),
    Branch(Vec<T>),
}

impl<T> Choice<T> {
    pub fn compile(schema: &Schema, mut branch: impl FnMut(&Schema) -> Result<T, String>) -> Result<Self, String> {
        Ok(match schema {
            Schema::Union(branches) => Choice::Branch(branches.iter().map(branch).collect::<Result<_, _>>()?),
            other => Choice::Always(branch(other)?),
        })
    }

    pub fn any(&self, test: impl Fn(&T) -> bool) -> bool {
        match self {
            Choice::Always(one) => test(one),
            Choice::Branch(branches) => branches.iter().any(test),
        }
    }

    #[inline(always)]
    pub fn pick(&self, reader: &mut Reader<'_>) -> Result<&T> {
        match self {
            Choice::Always(one) => Ok(one),
            Choice::Branch(branches) => {
                let branch = reader.index(branches.len(), "branch")?;
                branches.get(branch).ok_or_else(|| Fault::new(Kind::Syntax, "found no branch").at(reader.at()))
            }
        }
    }
}

impl Choice<ScalarEncoding> {
    /// Bytes, or the symbol of an enum; `None` for null.
    #[inline(always)]
    pub fn bytes<'a>(&self, reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
        match self.pick(reader)? {
            ScalarEncoding::Bytes => reader.bytes().map(Some),
            _ => Ok(None),
        }
    }

    /// A number, or a double's bits; `None` for null.
    #[inline(always)]
    pub fn number(&self, reader: &mut Reader<'_>) -> Result<Option<i64>> {
        match self.pick(reader)? {
            ScalarEncoding::Number => reader.long().map(Some),
            ScalarEncoding::Double => reader.double().map(|double| Some(double.to_bits() as i64)),
            ScalarEncoding::Single => reader.float().map(|single| Some(f64::from(single).to_bits() as i64)),
            _ => Ok(None),
        }
    }

    /// The symbol of an enum, or a string in place of it.
    pub fn word<'t, 'a: 't>(&'t self, reader: &mut Reader<'a>) -> Result<&'t str> {
        match self.pick(reader)? {
            ScalarEncoding::Words(words) => {
                let word = reader.index(words.len(), "symbol")?;
                Ok(words.get(word).map_or("", String::as_str))
            }
            ScalarEncoding::Bytes => reader.text(),
            _ => Ok(""),
        }
    }
}

/// A field that is wanted of a record, by the path to it, and what it must hold.
pub(super) type Wanted = (&'static str, ExpectedType);

/// A record as a row of single values, of which some are wanted. Records within it are part of the row: Avro writes nothing
/// around them.
#[derive(Debug, Default)]
pub(super) struct RecordPlan {
    parts: Vec<FieldPlan>,
    /// If the record is one of the published ones, which are read without a look at each part.
    layout: Layout,
}

/// The records of the published schemas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Layout {
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
    MayBeNumbers,
}

#[derive(Debug)]
enum FieldPlan {
    /// The place of a wanted field among those that are bytes.
    Bytes(usize, Choice<ScalarEncoding>),
    /// The place of a wanted field among those that are numbers.
    Number(usize, Choice<ScalarEncoding>),
    /// An integer that nobody wants.
    Integer,
    Skipped(Schema),
}

impl FieldPlan {
    fn is_bytes(&self, place: usize) -> bool {
        matches!(self, FieldPlan::Bytes(at, Choice::Always(ScalarEncoding::Bytes)) if *at == place)
    }

    fn is_number(&self, place: usize) -> bool {
        matches!(self, FieldPlan::Number(at, Choice::Always(ScalarEncoding::Number)) if *at == place)
    }

    /// Whether it is a union of null and a number.
    fn may_be_number(&self, place: usize) -> bool {
        let FieldPlan::Number(at, Choice::Branch(branches)) = self else { return false };
        *at == place && matches!(**branches, [ScalarEncoding::Null, ScalarEncoding::Number])
    }
}

impl Layout {
    fn of(parts: &[FieldPlan]) -> Self {
        match parts {
            [FieldPlan::Integer, value] if value.is_bytes(0) => Layout::NumberThenBytes,
            [value, FieldPlan::Integer, FieldPlan::Integer] if value.is_bytes(0) => Layout::BytesThenNumbers,
            [FieldPlan::Skipped(Schema::String), value] if value.is_bytes(0) => Layout::SkippedThenBytes,
            [first, second] if first.is_bytes(1) && second.is_bytes(0) => Layout::SecondThenFirst,
            [first, second] if first.is_bytes(0) && second.is_number(0) => Layout::BytesAndNumber,
            [first, second] if first.is_number(0) && second.is_number(1) => Layout::Numbers,
            parts if !parts.is_empty() && parts.iter().enumerate().all(|(at, part)| part.may_be_number(at)) => Layout::MayBeNumbers,
            _ => Layout::Other,
        }
    }
}

/// What is wanted of a record: first what is bytes, then what is numbers; each in the order in which it was named.
type Found<'a, const BYTES: usize, const NUMBERS: usize> = ([Option<&'a [u8]>; BYTES], [Option<i64>; NUMBERS]);

impl RecordPlan {
    /// The bytes that are wanted, then the numbers.
    pub fn compile(schemas: &Schemas, schema: &Schema, bytes: &[Wanted], numbers: &[Wanted]) -> Result<Self, String> {
        let mut parts = RecordPlan::default();
        parts.add(schemas, schema, "", (bytes, numbers))?;
        let name = schemas.named(schema).map_or("", |named| &named.name);
        parts.layout = Layout::of(&parts.parts);
        let places = |is_it: fn(&FieldPlan) -> Option<usize>| parts.parts.iter().filter_map(is_it).collect::<Vec<_>>();
        let known_bytes = places(|part| if let FieldPlan::Bytes(at, _) = part { Some(*at) } else { None });
        let known_numbers = places(|part| if let FieldPlan::Number(at, _) = part { Some(*at) } else { None });
        match missing(bytes, &known_bytes).or(missing(numbers, &known_numbers)) {
            Some(path) => Err(format!("{name} has no field {path}")),
            None => Ok(parts),
        }
    }

    fn add(&mut self, schemas: &Schemas, schema: &Schema, within: &str, wanted: (&[Wanted], &[Wanted])) -> Result<(), String> {
        let (bytes, numbers) = wanted;
        for field in schemas.fields(schema).unwrap_or_default() {
            let path = format!("{within}{}", field.name);
            let inner = format!("{path}.");
            let place = |wanted: &[Wanted]| wanted.iter().position(|(wanted, _)| *wanted == path);
            let single = |wanted: &[Wanted], at: usize| {
                let expected = wanted.get(at).map_or(ExpectedType::Bytes, |(_, expected)| *expected);
                single(schemas, &field.schema, expected).map_err(|what| format!("{path} {what}"))
            };
            if let Some(at) = place(bytes) {
                self.parts.push(FieldPlan::Bytes(at, single(bytes, at)?));
            } else if let Some(at) = place(numbers) {
                self.parts.push(FieldPlan::Number(at, single(numbers, at)?));
            } else if schemas.fields(&field.schema).is_some() && bytes.iter().chain(numbers).any(|(path, _)| path.starts_with(&inner)) {
                self.add(schemas, &field.schema, &inner, wanted)?;
            } else if matches!(field.schema, Schema::Int | Schema::Long) {
                self.parts.push(FieldPlan::Integer);
            } else {
                self.parts.push(FieldPlan::Skipped(field.schema.clone()));
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub fn read<'a, const B: usize, const N: usize>(&self, reader: &mut Reader<'a>, schemas: &Schemas) -> Result<Found<'a, B, N>> {
        let mut found = ([None; B], [None; N]);
        let (bytes, numbers) = &mut found;
        match (self.layout, &mut bytes[..], &mut numbers[..]) {
            (Layout::NumberThenBytes, [value], _) => {
                reader.long()?;
                *value = Some(reader.bytes()?);
            }
            (Layout::BytesThenNumbers, [value], _) => {
                *value = Some(reader.bytes()?);
                reader.long()?;
                reader.long()?;
            }
            (Layout::SkippedThenBytes, [value], _) => {
                reader.bytes()?;
                *value = Some(reader.bytes()?);
            }
            (Layout::SecondThenFirst, [first, second], _) => {
                *second = Some(reader.bytes()?);
                *first = Some(reader.bytes()?);
            }
            (Layout::BytesAndNumber, [value], [number]) => {
                *value = Some(reader.bytes()?);
                *number = Some(reader.long()?);
            }
            (Layout::Numbers, _, [first, second]) => {
                *first = Some(reader.long()?);
                *second = Some(reader.long()?);
            }
            (Layout::MayBeNumbers, _, numbers) => {
                for number in numbers {
                    *number = reader.may_be_long()?;
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
        for part in &self.parts {
            match part {
                FieldPlan::Bytes(at, written) => {
                    let found = written.bytes(reader)?;
                    bytes.get_mut(*at).into_iter().for_each(|slot| *slot = found);
                }
                FieldPlan::Number(at, written) => {
                    let found = written.number(reader)?;
                    numbers.get_mut(*at).into_iter().for_each(|slot| *slot = found);
                }
                FieldPlan::Integer => reader.long().map(drop)?,
                FieldPlan::Skipped(schema) => schemas.skip(schema, reader)?,
            }
        }
        Ok(())
    }
}

/// The first of the wanted fields that has no place.
fn missing(wanted: &[Wanted], known: &[usize]) -> Option<&'static str> {
    wanted.iter().enumerate().find(|(at, _)| !known.contains(at)).map(|(_, (path, _))| *path)
}

pub(super) fn single(schemas: &Schemas, schema: &Schema, expected: ExpectedType) -> Result<Choice<ScalarEncoding>, String> {
    Choice::compile(schema, |branch| ScalarEncoding::compile(schemas, branch, expected))
}
