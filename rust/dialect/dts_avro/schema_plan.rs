//! A writer's schema, compiled: which of our values each of its fields is, or how to step over it.

use super::parts::{Choice, ExpectedType, RecordPlan, ScalarEncoding, single};
use super::values::CellEncoding;
use crate::error::Result;
use crate::wire::avro::Reader;
use crate::wire::avro_schema::{Schema, Schemas};

/// The columns of a row change.
#[derive(Debug)]
pub(super) enum Columns {
    Null,
    /// The name and the number of each.
    Listed(RecordPlan),
    Other(Schema),
}

/// A row image.
#[derive(Debug)]
pub(super) enum ImageEncoding {
    Null,
    /// A statement.
    Text,
    /// The values of the columns, and how to step over all of them.
    Cells(Choice<CellEncoding>, Schema),
    Other(Schema),
}

/// A list of numbers, or a map of texts.
#[derive(Debug)]
pub(super) enum Repeated {
    Null,
    Each(Choice<ScalarEncoding>),
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
pub(super) enum Scalar {
    Id,
    Timestamp,
    Position,
    Transaction,
    Connector,
    Version,
    Operation,
    ObjectName,
}

const SCALARS: [(&str, ExpectedType, Scalar); 8] = [
    ("id", ExpectedType::Number, Scalar::Id),
    ("sourceTimestamp", ExpectedType::Number, Scalar::Timestamp),
    ("sourcePosition", ExpectedType::Text, Scalar::Position),
    ("sourceTxid", ExpectedType::Text, Scalar::Transaction),
    ("source.sourceType", ExpectedType::Word, Scalar::Connector),
    ("source.version", ExpectedType::Text, Scalar::Version),
    ("operation", ExpectedType::Word, Scalar::Operation),
    ("objectName", ExpectedType::Text, Scalar::ObjectName),
];

/// What to do where a field of the record stands.
#[derive(Debug)]
pub(super) enum Action {
    Scalar(Scalar, Choice<ScalarEncoding>),
    Times(Choice<Repeated>),
    Tags(Choice<Repeated>),
    Columns(Choice<Columns>),
    ImageEncoding(Side, Choice<ImageEncoding>),
    /// Nothing of ours: an integer, bytes or a string, or anything.
    Number,
    Bytes,
    Skip(Schema),
}

#[derive(Debug)]
pub(super) struct Step {
    pub name: String,
    pub what: Action,
    /// Whether messages end before it where their producer does not know it yet.
    pub may_lack: bool,
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct SchemaPlan {
    pub(super) schemas: Schemas,
    pub(super) steps: Vec<Step>,
}

/// What no row change can be read without.
const NEEDED: [&str; 5] = ["operation", "objectName", "fields", "beforeImages", "afterImages"];

/// What the second of the published schemas has at its end, and the first has not.
const LATER: &str = "bornTimestamp";

impl SchemaPlan {
    /// Compiles the schema in a JSON text, or says what it lacks.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let (schemas, schema) = Schemas::parse(text)?;
        let record = record_of(&schemas, &schema).ok_or("there is no record")?;
        let mut plan = SchemaPlan { schemas: Schemas::default(), steps: Vec::new() };
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
        let mut head = self.steps.iter().take_while(|step| !matches!(step.what, Action::Columns(_)));
        head.all(|step| self.stands(&step.what, &mut reader).unwrap_or(false))
    }

    /// Steps over a field of the head, and tells whether it may be one.
    fn stands(&self, what: &Action, reader: &mut Reader<'_>) -> Result<bool> {
        match what {
            Action::Scalar(Scalar::Id | Scalar::Timestamp, written) => written.number(reader).map(|_| true),
            // Zero bytes are a record too, but every record of DTS's has a position.
            Action::Scalar(Scalar::Position, written) => written.word(reader).map(|position| !position.is_empty()),
            Action::Scalar(_, written) => written.word(reader).map(|_| true),
            Action::Times(times) => self.several(times, reader, |reader, written| written.number(reader).map(drop)).map(|()| true),
            Action::Tags(tags) => {
                let tag = |reader: &mut Reader<'_>, written: &Choice<ScalarEncoding>| {
                    reader.text()?;
                    written.word(reader).map(drop)
                };
                self.several(tags, reader, tag).map(|()| true)
            }
            Action::Number => reader.long().map(|_| true),
            Action::Bytes => reader.bytes().map(|_| true),
            Action::Skip(schema) => self.schemas.skip(schema, reader).map(|()| true),
            Action::Columns(_) | Action::ImageEncoding(..) => Ok(false),
        }
    }

