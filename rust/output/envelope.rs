//! Envelope columns: what a message says beside its row images.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use crate::event::{Envelope, Source};
use crate::interner::NameId;
use crate::options::Layout;
use crate::output::fields::{list_item, map_type};
use crate::output::row::OutputRow;

/// One row of the output with all that its envelope columns need.
pub(crate) struct EnvelopeRow<'r, 'a> {
    pub row: &'r OutputRow,
    pub envelope: Option<&'r Envelope<'a>>,
    pub source: Option<&'r Source<'a>>,
    pub primary_key: Option<&'r [NameId]>,
    /// The whole message, where the row has an error.
    pub corrupt: Option<&'r [u8]>,
}

/// How a column's value is found, by one small function each: in what a row is, or in its envelope, which is the same for many rows
/// on end.
#[derive(Clone, Copy)]
pub(crate) enum Of<T> {
    Row(for<'r> fn(&'r EnvelopeRow<'_, '_>) -> Option<T>),
    Envelope(for<'r> fn(&'r Envelope<'_>) -> Option<T>),
}

/// The same for text, which is borrowed.
#[derive(Clone, Copy)]
pub(crate) enum TextOf {
    Row(for<'r> fn(&'r EnvelopeRow<'_, '_>) -> Option<&'r str>),
    Envelope(for<'r> fn(&'r Envelope<'_>) -> Option<&'r str>),
}

/// What an envelope column holds, from which its type and its builder follow.
pub(crate) enum Content {
    Text(TextOf),
    Number(Of<i64>),
    /// Microseconds since 1970 in UTC.
    Time(Of<i64>),
    Flag(Of<bool>),
    /// The index of the change in its message.
    Index,
    /// The names of the key's columns.
    PrimaryKey,
    /// The names of the columns that an update changed.
    Changed,
    /// The names of the schema's columns that the row's images lack.
    Missing,
    /// Declared types by name.
    ColumnTypes,
    /// JDBC's numbers of types by name.
    JdbcTypes,
    /// What orders the changes of a key.
    Sequence,
    /// The members of [`SOURCE`].
    Source,
    /// The members of [`ERROR`].
    Error,
    /// The whole message, raw.
    Message,
    /// A row image.
    Image,
}

impl Content {
    fn data_type(&self, images: &DataType) -> DataType {
        match self {
            Content::Text(_) => DataType::Utf8,
            Content::Number(_) => DataType::Int64,
            Content::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Content::Flag(_) => DataType::Boolean,
            Content::Index => DataType::Int32,
            Content::PrimaryKey | Content::Changed | Content::Missing => DataType::List(list_item()),
            Content::ColumnTypes => map_type(DataType::Utf8),
            Content::JdbcTypes => map_type(DataType::Int32),
            Content::Sequence => DataType::Struct(sequence_members()),
            Content::Source => DataType::Struct(members(SOURCE)),
            Content::Error => DataType::Struct(members(ERROR)),
            Content::Message => DataType::Binary,
            Content::Image => images.clone(),
        }
    }
}

/// In which layouts a column can be asked for, and in which of them it is put out unless others are named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offered {
    /// In all, and put out by all.
    Always,
    /// In all, but put out only by `change`.
    WhenAsked,
    /// In `change`.
    InChange,
    /// In `upsert`.
    InUpsert,
}

/// A line of the table of envelope columns.
struct Line {
    field: EnvelopeField,
    name: &'static str,
    content: Content,
    offered: Offered,
}

/// The envelope's columns in their order: this is the one place that lists them.
macro_rules! envelope_columns {
    ($($field:ident $name:literal $content:expr, $offered:ident;)*) => {
        /// An envelope column, by its name in the `change` layout.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum EnvelopeField {
            $($field,)*
        }

        static COLUMNS: &[Line] =
            &[$(Line { field: EnvelopeField::$field, name: $name, content: $content, offered: Offered::$offered },)*];
    };
}

envelope_columns! {
    Op "op" Content::Text(TextOf::Row(|r| Some(r.row.word))), Always;
    Database "database" Content::Text(TextOf::Envelope(|e| e.database.as_deref())), WhenAsked;
    Schema "schema" Content::Text(TextOf::Envelope(|e| e.schema.as_deref())), WhenAsked;
    Table "table" Content::Text(TextOf::Envelope(|e| e.table.as_deref())), WhenAsked;
    PrimaryKey "primary_key" Content::PrimaryKey, WhenAsked;
    Before "before" Content::Image, InChange;
    After "after" Content::Image, InChange;
    Changed "changed" Content::Changed, WhenAsked;
    MissingColumns "missing_columns" Content::Missing, WhenAsked;
    EventTime "event_time" Content::Time(Of::Row(|r| r.source?.event_time)), Always;
    ProducedTime "produced_time" Content::Time(Of::Row(|r| r.source?.produced_time)), WhenAsked;
    Sql "sql" Content::Text(TextOf::Envelope(|e| e.sql.as_deref())), WhenAsked;
    TableChanges "table_changes" Content::Text(TextOf::Envelope(|e| e.table_changes.as_deref())), WhenAsked;
    ColumnTypes "column_types" Content::ColumnTypes, WhenAsked;
    JdbcTypes "jdbc_types" Content::JdbcTypes, WhenAsked;
    Sequence "sequence" Content::Sequence, InUpsert;
    Source "source" Content::Source, Always;
    Row "row" Content::Index, Always;
    Error "error" Content::Error, Always;
    CorruptRecord "_corrupt_record" Content::Message, Always;
}

