//! Envelope columns: the fields of a message apart from its row images.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use crate::event::{Envelope, Op, Source};
use crate::interner::NameId;
use crate::options::Layout;
use crate::output::changes::POSTIMAGE;
use crate::output::fields::{list_item, map_type};
use crate::output::row::OutputRow;

/// An output row with all data that its envelope columns read.
pub(crate) struct EnvelopeRow<'r, 'a> {
    pub row: &'r OutputRow,
    pub envelope: Option<&'r Envelope<'a>>,
    pub source: Option<&'r Source<'a>>,
    pub primary_key: Option<&'r [NameId]>,
    /// The raw message, if the row has an error.
    pub corrupt: Option<&'r [u8]>,
    /// Kafka's offset of the message, if the input has it.
    pub offset: Option<i64>,
}

/// Getter of a column's value, from a row or from its envelope. Consecutive rows share an envelope.
#[derive(Clone, Copy)]
pub(crate) enum Getter<R, E> {
    Row(R),
    Envelope(E),
    /// From a row whose source has a place in a log.
    Log(R),
}

/// [`Getter`] of numbers and flags.
pub(crate) type ValueGetter<T> = Getter<
    for<'r> fn(&'r EnvelopeRow<'_, '_>) -> Option<T>,
    for<'r> fn(&'r Envelope<'_>) -> Option<T>,
>;

/// [`Getter`] of borrowed text.
pub(crate) type TextGetter = Getter<
    for<'r> fn(&'r EnvelopeRow<'_, '_>) -> Option<&'r str>,
    for<'r> fn(&'r Envelope<'_>) -> Option<&'r str>,
>;

/// Content of an envelope column. It determines the column's type and builder.
pub(crate) enum Content {
    Text(TextGetter),
    Number(ValueGetter<i64>),
    /// Microseconds since 1970 in UTC.
    Time(ValueGetter<i64>),
    Flag(ValueGetter<bool>),
    /// The index of the change in its message.
    Index,
    /// Names of the key's columns.
    PrimaryKey,
    /// Names of the columns that an update changed.
    Changed,
    /// Names of the schema's columns that are missing from the row's images.
    Missing,
    /// Declared types by name.
    ColumnTypes,
    /// JDBC type numbers by name.
    JdbcTypes,
    /// Members of a struct, and a getter that tells whether a row has the struct.
    Struct(&'static [Member], ValueGetter<()>),
    /// The whole message, raw.
    Message,
    /// A row image.
    Image,
}

impl Content {
    pub fn data_type(&self, images: &DataType) -> DataType {
        match self {
            Content::Text(_) => DataType::Utf8,
            Content::Number(_) => DataType::Int64,
            Content::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Content::Flag(_) => DataType::Boolean,
            Content::Index => DataType::Int32,
            Content::PrimaryKey | Content::Changed | Content::Missing => {
                DataType::List(list_item())
            }
            Content::ColumnTypes => map_type(DataType::Utf8),
            Content::JdbcTypes => map_type(DataType::Int32),
            Content::Struct(content, _) => DataType::Struct(members(content)),
            Content::Message => DataType::Binary,
            Content::Image => images.clone(),
        }
    }
}

/// Layouts that allow a column, and layouts that include it by default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Availability {
    /// Allowed and default in all layouts.
    Always,
    /// Allowed in all layouts, default only in `change`.
    OnRequest,
    /// Only in `change`.
    ChangeOnly,
    /// Only in `upsert`.
    UpsertOnly,
}

/// Specification of an envelope column.
struct ColumnSpec {
    field: EnvelopeField,
    name: &'static str,
    content: Content,
    availability: Availability,
}

/// Defines the envelope columns in their order. Only this macro lists them.
macro_rules! envelope_columns {
    ($($field:ident $name:literal $content:expr, $availability:ident;)*) => {
        /// An envelope column, by its name in the `change` layout.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum EnvelopeField {
            $($field,)*
        }

        static COLUMNS: &[ColumnSpec] =
            &[$(ColumnSpec { field: EnvelopeField::$field, name: $name, content: $content, availability: Availability::$availability },)*];
    };
}