    /// Runs `read` over the items of a list or map.
    pub(super) fn several<'a, 'p>(
        &self,
        several: &'p Choice<Repeated>,
        reader: &mut Reader<'a>,
        mut read: impl FnMut(&mut Reader<'a>, &'p Choice<ScalarEncoding>) -> Result<()>,
    ) -> Result<()> {
        match several.pick(reader)? {
            Repeated::Null => Ok(()),
            Repeated::Each(written) => reader.items(|reader| read(reader, written)),
            Repeated::Other(schema) => self.schemas.skip(schema, reader),
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
fn what(schemas: &Schemas, name: &str, schema: &Schema) -> Result<Action, String> {
    Ok(match name {
        "processTimestamps" => Action::Times(Choice::compile(schema, |branch| Ok(times(schemas, branch)))?),
        "tags" => Action::Tags(Choice::compile(schema, |branch| Ok(tags(schemas, branch)))?),
        "fields" => Action::Columns(listed(schemas, schema)?),
        "beforeImages" => Action::ImageEncoding(Side::Before, row_image(schemas, schema)?),
        "afterImages" => Action::ImageEncoding(Side::After, row_image(schemas, schema)?),
        other => match SCALARS.iter().find(|(path, ..)| *path == other) {
            Some((_, expected, head)) => Action::Scalar(*head, single(schemas, schema, *expected)?),
            None if matches!(schema, Schema::Int | Schema::Long) => Action::Number,
            None if matches!(schema, Schema::Bytes | Schema::String) => Action::Bytes,
            None => Action::Skip(schema.clone()),
        },
    })
}

fn times(schemas: &Schemas, schema: &Schema) -> Repeated {
    match schema {
        Schema::Null => Repeated::Null,
        Schema::Array(item) => each(schemas, item, ExpectedType::Number, schema),
        other => Repeated::Other(other.clone()),
    }
}

fn tags(schemas: &Schemas, schema: &Schema) -> Repeated {
    match schema {
        Schema::Null => Repeated::Null,
        Schema::Map(value) => each(schemas, value, ExpectedType::Text, schema),
        other => Repeated::Other(other.clone()),
    }
}

fn each(schemas: &Schemas, item: &Schema, expected: ExpectedType, whole: &Schema) -> Repeated {
    single(schemas, item, expected).map_or_else(|_| Repeated::Other(whole.clone()), Repeated::Each)
}

fn listed(schemas: &Schemas, schema: &Schema) -> Result<Choice<Columns>, String> {
    let columns = Choice::compile(schema, |branch| columns(schemas, branch))?;
    if columns.any(|columns| matches!(columns, Columns::Listed(_))) { Ok(columns) } else { Err("is no array of records".into()) }
}

fn row_image(schemas: &Schemas, schema: &Schema) -> Result<Choice<ImageEncoding>, String> {
    let images = Choice::compile(schema, |branch| image(schemas, branch))?;
    if images.any(|image| matches!(image, ImageEncoding::Cells(..))) { Ok(images) } else { Err("is no array of values".into()) }
}

fn columns(schemas: &Schemas, schema: &Schema) -> Result<Columns, String> {
    Ok(match schema {
        Schema::Null => Columns::Null,
        Schema::Array(item) if schemas.fields(item).is_some() => Columns::Listed(RecordPlan::compile(
            schemas,
            item,
            &[("name", ExpectedType::Text)],
            &[("dataTypeNumber", ExpectedType::Number)],
        )?),
        other => Columns::Other(other.clone()),
    })
}

fn image(schemas: &Schemas, schema: &Schema) -> Result<ImageEncoding, String> {
    Ok(match schema {
        Schema::Null => ImageEncoding::Null,
        Schema::String => ImageEncoding::Text,
        Schema::Array(item) => {
            ImageEncoding::Cells(Choice::compile(item, |branch| CellEncoding::compile(schemas, branch))?, schema.clone())
        }
        other => ImageEncoding::Other(other.clone()),
    })
}