/// A member of a struct: its name and what it holds.
pub(crate) type Member = (&'static str, Content);

/// The members of `source`.
pub(crate) static SOURCE: &[Member] = &[
    ("dialect", Content::Text(TextOf::Envelope(|e| Some(e.quirks.dialect)))),
    ("operation", Content::Text(TextOf::Row(|r| r.source?.operation.as_deref()))),
    ("connector", Content::Text(TextOf::Envelope(|e| e.connector.as_deref()))),
    ("message_id", Content::Number(Of::Row(|r| r.source?.message_id))),
    ("server_id", Content::Number(Of::Envelope(|e| e.server_id))),
    ("file", Content::Text(TextOf::Row(|r| r.source?.file.as_deref()))),
    ("position", Content::Number(Of::Row(|r| r.source?.position))),
    ("gtid", Content::Text(TextOf::Row(|r| r.source?.gtid.as_deref()))),
    ("transaction_id", Content::Text(TextOf::Row(|r| r.source?.transaction_id.as_deref()))),
    ("commit_ts", Content::Number(Of::Row(|r| r.source?.commit_ts))),
    ("watermark_ts", Content::Number(Of::Row(|r| r.source?.watermark_ts))),
    ("handle_key_only", Content::Flag(Of::Envelope(|e| e.handle_key_only))),
    ("claim_check", Content::Text(TextOf::Envelope(|e| e.claim_check.as_deref()))),
    ("version", Content::Text(TextOf::Envelope(|e| e.version.as_deref()))),
];

/// The members of `error`.
pub(crate) static ERROR: &[Member] = &[
    ("kind", Content::Text(TextOf::Row(|r| Some(r.row.error.as_ref()?.kind.name())))),
    ("message", Content::Text(TextOf::Row(|r| Some(&r.row.error.as_ref()?.message)))),
    ("column", Content::Text(TextOf::Row(|r| r.row.error.as_ref()?.column.as_deref()))),
    ("byte", Content::Number(Of::Row(|r| r.row.error.as_ref()?.byte.map(|byte| byte as i64)))),
];

/// The Arrow fields of a struct's members.
pub(crate) fn members(members: &[Member]) -> Fields {
    // None of them is an image.
    members.iter().map(|(name, content)| Field::new(*name, content.data_type(&DataType::Null), true)).collect()
}

/// The parts of `sequence`, which are never null; but Spark's AutoCDC keeps a history only by a struct whose fields may be.
pub(crate) fn sequence_members() -> Fields {
    ["major", "minor", "row"].map(|name| Field::new(name, DataType::Int64, true)).into_iter().collect()
}

impl EnvelopeField {
    /// The columns that can be asked for in a layout.
    pub fn allowed(layout: Layout) -> Vec<EnvelopeField> {
        let is_allowed = |line: &&Line| match line.offered {
            Offered::Always | Offered::WhenAsked => true,
            Offered::InChange => layout == Layout::Change,
            Offered::InUpsert => layout == Layout::Upsert,
        };
        COLUMNS.iter().filter(is_allowed).map(|line| line.field).collect()
    }

    /// The columns that are put out unless others are asked for.
    pub fn of_layout(layout: Layout) -> Vec<EnvelopeField> {
        let is_given =
            |field: &EnvelopeField| layout == Layout::Change || field.line().is_none_or(|line| line.offered != Offered::WhenAsked);
        Self::allowed(layout).into_iter().filter(is_given).collect()
    }

    fn line(self) -> Option<&'static Line> {
        COLUMNS.get(self as usize)
    }

    /// Its name in a layout: under the table's own columns, it begins with an underscore.
    pub fn name(self, layout: Layout) -> String {
        let plain = self.line().map_or("", |line| line.name);
        match (layout, self) {
            (Layout::Change, _) | (_, EnvelopeField::CorruptRecord) => plain.into(),
            (Layout::Changelog, EnvelopeField::Op) => "_change_type".into(),
            _ => format!("_{plain}"),
        }
    }

    /// What it holds.
    pub fn content(self) -> Option<&'static Content> {
        self.line().map(|line| &line.content)
    }

    /// Its Arrow field, where row images have the type `images`.
    pub fn arrow(self, layout: Layout, images: &DataType) -> FieldRef {
        let data_type = self.content().map_or(DataType::Null, |content| content.data_type(images));
        let nullable = !matches!(self, EnvelopeField::Op | EnvelopeField::Sequence);
        Arc::new(Field::new(self.name(layout), data_type, nullable))
    }
}
