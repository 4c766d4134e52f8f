//! Compiled writer schema: an action that reads or skips each field.

use super::parts::{Choice, ExpectedType, RecordPlan, ScalarEncoding, compile_scalar};
use super::value_records::CellEncoding;
use crate::error::Result;
use crate::wire::avro::Reader;
use crate::wire::avro_schema::{Schema, Schemas};

/// Encoding of a row change's list of columns.
#[derive(Debug)]
pub(super) enum ColumnsEncoding {
    Null,
    /// Name and type number of each column.
    Listed(RecordPlan),
    Other(Schema),
}

/// Encoding of a row image.
#[derive(Debug)]
pub(super) enum ImageEncoding {
    Null,
    /// The text of a statement.
    Text,
    /// The values of the columns, and the schema of the whole array, with which it is skipped.
    Cells(Choice<CellEncoding>, Schema),
    Other(Schema),
}

/// Encoding of an array of numbers, or a map of text.
#[derive(Debug)]
pub(super) enum ItemsEncoding {
    Null,
    Each(Choice<ScalarEncoding>),
    Other(Schema),
}

/// The side of a row image.
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

/// The scalars that are read from a record.
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
    ("source.sourceType", ExpectedType::Symbol, Scalar::Connector),
    ("source.version", ExpectedType::Text, Scalar::Version),
    ("operation", ExpectedType::Symbol, Scalar::Operation),
    ("objectName", ExpectedType::Text, Scalar::ObjectName),
];

/// Action for a field of the record.
#[derive(Debug)]
pub(super) enum Action {
    Scalar(Scalar, Choice<ScalarEncoding>),
    Times(Choice<ItemsEncoding>),
    Tags(Choice<ItemsEncoding>),
    Columns(Choice<ColumnsEncoding>),
    Image(Side, Choice<ImageEncoding>),
    /// Skips an integer.
    SkipNumber,
    /// Skips bytes or a string.
    SkipBytes,
    /// Skips any value.
    Skip(Schema),
}

#[derive(Debug)]
pub(super) struct Step {
    pub name: String,
    pub action: Action,
    /// True if older producers' messages end before it.
    pub is_optional: bool,
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct SchemaPlan {
    pub(super) schemas: Schemas,
    steps: Vec<Step>,
    /// Number of fields before the columns, if they equal the published schemas' fields.
    header_length: usize,
}

/// The fields that row changes require.
const REQUIRED: [&str; 5] = [
    "operation",
    "objectName",
    "fields",
    "beforeImages",
    "afterImages",
];

/// The last field of the newer published schema, absent from the older one.
const OPTIONAL: &str = "bornTimestamp";

impl SchemaPlan {
    /// Compiles a schema from its JSON text. The error names a missing field.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let (schemas, schema) = Schemas::parse(text)?;
        let record = record_of(&schemas, &schema).ok_or("expected a record")?;
        let mut plan = SchemaPlan {
            schemas: Schemas::default(),
            steps: Vec::new(),
            header_length: 0,
        };
        plan.add(&schemas, record, "")?;
        plan.schemas = schemas;
        plan.header_length = header_length(&plan.steps);
        match REQUIRED
            .iter()
            .find(|name| !plan.steps.iter().any(|step| step.name == **name))
        {
            Some(name) => Err(format!("the record has no field {name}")),
            None => Ok(plan),
        }
    }

    fn add(&mut self, schemas: &Schemas, record: &Schema, parent: &str) -> Result<(), String> {
        for field in schemas.fields(record).unwrap_or_default() {
            let name = format!("{parent}{}", field.name);
            if name == "source" && schemas.fields(&field.schema).is_some() {
                self.add(schemas, &field.schema, "source.")?;
                continue;
            }
            let action =
                action(schemas, &name, &field.schema).map_err(|what| format!("{name} {what}"))?;
            self.steps.push(Step {
                is_optional: name == OPTIONAL,
                name,
                action,
            });
        }
        Ok(())
    }

