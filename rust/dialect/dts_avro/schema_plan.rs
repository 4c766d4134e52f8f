//! A writer's schema, compiled: which of our values each of its fields is, or how to step over it.

use super::values::Cell;
use crate::error::{Fault, Kind, Result};
use crate::wire::avro::{Reader, Schema, Schemas};

/// What a field must hold to be of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Number,
    Double,
    Text,
    Bytes,
    Word,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Number => "a number",
            Sort::Double => "a double",
            Sort::Text => "a string",
            Sort::Bytes => "bytes",
            Sort::Word => "an enum or a string",
        }
    }
}

/// How a single value is written.
#[derive(Debug)]
pub(super) enum Written {
    Null,
    Number,
    Single,
    Double,
    /// Bytes, or text before anybody has looked whether it is UTF-8.
    Bytes,
    /// An enum's symbols.
    Words(Vec<String>),
}

impl Written {
    fn compile(schemas: &Schemas, schema: &Schema, sort: Sort) -> Result<Self, String> {
        let written = match (schema, sort) {
            (Schema::Null, _) => Some(Written::Null),
            (Schema::Int | Schema::Long, Sort::Number) => Some(Written::Number),
            (Schema::Float, Sort::Double) => Some(Written::Single),
            (Schema::Double, Sort::Double) => Some(Written::Double),
            (Schema::String, Sort::Text | Sort::Word) | (Schema::Bytes, Sort::Bytes) => Some(Written::Bytes),
            (named, Sort::Word) => schemas.symbols(named).map(|symbols| Written::Words(symbols.to_vec())),
            _ => None,
        };
        written.ok_or_else(|| format!("is not {}", sort.name()))
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

    fn any(&self, test: impl Fn(&T) -> bool) -> bool {
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

impl Choice<Written> {
    /// Bytes, or the symbol of an enum; `None` for null.
    #[inline(always)]
    pub fn bytes<'a>(&self, reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
        match self.pick(reader)? {
            Written::Bytes => reader.bytes().map(Some),
            _ => Ok(None),
        }
    }

    /// A number, or a double's bits; `None` for null.
    #[inline(always)]
    pub fn number(&self, reader: &mut Reader<'_>) -> Result<Option<i64>> {
        match self.pick(reader)? {
            Written::Number => reader.long().map(Some),
            Written::Double => reader.double().map(|double| Some(double.to_bits() as i64)),
            Written::Single => reader.float().map(|single| Some(f64::from(single).to_bits() as i64)),
            _ => Ok(None),
        }
    }

    /// The symbol of an enum, or a string in place of it.
    pub fn word<'t, 'a: 't>(&'t self, reader: &mut Reader<'a>) -> Result<&'t str> {
        match self.pick(reader)? {
            Written::Words(words) => {
                let word = reader.index(words.len(), "symbol")?;
                Ok(words.get(word).map_or("", String::as_str))
            }
            Written::Bytes => reader.text(),
            _ => Ok(""),
        }
    }
}

/// A field that is wanted of a record, by the path to it, and what it must hold.
pub(super) type Wanted = (&'static str, Sort);

/// A record as a row of single values, of which some are wanted. Records within it are part of the row: Avro writes nothing
/// around them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
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
enum Part {
    /// The place of a wanted field among those that are bytes.
    Bytes(usize, Choice<Written>),
    /// The place of a wanted field among those that are numbers.
    Number(usize, Choice<Written>),
    /// An integer that nobody wants.
    Integer,
    Skipped(Schema),
}

impl Part {
    fn is_bytes(&self, place: usize) -> bool {
        matches!(self, Part::Bytes(at, Choice::Always(Written::Bytes)) if *at == place)
    }

    fn is_number(&self, place: usize) -> bool {
        matches!(self, Part::Number(at, Choice::Always(Written::Number)) if *at == place)
    }

    /// Whether it is a union of null and a number.
    fn may_be_number(&self, place: usize) -> bool {
        let Part::Number(at, Choice::Branch(branches)) = self else { return false };
        *at == place && matches!(**branches, [Written::Null, Written::Number])
    }
}

impl Layout {
    fn of(parts: &[Part]) -> Self {
        match parts {
            [Part::Integer, value] if value.is_bytes(0) => Layout::NumberThenBytes,
            [value, Part::Integer, Part::Integer] if value.is_bytes(0) => Layout::BytesThenNumbers,
            [Part::Skipped(Schema::String), value] if value.is_bytes(0) => Layout::SkippedThenBytes,
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

impl Parts {
    /// The bytes that are wanted, then the numbers.
    pub fn compile(schemas: &Schemas, schema: &Schema, bytes: &[Wanted], numbers: &[Wanted]) -> Result<Self, String> {
        let mut parts = Parts::default();
        parts.add(schemas, schema, "", (bytes, numbers))?;
        let name = schemas.named(schema).map_or("", |named| &named.name);
        parts.layout = Layout::of(&parts.parts);
        let places = |is_it: fn(&Part) -> Option<usize>| parts.parts.iter().filter_map(is_it).collect::<Vec<_>>();
        let known_bytes = places(|part| if let Part::Bytes(at, _) = part { Some(*at) } else { None });
        let known_numbers = places(|part| if let Part::Number(at, _) = part { Some(*at) } else { None });
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
                let sort = wanted.get(at).map_or(Sort::Bytes, |(_, sort)| *sort);
                single(schemas, &field.schema, sort).map_err(|what| format!("{path} {what}"))
            };
            if let Some(at) = place(bytes) {
                self.parts.push(Part::Bytes(at, single(bytes, at)?));
            } else if let Some(at) = place(numbers) {
                self.parts.push(Part::Number(at, single(numbers, at)?));
            } else if schemas.fields(&field.schema).is_some() && bytes.iter().chain(numbers).any(|(path, _)| path.starts_with(&inner)) {
                self.add(schemas, &field.schema, &inner, wanted)?;
            } else if matches!(field.schema, Schema::Int | Schema::Long) {
                self.parts.push(Part::Integer);
            } else {
                self.parts.push(Part::Skipped(field.schema.clone()));
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
                Part::Bytes(at, written) => {
                    let found = written.bytes(reader)?;
                    bytes.get_mut(*at).into_iter().for_each(|slot| *slot = found);
                }
                Part::Number(at, written) => {
                    let found = written.number(reader)?;
                    numbers.get_mut(*at).into_iter().for_each(|slot| *slot = found);
                }
                Part::Integer => reader.long().map(drop)?,
                Part::Skipped(schema) => schemas.skip(schema, reader)?,
            }
        }
        Ok(())
    }
}

/// The first of the wanted fields that has no place.
fn missing(wanted: &[Wanted], known: &[usize]) -> Option<&'static str> {
    wanted.iter().enumerate().find(|(at, _)| !known.contains(at)).map(|(_, (path, _))| *path)
}

fn single(schemas: &Schemas, schema: &Schema, sort: Sort) -> Result<Choice<Written>, String> {
    Choice::compile(schema, |branch| Written::compile(schemas, branch, sort))
}

/// The columns of a row change.
#[derive(Debug)]
pub(super) enum Columns {
    Null,
    /// The name and the number of each.
    Listed(Parts),
    Other(Schema),
}

/// A row image.
#[derive(Debug)]
pub(super) enum Image {
    Null,
    /// A statement.
    Text,
    /// The values of the columns, and how to step over all of them.
    Cells(Choice<Cell>, Schema),
    Other(Schema),
}

/// A list of numbers, or a map of texts.
#[derive(Debug)]
pub(super) enum Several {
    Null,
    Each(Choice<Written>),
    Other(Schema),
}

/// Which image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Before => "beforeImages",
            Side::After => "afterImages",
        }
    }
}

