//! Envelope columns: what a message says beside its row images.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int32Builder, Int64Builder, ListBuilder, NullBufferBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, MapArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use hashbrown::HashMap;

use crate::batch::{Input, OutRow, Told, sequence};
use crate::event::{Envelope, Events, Op, Source, Value};
use crate::keys::{KeyId, Keys};
use crate::layout::{EnvelopeField, error_fields, list_item, map_entries, map_fields, sequence_fields, source_fields};
use crate::template::Template;
use crate::wire::json::Cursor;

/// One row of the output with all that its envelope columns need.
pub(crate) struct Outcome<'r, 'a> {
    pub row: &'r OutRow,
    pub envelope: Option<&'r Envelope<'a>>,
    pub source: Option<&'r Source<'a>>,
    pub primary_key: Option<&'r [KeyId]>,
    /// The whole message, where the row has an error.
    pub corrupt: Option<&'r [u8]>,
}

impl<'r, 'a> Outcome<'r, 'a> {
    pub fn new(row: &'r OutRow, events: &'r Events<'a, '_, '_>, templates: &'r [Template], input: &Input<'r>) -> Self {
        let corrupt = row.error.as_ref().and_then(|_| *input.messages.get(row.message)?);
        match row.told {
            Told::Nowhere => Outcome { row, envelope: None, source: None, primary_key: None, corrupt },
            Told::Event(envelope) => {
                let envelope = events.envelopes.get(envelope);
                let primary_key = envelope.and_then(|envelope| events.names.get(envelope.primary_key.clone()?));
                Outcome { row, envelope, source: envelope.map(|envelope| &envelope.source), primary_key, corrupt }
            }
            Told::Template { template, source } => {
                let template = templates.get(template);
                let envelope = template.map(|template| &template.envelope);
                let primary_key = template.and_then(|template| template.primary_key.as_deref());
                Outcome { row, envelope, source: events.sources.get(source), primary_key, corrupt }
            }
        }
    }
}

/// How a column's value is found: by one small function each.
type TextOf = for<'r> fn(&'r Outcome<'_, '_>) -> Option<&'r str>;
type NumberOf = fn(&Outcome<'_, '_>) -> Option<i64>;
type NamesOf = for<'r> fn(&Outcome<'r, '_>, &'r Surroundings<'_, '_, '_, '_>) -> Option<Vec<&'r str>>;

/// What names in a row's lists and maps refer to.
pub(crate) struct Surroundings<'e, 'a, 's, 'k> {
    pub events: &'e Events<'a, 's, 'k>,
    pub columns: &'e [FieldRef],
    /// See [`OutRow::changed`] and [`OutRow::missing`].
    pub changed: &'e [KeyId],
    pub missing: &'e [usize],
    pub input: &'e Input<'e>,
}

/// An envelope column that is being built.
pub(crate) enum Builder {
    Text(TextOf, StringBuilder),
    Number(NumberOf, Int64Builder),
    Index(NumberOf, Int32Builder),
    Time(NumberOf, TimestampMicrosecondBuilder),
    Flag(fn(&Outcome<'_, '_>) -> Option<bool>, BooleanBuilder),
    Bytes(BinaryBuilder),
    Names(NamesOf, ListBuilder<StringBuilder>),
    Types(MapBuilder<StringBuilder>),
    Jdbc(MapBuilder<Int32Builder>),
    Sequence(Vec<Int64Builder>),
    /// Fields, and which rows have the struct at all.
    Struct(Vec<Builder>, fn(&Outcome<'_, '_>) -> bool, Fields, NullBufferBuilder),
}

impl Builder {
    /// None for the images, which are no envelope columns.
    pub fn new(field: EnvelopeField) -> Option<Self> {
        use EnvelopeField as F;
        Some(match field {
            F::Op => text(|r| Some(r.row.word)),
            F::Database => text(|r| r.envelope?.database.as_deref()),
            F::Schema => text(|r| r.envelope?.schema.as_deref()),
            F::Table => text(|r| r.envelope?.table.as_deref()),
            F::Sql => text(|r| r.envelope?.sql.as_deref()),
            F::TableChanges => text(|r| r.envelope?.table_changes.as_deref()),
            F::EventTime => time(|r| r.source?.event_time),
            F::ProducedTime => time(|r| r.source?.produced_time),
            F::Row => Builder::Index(|r| (r.row.op != Op::Error).then_some(r.row.index as i64), Int32Builder::new()),
            F::PrimaryKey => names(primary_key),
            F::Changed => names(|r, around| Some(key_names(around.changed.get(r.row.changed.clone()?)?, around))),
            F::MissingColumns => names(missing_columns),
            F::ColumnTypes => Builder::Types(MapBuilder::new(DataType::Utf8)),
            F::JdbcTypes => Builder::Jdbc(MapBuilder::new(DataType::Int32)),
            F::Source => Builder::Struct(source(), |r| r.envelope.is_some(), source_fields(), NullBufferBuilder::new(0)),
            F::Sequence => Builder::Sequence(vec![Int64Builder::new(), Int64Builder::new(), Int64Builder::new()]),
            F::Error => Builder::Struct(error(), |r| r.row.error.is_some(), error_fields(), NullBufferBuilder::new(0)),
            F::CorruptRecord => Builder::Bytes(BinaryBuilder::new()),
            F::Before | F::After => return None,
        })
    }