envelope_columns! {
    Op "op" Content::Text(TextGetter::Row(|r| Some(r.row.op_name))), Always;
    Database "database" Content::Text(TextGetter::Envelope(|e| e.database.as_deref())), OnRequest;
    Schema "schema" Content::Text(TextGetter::Envelope(|e| e.schema.as_deref())), OnRequest;
    Table "table" Content::Text(TextGetter::Envelope(|e| e.table.as_deref())), OnRequest;
    PrimaryKey "primary_key" Content::PrimaryKey, OnRequest;
    Before "before" Content::Image, ChangeOnly;
    After "after" Content::Image, ChangeOnly;
    Changed "changed" Content::Changed, OnRequest;
    MissingColumns "missing_columns" Content::Missing, Always;
    EventTime "event_time" Content::Time(Getter::Row(|r| r.source?.event_time)), Always;
    ProducedTime "produced_time" Content::Time(Getter::Row(|r| r.source?.produced_time)), OnRequest;
    Sql "sql" Content::Text(TextGetter::Envelope(|e| e.sql.as_deref())), OnRequest;
    TableChanges "table_changes" Content::Text(TextGetter::Envelope(|e| e.table_changes.as_deref())), OnRequest;
    ColumnTypes "column_types" Content::ColumnTypes, OnRequest;
    JdbcTypes "jdbc_types" Content::JdbcTypes, OnRequest;
    Sequence "sequence" Content::Struct(SEQUENCE, Getter::Row(|_| Some(()))), UpsertOnly;
    Source "source" Content::Struct(SOURCE, Getter::Envelope(|_| Some(()))), Always;
    Row "row" Content::Index, Always;
    Error "error" Content::Struct(ERROR, Getter::Row(|r| r.row.error.as_ref().map(drop))), Always;
    CorruptRecord "_corrupt_record" Content::Message, Always;
}

