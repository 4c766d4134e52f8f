//! The three layouts of the output: which rows a change gives, and which columns they have.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use crate::event::{Events, Image, Op, Row, Value};
use crate::images::Latest;

/// How changes are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    /// One row for each change or message, images as nested columns.
    #[default]
    Change,
    /// Delta's change data feed: the table's columns on top, an update is two rows.
    Changelog,
    /// One row for each change, ready for MERGE: the table's columns on top.
    Upsert,
}

/// An envelope column, by its name in the `change` layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeField {
    Op,
    Database,
    Schema,
    Table,
    PrimaryKey,
    Before,
    After,
    Changed,
    MissingColumns,
    EventTime,
    ProducedTime,
    Sql,
    TableChanges,
    ColumnTypes,
    JdbcTypes,
    Source,
    Row,
    Sequence,
    Error,
    CorruptRecord,
}

use EnvelopeField as F;

impl EnvelopeField {
    const NAMES: [(EnvelopeField, &'static str); 20] = [
        (F::Op, "op"),
        (F::Database, "database"),
        (F::Schema, "schema"),
        (F::Table, "table"),
        (F::PrimaryKey, "primary_key"),
        (F::Before, "before"),
        (F::After, "after"),
        (F::Changed, "changed"),
        (F::MissingColumns, "missing_columns"),
        (F::EventTime, "event_time"),
        (F::ProducedTime, "produced_time"),
        (F::Sql, "sql"),
        (F::TableChanges, "table_changes"),
        (F::ColumnTypes, "column_types"),
        (F::JdbcTypes, "jdbc_types"),
        (F::Source, "source"),
        (F::Row, "row"),
        (F::Sequence, "sequence"),
        (F::Error, "error"),
        (F::CorruptRecord, "_corrupt_record"),
    ];

    /// Its name in a layout: under the table's own columns, it begins with an underscore.
    pub fn name(self, layout: Layout) -> String {
        let plain = Self::NAMES.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name);
        match (layout, self) {
            (Layout::Change, _) | (_, F::CorruptRecord) => plain.into(),
            (Layout::Changelog, F::Op) => "_change_type".into(),
            _ => format!("_{plain}"),
        }
    }

    pub fn arrow(self, layout: Layout, images: &DataType) -> FieldRef {
        let data_type = match self {
            F::Op | F::Database | F::Schema | F::Table | F::Sql | F::TableChanges => DataType::Utf8,
            F::PrimaryKey | F::Changed | F::MissingColumns => DataType::List(list_item()),
            F::Before | F::After => images.clone(),
            F::EventTime | F::ProducedTime => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            F::ColumnTypes => map_type(DataType::Utf8),
            F::JdbcTypes => map_type(DataType::Int32),
            F::Source => DataType::Struct(source_fields()),
            F::Row => DataType::Int32,
            F::Sequence => DataType::Struct(sequence_fields()),
            F::Error => DataType::Struct(error_fields()),
            F::CorruptRecord => DataType::Binary,
        };
        let nullable = !matches!(self, F::Op | F::Sequence);
        Arc::new(Field::new(self.name(layout), data_type, nullable))
    }
}