    /// Returns whether the bytes begin like a record of this schema. Checks all fields before the columns.
    pub(super) fn matches_header(&self, bytes: &[u8]) -> bool {
        let mut reader = Reader::new(bytes);
        self.header().iter().all(|step| {
            self.check_header_field(&step.action, &mut reader)
                .unwrap_or(false)
        })
    }

    /// Returns the fields before the columns, if they equal the published schemas' fields.
    pub(super) fn header(&self) -> &[Step] {
        self.steps.get(..self.header_length).unwrap_or_default()
    }

    /// Returns the other fields.
    pub(super) fn body(&self) -> &[Step] {
        self.steps.get(self.header_length..).unwrap_or_default()
    }

    /// Skips a field of the header. Returns whether it is plausible.
    fn check_header_field(&self, action: &Action, reader: &mut Reader<'_>) -> Result<bool> {
        match action {
            Action::Scalar(Scalar::Id | Scalar::Timestamp, encoding) => {
                encoding.number(reader).map(|_| true)
            }
            // Zero bytes are a valid record too, but every DTS record has a position.
            Action::Scalar(Scalar::Position, encoding) => encoding.is_text(reader),
            Action::Scalar(_, encoding) => encoding.is_text(reader).map(|_| true),
            Action::Times(times) => self
                .for_each_item(times, reader, |reader, encoding| {
                    encoding.number(reader).map(drop)
                })
                .map(|()| true),
            Action::Tags(tags) => self
                .for_each_item(tags, reader, |reader, encoding| {
                    reader.is_text()?;
                    encoding.is_text(reader).map(drop)
                })
                .map(|()| true),
            Action::SkipNumber => reader.long().map(|_| true),
            Action::SkipBytes => reader.bytes().map(|_| true),
            Action::Skip(schema) => self.schemas.skip(schema, reader).map(|()| true),
            Action::Columns(_) | Action::Image(..) => Ok(false),
        }
    }

    /// Calls `read` for each item of an array or map.
    pub(super) fn for_each_item<'a, 'p>(
        &self,
        items: &'p Choice<ItemsEncoding>,
        reader: &mut Reader<'a>,
        mut read: impl FnMut(&mut Reader<'a>, &'p Choice<ScalarEncoding>) -> Result<()>,
    ) -> Result<()> {
        match items.pick(reader)? {
            ItemsEncoding::Null => Ok(()),
            ItemsEncoding::Each(encoding) => reader.items(|reader| read(reader, encoding)),
            ItemsEncoding::Other(schema) => self.schemas.skip(schema, reader),
        }
    }
}

/// Returns the number of fields before the columns, if they equal the published schemas' fields in their order.
fn header_length(steps: &[Step]) -> usize {
    use Action::{Columns, Scalar as Read, SkipBytes, SkipNumber, Tags, Times};
    use Choice::Fixed;
    use Scalar::{Connector, Id, ObjectName, Operation, Position, Timestamp, Transaction, Version};
    use ScalarEncoding::{Bytes, Number};
    let header: Vec<&Action> = steps
        .iter()
        .map(|step| &step.action)
        .take_while(|action| !matches!(action, Columns(_)))
        .collect();
    match *header {
        [
            SkipNumber,
            Read(Id, Fixed(Number)),
            Read(Timestamp, Fixed(Number)),
            Read(Position, Fixed(Bytes)),
            SkipBytes,
            Read(Transaction, Fixed(Bytes)),
            Read(Connector, _),
            Read(Version, Fixed(Bytes)),
            Read(Operation, _),
            Read(ObjectName, _),
            Times(_),
            Tags(_),
        ] => header.len(),
        _ => 0,
    }
}

/// Returns the schema if it is a record, or the record `Record` of a union. The published schemas have either form.
fn record_of<'s>(schemas: &Schemas, schema: &'s Schema) -> Option<&'s Schema> {
    match schema {
        Schema::Union(types) => types.iter().find(|branch| {
            let named = schemas.named(branch);
            schemas.fields(branch).is_some() && named.is_some_and(|named| named.name == "Record")
        }),
        other if schemas.fields(other).is_some() => Some(other),
        _ => None,
    }
}

