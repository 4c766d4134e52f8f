//! A writer's schema, compiled: which of our values each of its fields is, or how to step over it.

use super::values::Cell;
use crate::error::{Fault, Kind, Result};
use crate::wire::avro::{Reader, Schema, Schemas};

/// A single value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Atom<'a, 'p> {
    #[default]
    Null,
    Number(i64),
    Double(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// An enum's symbol.
    Word(&'p str),
}

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
    Text,
    Bytes,
    Words(Vec<String>),
}

impl Written {
    fn compile(schemas: &Schemas, schema: &Schema, sort: Sort) -> Result<Self, String> {
        let written = match (schema, sort) {
            (Schema::Null, _) => Some(Written::Null),
            (Schema::Int | Schema::Long, Sort::Number) => Some(Written::Number),
            (Schema::Float, Sort::Double) => Some(Written::Single),
            (Schema::Double, Sort::Double) => Some(Written::Double),
            (Schema::String, Sort::Text | Sort::Word) => Some(Written::Text),
            (Schema::Bytes, Sort::Bytes) => Some(Written::Bytes),
            (named, Sort::Word) => schemas.symbols(named).map(|symbols| Written::Words(symbols.to_vec())),
            _ => None,
        };
        written.ok_or_else(|| format!("is not {}", sort.name()))
    }

    #[inline(always)]
    fn read<'a>(&self, reader: &mut Reader<'a>) -> Result<Atom<'a, '_>> {
        Ok(match self {
            Written::Null => Atom::Null,
            Written::Number => Atom::Number(reader.long()?),
            Written::Single => Atom::Double(reader.float()?.into()),
            Written::Double => Atom::Double(reader.double()?),
            Written::Text => Atom::Text(reader.text()?),
            Written::Bytes => Atom::Bytes(reader.bytes()?),
            Written::Words(words) => {
                let word = reader.index(words.len(), "symbol")?;
                words.get(word).map_or(Atom::Null, |word| Atom::Word(word))
            }
        })
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
    #[inline(always)]
    pub fn read<'a>(&self, reader: &mut Reader<'a>) -> Result<Atom<'a, '_>> {
        self.pick(reader)?.read(reader)
    }
}