    /// Appends one value for each row.
    pub fn extend(&mut self, rows: &[Outcome<'_, '_>], around: &Surroundings<'_, '_, '_, '_>) {
        match self {
            Builder::Text(get, builder) => rows.iter().for_each(|row| append_text(builder, get(row))),
            Builder::Number(get, builder) => rows.iter().for_each(|row| builder.append_option(get(row))),
            Builder::Index(get, builder) => rows.iter().for_each(|row| builder.append_option(get(row).map(|n| n as i32))),
            Builder::Time(get, builder) => rows.iter().for_each(|row| builder.append_option(get(row))),
            Builder::Flag(get, builder) => rows.iter().for_each(|row| builder.append_option(get(row))),
            Builder::Bytes(builder) => rows.iter().for_each(|row| append_bytes(builder, row.corrupt)),
            Builder::Names(get, builder) => rows.iter().for_each(|row| append_names(builder, get(row, around))),
            Builder::Types(map) => rows.iter().for_each(|row| append_types(map, row, around.events)),
            Builder::Jdbc(map) => rows.iter().for_each(|row| append_jdbc(map, row, around.events.keys)),
            Builder::Sequence(parts) => {
                for (at, part) in parts.iter_mut().enumerate() {
                    rows.iter().for_each(|row| part.append_option(sequence(row.row, row.source, around.input).get(at).copied()));
                }
            }
            Builder::Struct(fields, present, _, nulls) => {
                fields.iter_mut().for_each(|field| field.extend(rows, around));
                rows.iter().for_each(|row| nulls.append(present(row)));
            }
        }
    }

    /// Takes what was built.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Builder::Text(_, builder) => Arc::new(builder.finish()),
            Builder::Number(_, builder) => Arc::new(builder.finish()),
            Builder::Index(_, builder) => Arc::new(builder.finish()),
            Builder::Time(_, builder) => Arc::new(builder.finish()),
            Builder::Flag(_, builder) => Arc::new(builder.finish()),
            Builder::Bytes(builder) => Arc::new(builder.finish()),
            Builder::Names(_, builder) => Arc::new(builder.finish()),
            Builder::Types(map) => {
                let values = Arc::new(map.values.finish());
                map.finish(values)
            }
            Builder::Jdbc(map) => {
                let values = Arc::new(map.values.finish());
                map.finish(values)
            }
            Builder::Sequence(parts) => {
                let arrays = parts.iter_mut().map(|part| Arc::new(part.finish()) as ArrayRef).collect();
                Arc::new(StructArray::new(sequence_fields(), arrays, None))
            }
            Builder::Struct(builders, _, fields, nulls) => {
                let arrays = builders.iter_mut().map(Builder::finish).collect::<Result<_, _>>()?;
                Arc::new(StructArray::new(fields.clone(), arrays, nulls.finish()))
            }
        })
    }
}

fn text(get: TextOf) -> Builder {
    Builder::Text(get, StringBuilder::new())
}

fn number(get: NumberOf) -> Builder {
    Builder::Number(get, Int64Builder::new())
}

fn time(get: NumberOf) -> Builder {
    Builder::Time(get, TimestampMicrosecondBuilder::new().with_timezone("UTC"))
}

fn names(get: NamesOf) -> Builder {
    Builder::Names(get, ListBuilder::new(StringBuilder::new()).with_field(list_item()))
}

/// In the order of [`source_fields`].
fn source() -> Vec<Builder> {
    vec![
        text(|r| Some(r.envelope?.quirks.dialect)),
        text(|r| r.source?.operation.as_deref()),
        text(|r| r.envelope?.connector.as_deref()),
        number(|r| r.source?.message_id),
        number(|r| r.envelope?.server_id),
        text(|r| r.source?.file.as_deref()),
        number(|r| r.source?.position),
        text(|r| r.source?.gtid.as_deref()),
        text(|r| r.source?.transaction_id.as_deref()),
        number(|r| r.source?.commit_ts),
        number(|r| r.source?.watermark_ts),
        Builder::Flag(|r| r.envelope?.handle_key_only, BooleanBuilder::new()),
        text(|r| r.envelope?.claim_check.as_deref()),
        text(|r| r.envelope?.version.as_deref()),
    ]
}

/// In the order of [`error_fields`].
fn error() -> Vec<Builder> {
    vec![
        text(|r| Some(r.row.error.as_ref()?.kind.name())),
        text(|r| Some(&r.row.error.as_ref()?.message)),
        text(|r| r.row.error.as_ref()?.column.as_deref()),
        number(|r| r.row.error.as_ref()?.byte.map(|byte| byte as i64)),
    ]
}