/// Name and content of a struct's member.
pub(crate) type Member = (&'static str, Content);

/// The members of `source`.
static SOURCE: &[Member] = &[
    (
        "dialect",
        Content::Text(TextGetter::Envelope(|e| Some(e.quirks.dialect))),
    ),
    (
        "operation",
        Content::Text(TextGetter::Row(|r| r.source?.operation.as_deref())),
    ),
    (
        "connector",
        Content::Text(TextGetter::Envelope(|e| e.connector.as_deref())),
    ),
    (
        "message_id",
        Content::Number(Getter::Row(|r| r.source?.message_id)),
    ),
    (
        "server_id",
        Content::Number(Getter::Envelope(|e| e.server_id)),
    ),
    (
        "file",
        Content::Text(TextGetter::Log(|r| r.source?.file.as_deref())),
    ),
    (
        "position",
        Content::Number(Getter::Log(|r| r.source?.position)),
    ),
    (
        "gtid",
        Content::Text(TextGetter::Row(|r| r.source?.gtid.as_deref())),
    ),
    (
        "transaction_id",
        Content::Text(TextGetter::Log(|r| r.source?.transaction_id.as_deref())),
    ),
    (
        "commit_ts",
        Content::Number(Getter::Log(|r| r.source?.commit_ts)),
    ),
    (
        "watermark_ts",
        Content::Number(Getter::Log(|r| r.source?.watermark_ts)),
    ),
    (
        "handle_key_only",
        Content::Flag(Getter::Envelope(|e| e.handle_key_only)),
    ),
    (
        "claim_check",
        Content::Text(TextGetter::Envelope(|e| e.claim_check.as_deref())),
    ),
    (
        "version",
        Content::Text(TextGetter::Envelope(|e| e.version.as_deref())),
    ),
];

/// The members of `error`.
static ERROR: &[Member] = &[
    (
        "kind",
        Content::Text(TextGetter::Row(|r| Some(r.row.error.as_ref()?.kind.name()))),
    ),
    (
        "message",
        Content::Text(TextGetter::Row(|r| Some(&r.row.error.as_ref()?.message))),
    ),
    (
        "column",
        Content::Text(TextGetter::Row(|r| r.row.error.as_ref()?.column.as_deref())),
    ),
    (
        "byte",
        Content::Number(Getter::Row(|r| {
            r.row.error.as_ref()?.byte.map(|byte| byte as i64)
        })),
    ),
];

/// Returns the Arrow fields of a struct's members.
pub(crate) fn members(members: &[Member]) -> Fields {
    // No member is an image.
    members
        .iter()
        .map(|(name, content)| Field::new(*name, content.data_type(&DataType::Null), true))
        .collect()
}

/// The members of `sequence`, the sort key of a row's changes. They are never null, but declared nullable: Spark's
/// AutoCDC keeps a history only with a struct of nullable fields.
static SEQUENCE: &[Member] = &[
    (
        "major",
        Content::Number(Getter::Row(|r| Some(r.sequence()[0]))),
    ),
    (
        "minor",
        Content::Number(Getter::Row(|r| Some(r.sequence()[1]))),
    ),
    (
        "row",
        Content::Number(Getter::Row(|r| Some(r.sequence()[2]))),
    ),
];

impl EnvelopeRow<'_, '_> {
    /// Returns the sort key: TiDB's commit timestamp, otherwise Kafka's offset, otherwise event time and index of the
    /// message.
    fn sequence(&self) -> [i64; 3] {
        let EnvelopeRow {
            row,
            source,
            offset,
            ..
        } = self;
        let message = row.message as i64;
        let is_second_half =
            row.op == Op::Update && (row.op_name == "insert" || row.op_name == POSTIMAGE);
        let within = row.index as i64 * 2 + i64::from(is_second_half);
        match (source.and_then(|source| source.commit_ts), offset) {
            (Some(commit_ts), offset) => [commit_ts, offset.unwrap_or(message), within],
            (None, Some(offset)) => [*offset, 0, within],
            (None, None) => [
                source.and_then(|source| source.event_time).unwrap_or(0),
                message,
                within,
            ],
        }
    }
}

impl EnvelopeField {
    /// Returns the columns that a layout allows.
    pub fn allowed(layout: Layout) -> Vec<EnvelopeField> {
        let allowed = COLUMNS.iter().filter(|spec| match spec.availability {
            Availability::Always | Availability::OnRequest => true,
            Availability::ChangeOnly => layout == Layout::Change,
            Availability::UpsertOnly => layout == Layout::Upsert,
        });
        let mut fields: Vec<EnvelopeField> = allowed.map(|spec| spec.field).collect();
        if layout != Layout::Change {
            // In these layouts it is not part of a change, and follows the row's number.
            fields.sort_by_key(|field| match field {
                EnvelopeField::MissingColumns => (EnvelopeField::Row as u8, true),
                field => (*field as u8, false),
            });
        }
        fields
    }

    /// Returns the default columns of a layout.
    pub fn of_layout(layout: Layout) -> Vec<EnvelopeField> {
        let mut fields = Self::allowed(layout);
        if layout != Layout::Change {
            fields.retain(|field| field.spec().availability != Availability::OnRequest);
        }
        fields
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "each field has its line in `COLUMNS`"
    )]
    fn spec(self) -> &'static ColumnSpec {
        &COLUMNS[self as usize]
    }

    /// Returns its name in a layout. An underscore precedes the name if the table's columns are at the same level.
    pub fn name(self, layout: Layout) -> String {
        let plain = self.spec().name;
        match (layout, self) {
            (Layout::Change, _) | (_, EnvelopeField::CorruptRecord) => plain.into(),
            (Layout::Changelog, EnvelopeField::Op) => "_change_type".into(),
            _ => format!("_{plain}"),
        }
    }

    /// Returns its content.
    pub fn content(self) -> &'static Content {
        &self.spec().content
    }

    /// Returns its Arrow field. `images` is the type of row images.
    pub fn arrow(self, layout: Layout, images: &DataType) -> FieldRef {
        let data_type = self.content().data_type(images);
        let nullable = !matches!(self, EnvelopeField::Op | EnvelopeField::Sequence);
        Arc::new(Field::new(self.name(layout), data_type, nullable))
    }
}
