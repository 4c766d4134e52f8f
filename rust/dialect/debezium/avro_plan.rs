//! Compiled writer schema: an action for each field of the envelope, and a reader for each column.

use super::avro_values::{ValueReader, connect_branch, connect_schema};
use super::connect_schema::Schema as ConnectSchema;
use super::members::{self, Member, added};
use super::{ROUTED_FROM, ticdc_rows};
use crate::error::Result;
use crate::wire::avro_schema::{Choice, Field, Schema, Schemas};

/// Finds the member that was added to a row as a field.
type FindAdded = fn(&str, &ConnectSchema) -> Option<&'static Member>;

/// A compiled schema of values or keys.
#[derive(Debug)]
pub(crate) struct WriterSchema {
    pub(super) schemas: Schemas,
    /// Plan for the messages, or the reason why they are not Debezium's. Schemas of keys usually have such a reason.
    pub(super) message: Result<MessagePlan, String>,
    /// Plan for a row's key, if Debezium wrote it. A delete without an envelope has only a key in Kafka.
    pub(super) key: Option<FlatPlan>,
    /// Names of the record's fields. In a key, they are the columns of the primary key.
    pub(super) names: Vec<String>,
}

#[derive(Debug)]
pub(super) enum MessagePlan {
    Envelope(EnvelopePlan),
    /// A row without an envelope.
    Flat(FlatPlan),
}

#[derive(Debug)]
pub(super) struct EnvelopePlan {
    pub steps: Vec<Step>,
    /// True if it has fields that an envelope does not have.
    pub has_others: bool,
}

#[derive(Debug)]
pub(super) struct FlatPlan {
    pub row: RecordPlan,
    /// True if TiCDC wrote it.
    pub is_tidb: bool,
    /// Database and table, from the record's name.
    pub database: Option<String>,
    pub table: Option<String>,
}

/// A field of a record.
#[derive(Debug)]
pub(super) struct Step {
    pub name: String,
    pub schema: Schema,
    pub action: Action,
}

/// Action for a field.
#[derive(Debug)]
pub(super) enum Action {
    Skip,
    Image(Side, Choice<Option<RecordPlan>>),
    Member(&'static Member, Choice<ValueReader>),
    /// A record of members, or null.
    Record(Choice<Option<Vec<Step>>>),
    TableChanges,
}

/// The side of a row image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// The columns of a row.
#[derive(Debug)]
pub(super) struct RecordPlan {
    pub fields: Vec<RowField>,
}

#[derive(Debug)]
pub(super) struct RowField {
    pub name: String,
    pub schema: Schema,
    pub reader: Choice<ValueReader>,
    /// Kafka Connect's schema of the column. The text of its type follows.
    pub declared: ConnectSchema,
    pub spelling: String,
    /// The member that the flattening added as this field.
    pub added: Option<&'static Member>,
}

impl WriterSchema {
    /// Compiles a schema from its JSON text and the texts of the schemas that it refers to.
    pub fn compile(text: &str, references: &[String]) -> Result<Self, String> {
        let (schemas, root) = Schemas::parse_annotated(text, references)?;
        let fields = schemas.fields(&root).unwrap_or_default();
        let names = fields
            .iter()
            .map(|field| field.name.clone())
            .filter(|name| name != ROUTED_FROM)
            .collect();
        let message = MessagePlan::compile(&schemas, &root);
        let key = FlatPlan::of_key(&schemas, &root).unwrap_or_default();
        Ok(WriterSchema {
            schemas,
            message,
            key,
            names,
        })
    }

    /// Returns whether TiCDC wrote it.
    pub(super) fn is_tidb(&self) -> bool {
        matches!(&self.message, Ok(MessagePlan::Flat(plan)) if plan.is_tidb)
    }
}

impl MessagePlan {
    fn compile(schemas: &Schemas, root: &Schema) -> Result<Self, String> {
        let fields = schemas.fields(root).ok_or("is not a record")?;
        let name = name_of(schemas, root);
        let is_tidb = fields
            .iter()
            .any(|field| connect_schema(schemas, field).tidb_type().is_some());
        if is_tidb || is_flat(schemas, fields, name) {
            let row = RecordPlan::compile(
                schemas,
                fields,
                Some(if is_tidb {
                    ticdc_rows::added
                } else {
                    |name, _| added(name)
                }),
            )?;
            let (database, table) = if is_tidb {
                ticdc_rows::names_of(name)
            } else {
                names_of(name, VALUE)
            };
            return Ok(MessagePlan::Flat(FlatPlan {
                row,
                is_tidb,
                database,
                table,
            }));
        }
        let steps = steps(schemas, fields, "")?;
        Ok(MessagePlan::Envelope(EnvelopePlan {
            has_others: steps.iter().any(|step| matches!(step.action, Action::Skip)),
            steps,
        }))
    }
}

/// Returns whether a record is a row without an envelope. Its name or a field that the flattening added tells.
fn is_flat(schemas: &Schemas, fields: &[Field], name: &str) -> bool {
    let has_image = fields.iter().any(|field| {
        matches!(field.name.as_str(), "before" | "after")
            && record_branch(schemas, &field.schema).is_some()
    });
    if has_image || name.starts_with("io.debezium.connector.") {
        return false;
    }
    name.ends_with(VALUE) || fields.iter().any(|field| added(&field.name).is_some())
}

/// Suffixes of the names that Debezium gives to the schemas of rows and keys.
const VALUE: &str = ".Value";
const KEY: &str = ".Key";

impl FlatPlan {
    /// Compiles the columns of a key, whose schema is called `server.database.table.Key`.
    fn of_key(schemas: &Schemas, root: &Schema) -> Result<Option<Self>, String> {
        let (name, fields) = (
            name_of(schemas, root),
            schemas.fields(root).unwrap_or_default(),
        );
        if !name.ends_with(KEY) || fields.is_empty() {
            return Ok(None);
        }
        let row = RecordPlan::compile(
            schemas,
            fields,
            Some(|name, _| (name == ROUTED_FROM).then_some(members::ignored())),
        )?;
        let (database, table) = names_of(name, KEY);
        Ok(Some(FlatPlan {
            row,
            is_tidb: false,
            database,
            table,
        }))
    }
}

/// Returns the name of a record. The converter may have changed the record's own name to one that Avro allows.
fn name_of<'s>(schemas: &'s Schemas, root: &Schema) -> &'s str {
    let named = schemas.named(root);
    let connect_name = named.and_then(|named| named.attributes.connect_name.as_deref());
    connect_name
        .or(named.map(|named| named.full_name.as_str()))
        .unwrap_or_default()
}