impl Layout {
    /// The names that users give.
    pub const NAMES: [(&'static str, Layout); 3] =
        [("change", Layout::Change), ("changelog", Layout::Changelog), ("upsert", Layout::Upsert)];

    /// The columns that are put out unless others are asked for.
    pub(crate) fn default_fields(self) -> Vec<EnvelopeField> {
        match self {
            Layout::Change => self.allowed_fields(),
            Layout::Changelog => vec![F::Op, F::EventTime, F::Source, F::Row, F::Error, F::CorruptRecord],
            Layout::Upsert => vec![F::Op, F::EventTime, F::Sequence, F::Source, F::Row, F::Error, F::CorruptRecord],
        }
    }

    /// The columns that can be asked for.
    pub(crate) fn allowed_fields(self) -> Vec<EnvelopeField> {
        let all = EnvelopeField::NAMES.iter().map(|(field, _)| *field);
        let refused: &[F] = match self {
            Layout::Change => &[F::Sequence],
            Layout::Changelog => &[F::Sequence, F::Before, F::After],
            Layout::Upsert => &[F::Before, F::After],
        };
        all.filter(|field| !refused.contains(field)).collect()
    }

    /// The rows that an event's row gives: the word of each, and its images.
    pub(crate) fn rows<'a>(
        self,
        event: &Row,
        events: &Events<'a, '_, '_>,
        keys: &mut KeyMoves<'a>,
        push: &mut impl FnMut(&'static str, RowImages),
    ) {
        let (before, after) = (event.before.clone(), event.after.clone());
        match (self, event.op) {
            (Layout::Change, op) => push(op.name(), [before, after]),
            (_, Op::Error) => push("error", [None, None]),
            (Layout::Changelog, Op::Update) => {
                // Without a before image there is no preimage to tell of.
                if before.is_some() {
                    push(PREIMAGE, [before, None]);
                }
                push(POSTIMAGE, [after, None]);
            }
            (Layout::Upsert, Op::Update) if keys.moves(event, events) => {
                push("delete", [before, None]);
                push("insert", [after, None]);
            }
            (_, Op::Insert | Op::Snapshot) => push("insert", [after, None]),
            (_, Op::Update) => push("update", [after, None]),
            (_, Op::Delete) => push("delete", [before, None]),
            (Layout::Upsert, Op::Truncate) => push("truncate", [None, None]),
            _ => {}
        }
    }
}

/// The two rows of an update in the `changelog` layout.
pub(crate) const PREIMAGE: &str = "update_preimage";
pub(crate) const POSTIMAGE: &str = "update_postimage";

/// The images of a row: before and after in the `change` layout; the row itself in the others.
pub(crate) type RowImages = [Option<Image>; 2];

/// Tells which updates change the primary key.
#[derive(Default)]
pub(crate) struct KeyMoves<'a> {
    before: Latest<'a>,
    after: Latest<'a>,
}

impl<'a> KeyMoves<'a> {
    fn moves(&mut self, row: &Row, events: &Events<'a, '_, '_>) -> bool {
        let (Some(before), Some(after)) = (&row.before, &row.after) else { return false };
        let envelope = row.envelope.and_then(|envelope| events.envelopes.get(envelope));
        let names = envelope.and_then(|envelope| events.names.get(envelope.primary_key.clone()?)).unwrap_or_default();
        self.before.overlay(before, events);
        self.after.overlay(after, events);
        names.iter().any(|name| match (self.before.value(*name), self.after.value(*name)) {
            (Value::Missing, _) | (_, Value::Missing) => false,
            (before, after) => !before.same(&after),
        })
    }
}

pub(crate) fn list_item() -> FieldRef {
    Arc::new(Field::new("element", DataType::Utf8, true))
}

pub(crate) fn map_fields(value: DataType) -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, true)])
}

pub(crate) fn map_entries(value: DataType) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(map_fields(value)), false))
}

pub(crate) fn map_type(value: DataType) -> DataType {
    DataType::Map(map_entries(value), false)
}

pub(crate) fn error_fields() -> Fields {
    let texts = ["kind", "message", "column"].map(|name| Field::new(name, DataType::Utf8, true));
    texts.into_iter().chain([Field::new("byte", DataType::Int64, true)]).collect()
}

/// The parts are never null, but Spark's AutoCDC keeps a history only by a struct whose fields may be.
pub(crate) fn sequence_fields() -> Fields {
    ["major", "minor", "row"].map(|name| Field::new(name, DataType::Int64, true)).into_iter().collect()
}

pub(crate) fn source_fields() -> Fields {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let number = |name| Field::new(name, DataType::Int64, true);
    Fields::from(vec![
        text("dialect"),
        text("operation"),
        text("connector"),
        number("message_id"),
        number("server_id"),
        text("file"),
        number("position"),
        text("gtid"),
        text("transaction_id"),
        number("commit_ts"),
        number("watermark_ts"),
        Field::new("handle_key_only", DataType::Boolean, true),
        text("claim_check"),
        text("version"),
    ])
}