/// The single values of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Id,
    Timestamp,
    Position,
    Transaction,
    Connector,
    Version,
    Operation,
    ObjectName,
}

const HEAD: [(&str, Sort, Head); 8] = [
    ("id", Sort::Number, Head::Id),
    ("sourceTimestamp", Sort::Number, Head::Timestamp),
    ("sourcePosition", Sort::Text, Head::Position),
    ("sourceTxid", Sort::Text, Head::Transaction),
    ("source.sourceType", Sort::Word, Head::Connector),
    ("source.version", Sort::Text, Head::Version),
    ("operation", Sort::Word, Head::Operation),
    ("objectName", Sort::Text, Head::ObjectName),
];

/// What to do where a field of the record stands.
#[derive(Debug)]
pub(super) enum What {
    Head(Head, Choice<Written>),
    Times(Choice<Several>),
    Tags(Choice<Several>),
    Columns(Choice<Columns>),
    Image(Side, Choice<Image>),
    /// Nothing of ours: an integer, bytes or a string, or anything.
    Number,
    Bytes,
    Skip(Schema),
}

#[derive(Debug)]
pub(super) struct Step {
    pub name: String,
    pub what: What,
    /// Whether messages end before it where their producer does not know it yet.
    pub may_lack: bool,
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) schemas: Schemas,
    pub(super) steps: Vec<Step>,
}