fn primary_key<'r>(row: &Outcome<'r, '_>, around: &'r Surroundings<'_, '_, '_, '_>) -> Option<Vec<&'r str>> {
    Some(key_names(row.primary_key?, around))
}

fn key_names<'r>(keys: &[KeyId], around: &'r Surroundings<'_, '_, '_, '_>) -> Vec<&'r str> {
    keys.iter().map(|key| around.events.keys.name(*key)).collect()
}

fn missing_columns<'r>(row: &Outcome<'r, '_>, around: &'r Surroundings<'_, '_, '_, '_>) -> Option<Vec<&'r str>> {
    let missing = around.missing.get(row.row.missing.clone()).filter(|missing| !missing.is_empty())?;
    Some(missing.iter().filter_map(|at| around.columns.get(*at)).map(|field| field.name().as_str()).collect())
}

/// Whether a string or binary array of 32-bit offsets has room for more. What it has no room for is null: the row's message
/// is too large for any column of its batch.
fn has_room(held: usize, more: usize) -> bool {
    held.saturating_add(more) <= i32::MAX as usize
}

fn append_text(builder: &mut StringBuilder, text: Option<&str>) {
    builder.append_option(text.filter(|text| has_room(builder.values_slice().len(), text.len())));
}

fn append_bytes(builder: &mut BinaryBuilder, bytes: Option<&[u8]>) {
    builder.append_option(bytes.filter(|bytes| has_room(builder.values_slice().len(), bytes.len())));
}

fn append_names(builder: &mut ListBuilder<StringBuilder>, names: Option<Vec<&str>>) {
    let Some(names) = names else { return builder.append_null() };
    names.into_iter().for_each(|name| append_text(builder.values(), Some(name)));
    builder.append(true);
}

/// A map from names.
pub(crate) struct MapBuilder<V> {
    keys: StringBuilder,
    values: V,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    value_type: DataType,
}

impl<V: Default> MapBuilder<V> {
    fn new(value_type: DataType) -> Self {
        MapBuilder { keys: StringBuilder::new(), values: V::default(), ends: vec![0], nulls: NullBufferBuilder::new(0), value_type }
    }

    fn close(&mut self, present: bool) {
        self.ends.push(i32::try_from(self.keys_len()).unwrap_or(i32::MAX));
        self.nulls.append(present);
    }

    fn keys_len(&self) -> usize {
        self.keys.offsets_slice().len() - 1
    }

    fn finish(&mut self, values: ArrayRef) -> ArrayRef {
        let arrays: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), values];
        let ends = OffsetBuffer::new(std::mem::replace(&mut self.ends, vec![0]).into());
        let entries = StructArray::new(map_fields(self.value_type.clone()), arrays, None);
        Arc::new(MapArray::new(map_entries(self.value_type.clone()), ends, entries, self.nulls.finish(), false))
    }
}

fn append_types(map: &mut MapBuilder<StringBuilder>, row: &Outcome<'_, '_>, events: &Events<'_, '_, '_>) {
    let block = row.envelope.and_then(|envelope| events.types.block(envelope.types?));
    for (key, id) in block.map_or(&[][..], |block| &block.entries) {
        let declared = events.types.declared(*id).map_or("", |declared| &declared.text);
        let name = events.keys.name(*key);
        if has_room(map.keys.values_slice().len(), name.len()) && has_room(map.values.values_slice().len(), declared.len()) {
            map.keys.append_value(name);
            map.values.append_value(declared);
        }
    }
    map.close(block.is_some());
}

fn append_jdbc(map: &mut MapBuilder<Int32Builder>, row: &Outcome<'_, '_>, keys: &Keys<'_>) {
    let object = row.envelope.and_then(|envelope| envelope.jdbc_types.as_deref());
    for (name, number) in object.map(jdbc_types).unwrap_or_default() {
        let name = keys.unquoted(&name);
        if has_room(map.keys.values_slice().len(), name.len()) {
            map.keys.append_value(name);
            map.values.append_option(number);
        }
    }
    map.close(object.is_some());
}

/// The members of an object that was checked when the message was read; where a name stands twice, the later number counts.
fn jdbc_types(object: &str) -> Vec<(Cow<'_, str>, Option<i32>)> {
    let mut cursor = Cursor::new(object, true);
    let mut found: Vec<(Cow<'_, str>, Option<i32>)> = Vec::new();
    let mut places = HashMap::new();
    let Ok(mut members) = cursor.object() else { return found };
    while let Ok(Some(key)) = cursor.next_key(&mut members) {
        let (Ok(name), Ok(value)) = (key.decode(), cursor.value()) else { break };
        let number = if let Value::Number(digits) = value { digits.parse().ok() } else { None };
        let next = found.len();
        match found.get_mut(*places.entry(name.clone()).or_insert(next)) {
            Some(earlier) => earlier.1 = number,
            None => found.push((name, number)),
        }
    }
    found
}