/// Returns the action for a field of the record.
fn action(schemas: &Schemas, name: &str, schema: &Schema) -> Result<Action, String> {
    Ok(match name {
        "processTimestamps" => Action::Times(Choice::compile(schema, |branch| {
            Ok(times(schemas, branch))
        })?),
        "tags" => Action::Tags(Choice::compile(schema, |branch| Ok(tags(schemas, branch)))?),
        "fields" => Action::Columns(columns_field(schemas, schema)?),
        "beforeImages" => Action::Image(Side::Before, image_field(schemas, schema)?),
        "afterImages" => Action::Image(Side::After, image_field(schemas, schema)?),
        other => match SCALARS.iter().find(|(path, ..)| *path == other) {
            Some((_, expected, scalar)) => {
                Action::Scalar(*scalar, compile_scalar(schemas, schema, *expected)?)
            }
            None if matches!(schema, Schema::Int | Schema::Long) => Action::SkipNumber,
            None if matches!(schema, Schema::Bytes | Schema::String) => Action::SkipBytes,
            None => Action::Skip(schema.clone()),
        },
    })
}

fn times(schemas: &Schemas, schema: &Schema) -> ItemsEncoding {
    match schema {
        Schema::Null => ItemsEncoding::Null,
        Schema::Array(item) => each(schemas, item, ExpectedType::Number, schema),
        other => ItemsEncoding::Other(other.clone()),
    }
}

fn tags(schemas: &Schemas, schema: &Schema) -> ItemsEncoding {
    match schema {
        Schema::Null => ItemsEncoding::Null,
        Schema::Map(value) => each(schemas, value, ExpectedType::Text, schema),
        other => ItemsEncoding::Other(other.clone()),
    }
}

fn each(schemas: &Schemas, item: &Schema, expected: ExpectedType, whole: &Schema) -> ItemsEncoding {
    match compile_scalar(schemas, item, expected) {
        Ok(encoding) => ItemsEncoding::Each(encoding),
        Err(_) => ItemsEncoding::Other(whole.clone()),
    }
}

fn columns_field(schemas: &Schemas, schema: &Schema) -> Result<Choice<ColumnsEncoding>, String> {
    let columns = Choice::compile(schema, |branch| columns(schemas, branch))?;
    if columns.any(|columns| matches!(columns, ColumnsEncoding::Listed(_))) {
        Ok(columns)
    } else {
        Err("is not an array of records".into())
    }
}

fn image_field(schemas: &Schemas, schema: &Schema) -> Result<Choice<ImageEncoding>, String> {
    let images = Choice::compile(schema, |branch| image(schemas, branch))?;
    if images.any(|image| matches!(image, ImageEncoding::Cells(..))) {
        Ok(images)
    } else {
        Err("is not an array of values".into())
    }
}

fn columns(schemas: &Schemas, schema: &Schema) -> Result<ColumnsEncoding, String> {
    Ok(match schema {
        Schema::Null => ColumnsEncoding::Null,
        Schema::Array(item) if schemas.fields(item).is_some() => {
            ColumnsEncoding::Listed(RecordPlan::compile(
                schemas,
                item,
                &[("name", ExpectedType::Text)],
                &[("dataTypeNumber", ExpectedType::Number)],
            )?)
        }
        other => ColumnsEncoding::Other(other.clone()),
    })
}

fn image(schemas: &Schemas, schema: &Schema) -> Result<ImageEncoding, String> {
    Ok(match schema {
        Schema::Null => ImageEncoding::Null,
        Schema::String => ImageEncoding::Text,
        Schema::Array(item) => ImageEncoding::Cells(
            Choice::compile(item, |branch| CellEncoding::compile(schemas, branch))?,
            schema.clone(),
        ),
        other => ImageEncoding::Other(other.clone()),
    })
}