/// What no row change can be read without.
const NEEDED: [&str; 5] = ["operation", "objectName", "fields", "beforeImages", "afterImages"];

/// What the second of the published schemas has at its end, and the first has not.
const LATER: &str = "bornTimestamp";

impl Plan {
    /// Compiles the schema in a JSON text, or says what it lacks.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let (schemas, schema) = Schemas::parse(text)?;
        let record = record_of(&schemas, &schema).ok_or("there is no record")?;
        let mut plan = Plan { schemas: Schemas::default(), steps: Vec::new() };
        plan.add(&schemas, record, "")?;
        plan.schemas = schemas;
        match NEEDED.iter().find(|name| !plan.steps.iter().any(|step| step.name == **name)) {
            Some(name) => Err(format!("the record has no field {name}")),
            None => Ok(plan),
        }
    }

    fn add(&mut self, schemas: &Schemas, record: &Schema, within: &str) -> Result<(), String> {
        for field in schemas.fields(record).unwrap_or_default() {
            let name = format!("{within}{}", field.name);
            if name == "source" && schemas.fields(&field.schema).is_some() {
                self.add(schemas, &field.schema, "source.")?;
                continue;
            }
            let what = what(schemas, &name, &field.schema).map_err(|what| format!("{name} {what}"))?;
            self.steps.push(Step { may_lack: name == LATER, name, what });
        }
        Ok(())
    }

    /// Whether bytes begin as a record of this schema: by all that stands before its columns, which are most of it.
    pub(super) fn fits(&self, bytes: &[u8]) -> bool {
        let mut reader = Reader::new(bytes);
        let mut head = self.steps.iter().take_while(|step| !matches!(step.what, What::Columns(_)));
        head.all(|step| self.stands(&step.what, &mut reader).unwrap_or(false))
    }

    /// Steps over a field of the head, and tells whether it may be one.
    fn stands(&self, what: &What, reader: &mut Reader<'_>) -> Result<bool> {
        match what {
            What::Head(Head::Id | Head::Timestamp, written) => written.number(reader).map(|_| true),
            // Zero bytes are a record too, but every record of DTS's has a position.
            What::Head(Head::Position, written) => written.word(reader).map(|position| !position.is_empty()),
            What::Head(_, written) => written.word(reader).map(|_| true),
            What::Times(times) => self.several(times, reader, |reader, written| written.number(reader).map(drop)).map(|()| true),
            What::Tags(tags) => {
                let tag = |reader: &mut Reader<'_>, written: &Choice<Written>| {
                    reader.text()?;
                    written.word(reader).map(drop)
                };
                self.several(tags, reader, tag).map(|()| true)
            }
            What::Number => reader.long().map(|_| true),
            What::Bytes => reader.bytes().map(|_| true),
            What::Skip(schema) => self.schemas.skip(schema, reader).map(|()| true),
            What::Columns(_) | What::Image(..) => Ok(false),
        }
    }

    /// Runs `read` over the items of a list or map.
    pub(super) fn several<'a, 'p>(
        &self,
        several: &'p Choice<Several>,
        reader: &mut Reader<'a>,
        mut read: impl FnMut(&mut Reader<'a>, &'p Choice<Written>) -> Result<()>,
    ) -> Result<()> {
        match several.pick(reader)? {
            Several::Null => Ok(()),
            Several::Each(written) => reader.items(|reader| read(reader, written)),
            Several::Other(schema) => self.schemas.skip(schema, reader),
        }
    }
}