/// A field that is wanted of a record, by the path to it, and what it must hold.
pub(super) type Wanted = (&'static str, Sort);

/// A record as a row of single values, of which some are wanted. Records within it are part of the row: Avro writes nothing
/// around them.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<Part>);

#[derive(Debug)]
enum Part {
    /// The place of a wanted field.
    Known(usize, Choice<Written>),
    Skipped(Schema),
}

impl Parts {
    pub fn compile(schemas: &Schemas, schema: &Schema, wanted: &[Wanted]) -> Result<Self, String> {
        let mut parts = Parts::default();
        parts.add(schemas, schema, "", wanted)?;
        let name = schemas.named(schema).map_or("", |named| &named.name);
        let knows = |at| parts.0.iter().any(|part| matches!(part, Part::Known(known, _) if *known == at));
        match wanted.iter().enumerate().find(|(at, _)| !knows(*at)) {
            Some((_, (path, _))) => Err(format!("{name} has no field {path}")),
            None => Ok(parts),
        }
    }

    fn add(&mut self, schemas: &Schemas, schema: &Schema, within: &str, wanted: &[Wanted]) -> Result<(), String> {
        for field in schemas.fields(schema).unwrap_or_default() {
            let path = format!("{within}{}", field.name);
            let inner = format!("{path}.");
            if let Some((at, (_, sort))) = wanted.iter().enumerate().find(|(_, (wanted, _))| *wanted == path) {
                self.0.push(Part::Known(at, single(schemas, &field.schema, *sort).map_err(|what| format!("{path} {what}"))?));
            } else if schemas.fields(&field.schema).is_some() && wanted.iter().any(|(wanted, _)| wanted.starts_with(&inner)) {
                self.add(schemas, &field.schema, &inner, wanted)?;
            } else {
                self.0.push(Part::Skipped(field.schema.clone()));
            }
        }
        Ok(())
    }

    /// The wanted fields, in the order in which they were named.
    #[inline(always)]
    pub fn read<'a, 'p, const N: usize>(&'p self, reader: &mut Reader<'a>, schemas: &Schemas) -> Result<[Atom<'a, 'p>; N]> {
        let mut atoms = [Atom::Null; N];
        for part in &self.0 {
            match part {
                Part::Known(at, written) => {
                    let atom = written.read(reader)?;
                    atoms.get_mut(*at).into_iter().for_each(|slot| *slot = atom);
                }
                Part::Skipped(schema) => schemas.skip(schema, reader)?,
            }
        }
        Ok(atoms)
    }
}

fn single(schemas: &Schemas, schema: &Schema, sort: Sort) -> Result<Choice<Written>, String> {
    Choice::compile(schema, |branch| Written::compile(schemas, branch, sort))
}

/// The columns of a row change.
#[derive(Debug)]
pub(super) enum Columns {
    Null,
    /// [`FIELD`] of each.
    Listed(Parts),
    Other(Schema),
}

const FIELD: [Wanted; 2] = [("name", Sort::Text), ("dataTypeNumber", Sort::Number)];

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

/// The single values of a record, by their places.
pub(super) const HEAD: [Wanted; 8] = [
    ("id", Sort::Number),
    ("sourceTimestamp", Sort::Number),
    ("sourcePosition", Sort::Text),
    ("sourceTxid", Sort::Text),
    ("source.sourceType", Sort::Word),
    ("source.version", Sort::Text),
    ("operation", Sort::Word),
    ("objectName", Sort::Text),
];

/// What to do where a field of the record stands.
#[derive(Debug)]
pub(super) enum What {
    Head(usize, Choice<Written>),
    Times(Choice<Several>),
    Tags(Choice<Several>),
    Columns(Choice<Columns>),
    Image(Side, Choice<Image>),
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
        head.all(|step| self.skip(&step.what, &mut reader).is_ok())
    }

    fn skip(&self, what: &What, reader: &mut Reader<'_>) -> Result<()> {
        match what {
            What::Head(_, written) => written.read(reader).map(drop),
            What::Times(times) => self.several(times, false, reader, |_, _| {}),
            What::Tags(tags) => self.several(tags, true, reader, |_, _| {}),
            What::Columns(columns) => match columns.pick(reader)? {
                Columns::Null => Ok(()),
                Columns::Listed(parts) => reader.items(|reader| parts.read::<2>(reader, &self.schemas).map(drop)),
                Columns::Other(schema) => self.schemas.skip(schema, reader),
            },
            What::Image(_, image) => match image.pick(reader)? {
                Image::Null => Ok(()),
                Image::Text => reader.text().map(drop),
                Image::Cells(_, schema) | Image::Other(schema) => self.schemas.skip(schema, reader),
            },
            What::Skip(schema) => self.schemas.skip(schema, reader),
        }
    }

    /// Calls `found` with each value of a list or map, and its key.
    pub(super) fn several<'a, 'p>(
        &self,
        several: &'p Choice<Several>,
        is_map: bool,
        reader: &mut Reader<'a>,
        mut found: impl FnMut(&'a str, Atom<'a, 'p>),
    ) -> Result<()> {
        match several.pick(reader)? {
            Several::Null => Ok(()),
            Several::Each(written) => reader.items(|reader| {
                let key = if is_map { reader.text()? } else { "" };
                found(key, written.read(reader)?);
                Ok(())
            }),
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
        other => match HEAD.iter().enumerate().find(|(_, (path, _))| *path == other) {
            Some((at, (_, sort))) => What::Head(at, single(schemas, schema, *sort)?),
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
        Schema::Array(item) if schemas.fields(item).is_some() => Columns::Listed(Parts::compile(schemas, item, &FIELD)?),
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