/// Returns the database and the table in the name of a schema: `server.database.table.Value`.
fn names_of(name: &str, end: &str) -> (Option<String>, Option<String>) {
    let parts = name.strip_suffix(end).unwrap_or_default().rsplitn(3, '.');
    let mut names = parts.map(|part| Some(part.to_owned()).filter(|name| !name.is_empty()));
    let (table, database) = (names.next().flatten(), names.next().flatten());
    (database, table)
}

fn record_branch<'s>(schemas: &Schemas, schema: &'s Schema) -> Option<&'s Schema> {
    let branches = match schema.plain() {
        Schema::Union(branches) => branches.as_slice(),
        other => std::slice::from_ref(other),
    };
    let mut branches = branches.iter();
    branches.find(|branch| schemas.fields(branch).is_some())
}

/// Compiles the fields of the envelope, or of one of its records; `parent` is the path to it.
fn steps(schemas: &Schemas, fields: &[Field], parent: &str) -> Result<Vec<Step>, String> {
    let steps = fields.iter().map(|field| {
        let path = format!("{parent}{}", field.name);
        let action = action(schemas, &path, field).map_err(|what| format!("{path} {what}"))?;
        Ok(Step {
            name: field.name.clone(),
            schema: field.schema.clone(),
            action,
        })
    });
    steps.collect()
}

fn action(schemas: &Schemas, path: &str, field: &Field) -> Result<Action, String> {
    Ok(match path {
        "before" => Action::Image(Side::Before, image(schemas, &field.schema)?),
        "after" => Action::Image(Side::After, image(schemas, &field.schema)?),
        "source" | "transaction" => {
            Action::Record(record(schemas, &field.schema, &format!("{path}."))?)
        }
        "tableChanges" => Action::TableChanges,
        path => match members::find(path) {
            Some(member) => Action::Member(
                member,
                Choice::compile(&field.schema, |branch| scalar(schemas, branch))?,
            ),
            None => Action::Skip,
        },
    })
}

fn scalar(schemas: &Schemas, schema: &Schema) -> Result<ValueReader, String> {
    match ValueReader::plain(schemas, schema) {
        ValueReader::Json(_) | ValueReader::Bytes(_) => Err("is neither text nor a number".into()),
        scalar => Ok(scalar),
    }
}

fn image(schemas: &Schemas, schema: &Schema) -> Result<Choice<Option<RecordPlan>>, String> {
    let image = Choice::compile(schema, |branch| {
        match (branch.plain(), schemas.fields(branch)) {
            (Schema::Null, _) => Ok(None),
            (_, Some(fields)) => RecordPlan::compile(schemas, fields, None).map(Some),
            _ => Err("is not a record".to_owned()),
        }
    })?;
    if image.branches().iter().flatten().count() > 1 {
        Err("is a union of several records".into())
    } else {
        Ok(image)
    }
}

fn record(
    schemas: &Schemas,
    schema: &Schema,
    parent: &str,
) -> Result<Choice<Option<Vec<Step>>>, String> {
    Choice::compile(schema, |branch| {
        match (branch.plain(), schemas.fields(branch)) {
            (Schema::Null, _) => Ok(None),
            (_, Some(fields)) => steps(schemas, fields, parent).map(Some),
            _ => Err("is not a record".into()),
        }
    })
}

impl RecordPlan {
    /// Compiles a row. `added` finds the fields of a flat row that are not columns.
    fn compile(
        schemas: &Schemas,
        fields: &[Field],
        added: Option<FindAdded>,
    ) -> Result<Self, String> {
        let fields = fields
            .iter()
            .map(|field| RowField::compile(schemas, field, added));
        Ok(RecordPlan {
            fields: fields.collect::<Result<_, _>>()?,
        })
    }
}

impl RowField {
    fn compile(schemas: &Schemas, field: &Field, added: Option<FindAdded>) -> Result<Self, String> {
        let declared = connect_schema(schemas, field);
        let reader = Choice::compile(&field.schema, |branch| {
            Ok(ValueReader::compile(
                schemas,
                branch,
                &connect_branch(schemas, field, branch),
            ))
        })?;
        let added = added.and_then(|added| added(&field.name, &declared));
        let (name, schema, spelling) = (
            field.name.clone(),
            field.schema.clone(),
            declared.spelling(),
        );
        Ok(RowField {
            name,
            schema,
            reader,
            declared,
            spelling,
            added,
        })
    }
}