/// The record itself, or the one of this name in a list of types, as the schema is published.
fn record_of<'s>(schemas: &Schemas, schema: &'s Schema) -> Option<&'s Schema> {
    let is_record = |schema: &&Schema| schemas.fields(schema).is_some();
    match schema {
        Schema::Union(types) => {
            types.iter().filter(is_record).find(|record| schemas.named(record).is_some_and(|named| named.name == "Record"))
        }
        other => Some(other).filter(is_record),
    }
}

/// What a field of the record is.
fn what(schemas: &Schemas, name: &str, schema: &Schema) -> Result<What, String> {
    Ok(match name {
        "processTimestamps" => What::Times(Choice::compile(schema, |branch| Ok(times(schemas, branch)))?),
        "tags" => What::Tags(Choice::compile(schema, |branch| Ok(tags(schemas, branch)))?),
        "fields" => What::Columns(listed(schemas, schema)?),
        "beforeImages" => What::Image(Side::Before, pictured(schemas, schema)?),
        "afterImages" => What::Image(Side::After, pictured(schemas, schema)?),
        other => match HEAD.iter().find(|(path, ..)| *path == other) {
            Some((_, sort, head)) => What::Head(*head, single(schemas, schema, *sort)?),
            None if matches!(schema, Schema::Int | Schema::Long) => What::Number,
            None if matches!(schema, Schema::Bytes | Schema::String) => What::Bytes,
            None => What::Skip(schema.clone()),
        },
    })
}

fn times(schemas: &Schemas, schema: &Schema) -> Several {
    match schema {
        Schema::Null => Several::Null,
        Schema::Array(item) => each(schemas, item, Sort::Number, schema),
        other => Several::Other(other.clone()),
    }
}

fn tags(schemas: &Schemas, schema: &Schema) -> Several {
    match schema {
        Schema::Null => Several::Null,
        Schema::Map(value) => each(schemas, value, Sort::Text, schema),
        other => Several::Other(other.clone()),
    }
}

fn each(schemas: &Schemas, item: &Schema, sort: Sort, whole: &Schema) -> Several {
    single(schemas, item, sort).map_or_else(|_| Several::Other(whole.clone()), Several::Each)
}

fn listed(schemas: &Schemas, schema: &Schema) -> Result<Choice<Columns>, String> {
    let columns = Choice::compile(schema, |branch| columns(schemas, branch))?;
    if columns.any(|columns| matches!(columns, Columns::Listed(_))) { Ok(columns) } else { Err("is no array of records".into()) }
}

fn pictured(schemas: &Schemas, schema: &Schema) -> Result<Choice<Image>, String> {
    let images = Choice::compile(schema, |branch| image(schemas, branch))?;
    if images.any(|image| matches!(image, Image::Cells(..))) { Ok(images) } else { Err("is no array of values".into()) }
}

fn columns(schemas: &Schemas, schema: &Schema) -> Result<Columns, String> {
    Ok(match schema {
        Schema::Null => Columns::Null,
        Schema::Array(item) if schemas.fields(item).is_some() => {
            Columns::Listed(Parts::compile(schemas, item, &[("name", Sort::Text)], &[("dataTypeNumber", Sort::Number)])?)
        }
        other => Columns::Other(other.clone()),
    })
}

fn image(schemas: &Schemas, schema: &Schema) -> Result<Image, String> {
    Ok(match schema {
        Schema::Null => Image::Null,
        Schema::String => Image::Text,
        Schema::Array(item) => Image::Cells(Choice::compile(item, |branch| Cell::compile(schemas, branch))?, schema.clone()),
        other => Image::Other(other.clone()),
    })
}
