//! The decoder: options in, record batches out.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use bumpalo::Bump;
use hashbrown::{HashMap, HashSet};

use crate::dialect::{
    self, Caches, DEBEZIUM_AVRO, DEBEZIUM_JSON, Dialect, DialectOptions, Found, KeptCaches, Read,
    ReadContext, SchemaSnapshot, TICDC_AVRO, Wire, begins_like_json, begins_like_message,
    claim_check, explained, is_known, is_tidb, read_deleted, read_deleted_row, read_key, schema_id,
    without_schema_id,
};
use crate::error::{Error, Fault, Kind, MAX_TEXT, Result, shortened};
use crate::event::{Envelope, Events, Known, Op};
use crate::interner::{ColumnNames, Interner};
use crate::mysql::types::{DeclaredType, DeclaredTypes};
use crate::named::unknown;
use crate::options::{Layout, Options};
use crate::output::batch::{Batch, Finished, Scratch};
use crate::output::converter::KnownConverters;
use crate::output::envelope::EnvelopeField;
use crate::output::images::ImageByName;
use crate::output::metrics::Metrics;
use crate::output::plan::Plan;
use crate::output::row::{Input, Payloads};
use crate::template::{Incoming, Templates};
use crate::value::Value;
use crate::wire::compression::{Compression, expand};
use crate::wire::utf8::{self, Texts};

/// Returns whether messages of a dialect refer to schemas by their ids.
fn has_schemas(dialect: &Dialect) -> bool {
    matches!(dialect.name, DEBEZIUM_AVRO | TICDC_AVRO)
}

/// Returns whether a key is an Avro datum with a schema id in front of it. The id alone is no proof: JSON may follow an
/// id too. A datum may also begin like JSON.
fn is_avro(key: &[u8], caches: &Caches<'_>) -> bool {
    is_known(key, caches) || schema_id(key).is_some() && !begins_like_json(without_schema_id(key))
}

/// Bytes of messages that are read before their values are converted: sized for a core's own cache.
const CHUNK_BYTES: usize = 128 << 10;

/// Decoder of change messages into record batches. It is immutable, so that many threads can share one decoder. The
/// output of a call depends only on its input.
pub struct Decoder {
    options: Options,
    /// `None` detects the dialect of each message.
    dialect: Option<&'static Dialect>,
    plan: Plan,
    columns: Arc<ColumnNames>,
    fields: Fields,
    dialect_options: DialectOptions,
    metrics: Mutex<Metrics>,
}

/// Reason why a batch could not be decoded at all.
#[derive(Debug)]
pub enum DecodeError {
    /// The first bad row, in mode `FAILFAST`.
    Row(Error),
    /// The input does not match the options: a column is missing or of another type.
    Input(String),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Row(error) => error.fmt(f),
            DecodeError::Input(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<Error> for DecodeError {
    fn from(error: Error) -> Self {
        DecodeError::Row(error)
    }
}

impl From<String> for DecodeError {
    fn from(what: String) -> Self {
        DecodeError::Input(shortened(&what, MAX_TEXT).into_owned())
    }
}

impl From<ArrowError> for DecodeError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::InvalidArgumentError(what) => what.into(),
            error => error.to_string().into(),
        }
    }
}

/// Data that messages refer to and the caller fetched, or the reasons why the caller could not fetch it.
#[derive(Debug, Default)]
pub struct Fetched<'f> {
    /// Reasons why schemas could not be fetched, by schema id.
    pub schemas: HashMap<u32, String>,
    /// The stored messages of claim checks, by the index of the message that refers to each.
    pub messages: HashMap<usize, Result<&'f [u8], String>>,
}

/// An expanded message, or the fault that prevents its expansion.
enum Payload<'a> {
    Tombstone,
    /// No bytes. The record's key may explain the message. Only if the dialect is unknown.
    Empty,
    Bytes(Cow<'a, [u8]>),
    /// A claim-checked message, which TiCDC stored with its key.
    Stored(claim_check::Stored),
    Invalid(Cell<Option<Fault>>),
}

impl Payload<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Stored(stored) => &stored.value,
            _ => &[],
        }
    }
}

/// Consumer of the messages of a chunk.
trait ChunkReader {
    /// Invalidates all references to interned names and declared types.
    fn reset(&mut self) {}

    /// Returns whether the reader wants no further chunk.
    fn is_full(&self) -> bool {
        false
    }

    fn read<'a>(
        &mut self,
        messages: &'a [Payload<'_>],
        input: &Input<'a>,
        events: &mut Events<'a>,
        payloads: &Payloads<'_>,
    ) -> Result<(), DecodeError>;
}

/// Reads every message into events, and calls `chunk` with the events of each chunk.
struct EventReader<'r, F> {
    decoder: &'r Decoder,
    kept: KeptCaches,
    chunk: F,
}

impl<F: FnMut(&mut Events<'_>) -> Result<(), DecodeError>> ChunkReader for EventReader<'_, F> {
    fn reset(&mut self) {
        self.kept = KeptCaches::default();
    }

    fn read<'a>(
        &mut self,
        messages: &'a [Payload<'_>],
        input: &Input<'a>,
        events: &mut Events<'a>,
        payloads: &Payloads<'_>,
    ) -> Result<(), DecodeError> {
        let mut caches = Caches::new(input.schemas, std::mem::take(&mut self.kept));
        for (index, payload) in messages.iter().enumerate() {
            let index = payloads.first + index;
            events.begin(
                index,
                self.decoder.plan.budget.max_rows(input.received(index)),
            );
            self.decoder
                .read(payload, input.key(index), events, &mut caches);
        }
        self.kept = caches.into_kept();
        (self.chunk)(events)
    }
}

/// Reads messages into a batch: by a template if one matches, otherwise through events.
struct BatchReader<'r> {
    decoder: &'r Decoder,
    batch: Batch<'r>,
    templates: Templates,
    kept: KeptCaches,
    converters: KnownConverters,
    /// Index of the first message.
    start: usize,
    /// Bytes of rows after which the batch ends.
    max_bytes: usize,
}

impl ChunkReader for BatchReader<'_> {
    fn reset(&mut self) {
        self.templates.clear();
        (self.kept, self.converters) = Default::default();
        self.batch.forget_types();
    }

    fn is_full(&self) -> bool {
        self.batch.bytes() >= self.max_bytes
    }

    fn read<'a>(
        &mut self,
        messages: &'a [Payload<'_>],
        input: &Input<'a>,
        events: &mut Events<'a>,
        payloads: &Payloads<'_>,
    ) -> Result<(), DecodeError> {
        let mut caches = Caches::new(input.schemas, std::mem::take(&mut self.kept));
        let mut scratch = Scratch::default();
        std::mem::swap(&mut scratch.converters, &mut self.converters);
        let mut texts = Texts::new(input.buffer);
        for (index, payload) in messages.iter().enumerate() {
            let index = payloads.first + index;
            let key = input.key(index);
            let max_rows = self.decoder.plan.budget.max_rows(input.received(index));
            let message = self
                .decoder
                .incoming(payload, &mut texts, key, index, max_rows);
            if let Some(message) = &message
                && let Some(slot) = self.templates.find(message, self.decoder.dialect)
            {
                self.batch.append(events, &mut scratch, payloads)?;
                if self
                    .templates
                    .read(slot, message, &mut self.batch, events, payloads)
                {
                    continue;
                }
            }
            events.begin(index, max_rows);
            let dialect = self.decoder.read(payload, key, events, &mut caches);
            if let (Some(message), Some(dialect)) = (&message, dialect) {
                self.templates
                    .learn(message, dialect, &mut self.batch, events);
            }
        }
        self.kept = caches.into_kept();
        self.batch.append(events, &mut scratch, payloads)?;
        self.converters = scratch.converters;
        self.batch
            .end_chunk(events, |table| self.templates.envelope(table), input);
        if payloads.first == self.start {
            let size = |messages: &[Option<&[u8]>]| {
                messages.iter().flatten().map(|message| message.len()).sum()
            };
            let rest = input.messages.get(self.start..).unwrap_or_default();
            let (read, left) = rest.split_at_checked(messages.len()).unwrap_or_default();
            self.batch.reserve(size(read), size(left));
        }
        Ok(())
    }
}

impl Decoder {
    /// Validates the options. Errors about unknown names or types list the allowed ones.
    pub fn new(options: Options) -> Result<Self, String> {
        let dialect = match options.dialect.as_str() {
            "auto" => None,
            name => Some(dialect::find(name).ok_or_else(|| unknown_dialect(name))?),
        };
        dialect.map_or(Ok(()), |dialect| dialect::check_effects(dialect, &options))?;
        let plan = Plan::new(&options)?;
        let names = plan
            .table
            .iter()
            .flat_map(|table| table.iter())
            .map(|field| field.name().as_str());
        let mut columns = ColumnNames::new(names, options.case_sensitive)
            .map_err(|name| format!("schema: duplicate column {name:?}"))?;
        check_no_nul(plan.table.as_ref())?;
        check_column_options(&options, &columns)?;
        columns.add_aliases(&options.aliases)?;
        let fields = output_fields(&plan);
        check_names(&fields, &options.keep)?;
        let dialect_options = DialectOptions::new(&options, plan.has_objects())?;
        // Templates do not know which member holds the operation.
        let options = Options {
            templates: options.templates && options.op_column.is_none(),
            ..options
        };
        Ok(Decoder {
            options,
            dialect,
            plan,
            columns: Arc::new(columns),
            fields,
            dialect_options,
            metrics: Mutex::default(),
        })
    }

    /// Returns the output's schema. `kept` gives the types of the kept columns; the default is the types of Spark's
    /// Kafka source.
    pub fn schema(&self, kept: &[(String, DataType)]) -> Result<SchemaRef, String> {
        let mut fields: Vec<FieldRef> = self.fields.iter().cloned().collect();
        for name in &self.options.keep {
            let given = kept
                .iter()
                .find(|(given, _)| given == name)
                .map(|(_, data_type)| data_type.clone());
            let unknown = || {
                format!(
                    "keep: the type of {name:?} is unknown before the input is read; give keep a mapping from columns to types"
                )
            };
            let data_type = given.or_else(|| kafka_type(name)).ok_or_else(unknown)?;
            fields.push(Arc::new(Field::new(name, data_type, true)));
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Returns the names of the table's columns; empty without a schema.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.plan
            .table
            .iter()
            .flat_map(|table| table.iter())
            .map(|field| field.name().as_str())
    }

    /// Returns the counters over all calls so far.
    pub fn metrics(&self) -> Metrics {
        self.metrics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Decodes an array of messages, or a struct array (a record batch) with a column of messages.
    pub fn decode(&self, values: &dyn Array) -> Result<RecordBatch, DecodeError> {
        self.decode_with(values, &Fetched::default())
    }

    /// Decodes messages, some of which refer to data that the caller fetched.
    pub fn decode_with(
        &self,
        values: &dyn Array,
        fetched: &Fetched<'_>,
    ) -> Result<RecordBatch, DecodeError> {
        self.decode_part(values, fetched, 0, usize::MAX)
            .map(|(batch, _)| batch)
    }

    /// Decodes the messages from `start` on, up to the message whose rows reach `max_bytes`, or a few more. Returns
    /// their batch and the index of the next message. At the end, this index is the number of messages.
    pub fn decode_part(
        &self,
        values: &dyn Array,
        fetched: &Fetched<'_>,
        start: usize,
        max_bytes: usize,
    ) -> Result<(RecordBatch, usize), DecodeError> {
        let schemas = self
            .dialect_options
            .writer_schemas
            .snapshot(fetched.schemas.clone());
        let mut input = self.input(values, &schemas)?;
        input.replace(&fetched.messages);
        let (finished, end) = self.run(&input, start, max_bytes)?;
        self.metrics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&finished.metrics);
        Ok((
            self.assemble(finished, values.as_any().downcast_ref())?,
            end,
        ))
    }

    /// Returns the claim checks of the selected tables. A claim check refers to a message too large for Kafka. Each
    /// entry has the index of the message and the location of the stored message.
    pub fn claim_checks(&self, values: &dyn Array) -> Result<Vec<(usize, String)>, DecodeError> {
        let mut found = Vec::new();
        let schemas = SchemaSnapshot::default();
        self.each_chunk(&self.input(values, &schemas)?, |events| {
            for row in &events.rows {
                let envelope = events
                    .envelope_of(row)
                    .filter(|envelope| self.selects(envelope));
                if let Some(location) =
                    envelope.and_then(|envelope| envelope.claim_check.as_deref())
                {
                    found.push((row.message, location.to_owned()));
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns whether the filters of databases and tables let a message pass.
    fn selects(&self, envelope: &Envelope<'_>) -> bool {
        let (database, table) = (envelope.database.as_deref(), envelope.table.as_deref());
        self.plan
            .filter
            .passes(database.unwrap_or_default(), table.unwrap_or_default())
    }

    /// Returns the ids of unknown schemas that messages or their keys refer to, in message order.
    pub fn unknown_schemas(&self, values: &dyn Array) -> Result<Vec<u32>, DecodeError> {
        if self.dialect.is_some_and(|dialect| !has_schemas(dialect)) {
            return Ok(Vec::new());
        }
        let schemas = SchemaSnapshot::default();
        let input = self.input(values, &schemas)?;
        let (mut seen, mut unknown) = (HashSet::new(), Vec::new());
        for (index, message) in input.messages.iter().enumerate() {
            let id = message.and_then(|message| self.schema_id(message));
            // The key of an empty message may be a delete by TiCDC.
            let is_deleted = message.is_none_or(<[u8]>::is_empty);
            let of_key = input
                .key(index)
                .filter(|_| id.is_some() || is_deleted)
                .and_then(schema_id);
            for id in [id, of_key].into_iter().flatten() {
                if seen.insert(id) && !self.dialect_options.writer_schemas.is_known(id) {
                    unknown.push(id);
                }
            }
        }
        Ok(unknown)
    }

    /// Returns the id of the schema that a message refers to, if the message is in debezium-avro or ticdc-avro.
    fn schema_id(&self, message: &[u8]) -> Option<u32> {
        let payload = match self.options.compression {
            Compression::Auto | Compression::None => Payload::Bytes(Cow::Borrowed(message)),
            _ => self.expand(message),
        };
        let id = schema_id(payload.bytes())?;
        let is_own = || dialect::detect(payload.bytes()).is_some_and(has_schemas);
        (self.dialect.is_some() || is_own()).then_some(id)
    }

    /// Adds the schema of an id, unless the id is known. An unusable schema is an error of the messages that refer to
    /// it.
    pub fn add_schema(&self, id: u32, text: &str, references: &[String]) {
        // The schema cache keeps the reason with the id.
        let _ = self
            .dialect_options
            .writer_schemas
            .add(id, text, references);
    }

    /// Returns the messages, with the keys and offsets of a struct array.
    fn input<'v>(
        &self,
        values: &'v dyn Array,
        schemas: &'v SchemaSnapshot,
    ) -> Result<Input<'v>, DecodeError> {
        let Some(columns) = values.as_any().downcast_ref::<StructArray>() else {
            let (kept, unread) = (Vec::new(), HashMap::new());
            if let Some(key) = &self.options.key {
                let what = format!(
                    "key: {key:?} names a column, but the input is an array of messages; decode a record batch with the columns {:?} and {key:?}, or omit key",
                    self.options.value
                );
                return Err(DecodeError::Input(what));
            }
            return Ok(Input {
                messages: bytes_of(values)?,
                buffer: buffer_of(values),
                keys: None,
                offsets: None,
                kept,
                schemas,
                unread,
            });
        };
        let keys = self
            .options
            .key
            .as_ref()
            .map(|key| bytes_of(column(columns, key)?).map_err(|what| format!("key: {what}")))
            .transpose()?;
        let offset = columns.column_by_name("offset");
        let offsets = offset.and_then(|offsets| offsets.as_primitive_opt::<Int64Type>());
        // Without Kafka offsets, changes would be ordered within their batch only. A list without values has the type
        // Null.
        let found = offset
            .map(|offset| offset.data_type())
            .filter(|found| **found != DataType::Null);
        if let (Some(found), None, true) =
            (found, offsets, self.plan.has_field(EnvelopeField::Sequence))
        {
            return Err(DecodeError::Input(format!(
                "offset: _sequence requires Kafka offsets as int64, not {found}; cast or rename the column"
            )));
        }
        let values = column(columns, &self.options.value)?;
        let (mut messages, buffer) = (bytes_of(values)?, buffer_of(values));
        if let Some(nulls) = columns.nulls() {
            messages
                .iter_mut()
                .zip(nulls)
                .filter(|(_, valid)| !valid)
                .for_each(|(message, _)| *message = None);
        }
        // An absent column is an error only when the output is assembled.
        let kept = self
            .options
            .keep
            .iter()
            .filter_map(|name| columns.column_by_name(name).cloned())
            .collect();
        Ok(Input {
            messages,
            buffer,
            keys,
            offsets,
            kept,
            schemas,
            unread: HashMap::new(),
        })
    }

    fn run(
        &self,
        input: &Input<'_>,
        start: usize,
        max_bytes: usize,
    ) -> Result<(Finished, usize), DecodeError> {
        let (batch, templates, kept) = (
            Batch::new(&self.plan)?,
            Templates::new(),
            KeptCaches::default(),
        );
        let mut reader = BatchReader {
            decoder: self,
            batch,
            templates,
            kept,
            converters: KnownConverters::default(),
            start,
            max_bytes,
        };
        let end = self.read_from(start, input, &mut reader)?;
        Ok((reader.batch.finish(end.saturating_sub(start))?, end))
    }

    /// Reads the messages from `start` on, chunk by chunk, until the reader is full. Returns the index of the next
    /// message.
    fn read_from(
        &self,
        start: usize,
        input: &Input<'_>,
        reader: &mut impl ChunkReader,
    ) -> Result<usize, DecodeError> {
        let types = DeclaredTypes::new(self.plan.has_field(EnvelopeField::ColumnTypes));
        let mut known = Known::new(Interner::new(self.columns.clone()), types);
        let mut at = start;
        while at < input.messages.len() {
            let payloads = self.payloads(input, at);
            if known.trim() {
                reader.reset();
            }
            let arena = Bump::new();
            let mut events = Events::new(known, &arena, self.plan.needs, self.dialect_name());
            let texts: Vec<&[u8]> = payloads.iter().map(Payload::bytes).collect();
            reader.read(
                &payloads,
                input,
                &mut events,
                &Payloads {
                    first: at,
                    texts: &texts,
                    input,
                },
            )?;
            known = events.into_known();
            at += payloads.len();
            if reader.is_full() {
                break;
            }
        }
        Ok(at)
    }

    /// Calls `found` with each column that a message of the selected tables declares: name, declared type and value.
    pub(crate) fn declared_types(
        &self,
        values: &dyn Array,
        mut found: impl FnMut(&str, &DeclaredType, &Value<'_>) -> Result<(), String>,
    ) -> Result<(), DecodeError> {
        let schemas = self.dialect_options.writer_schemas.snapshot(HashMap::new());
        self.each_chunk(&self.input(values, &schemas)?, |events| {
            let mut image_by_name = ImageByName::default();
            for row in &events.rows {
                let Some(envelope) = events.envelope_of(row) else {
                    continue;
                };
                let block = envelope
                    .types
                    .filter(|_| self.selects(envelope))
                    .map(|block| events.types.block(block));
                row.after
                    .as_ref()
                    .or(row.before.as_ref())
                    .into_iter()
                    .for_each(|image| image_by_name.load(image, events));
                for (key, id) in block.into_iter().flat_map(|block| &block.entries) {
                    let name = events.keys.name(*key);
                    if !self.dialect_options.is_op_column(name) {
                        let declared = events.types.declared(*id);
                        found(name, declared, &image_by_name.value(*key).as_text())?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Reads all messages into events, and calls `chunk` with the events of each chunk.
    fn each_chunk(
        &self,
        input: &Input<'_>,
        chunk: impl FnMut(&mut Events<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.read_from(
            0,
            input,
            &mut EventReader {
                decoder: self,
                kept: KeptCaches::default(),
                chunk,
            },
        )
        .map(drop)
    }

    /// Expands the next messages, up to the size of a chunk.
    fn payloads<'a>(&self, input: &Input<'a>, at: usize) -> Vec<Payload<'a>> {
        let mut payloads = Vec::new();
        let mut bytes = 0;
        for (index, message) in input.messages.iter().enumerate().skip(at) {
            let payload = match (input.unread.get(&index), message) {
                (Some(why), _) => unread(why),
                // Treat a message without bytes like null.
                (_, None) => Payload::Tombstone,
                (_, Some([])) if self.dialect.is_none() => Payload::Empty,
                (_, Some([])) if !self.is_keyed() => Payload::Tombstone,
                (_, Some(message)) => self.expand(message),
            };
            bytes += payload.bytes().len();
            payloads.push(payload);
            if bytes >= CHUNK_BYTES {
                break;
            }
        }
        payloads
    }

    fn is_keyed(&self) -> bool {
        self.dialect
            .is_some_and(|dialect| matches!(dialect.read, Read::Keyed(_)))
    }

    fn expand<'a>(&self, message: &'a [u8]) -> Payload<'a> {
        // Only JSON is distinguishable from compressed bytes. The other formats may begin with any byte.
        let is_plain = |bytes: &[u8]| {
            self.dialect
                .is_some_and(|dialect| dialect.wire != Wire::Json)
                || begins_like_message(bytes)
        };
        let stored = |bytes: &[u8]| claim_check::unwrap(bytes).filter(|_| self.may_be_stored());
        let expanded = expand(message, self.options.compression, is_plain).and_then(|bytes| {
            match stored(&bytes) {
                None => Ok(Payload::Bytes(bytes)),
                Some(stored) => {
                    let claim_check::Stored { key, value } = stored?;
                    let value = expand(&value, self.options.compression, is_plain)?.into_owned();
                    Ok(Payload::Stored(claim_check::Stored { key, value }))
                }
            }
        });
        expanded.unwrap_or_else(|fault| Payload::Invalid(Cell::new(Some(fault))))
    }

    /// Returns whether messages may be files in which TiCDC stored them. A row without an envelope may have the same
    /// members as such a file.
    fn may_be_stored(&self) -> bool {
        self.dialect
            .map_or(!self.dialect_options.unwrapped, |dialect| {
                claim_check::is_stored(dialect.name)
            })
    }

    /// Reads a message into events. Returns its dialect, or `None` for a tombstone or a message that cannot be read.
    fn read<'a>(
        &self,
        payload: &'a Payload<'_>,
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Option<&'static Dialect> {
        let result = match payload {
            Payload::Empty if key.and_then(dialect::detect_by_key).is_some() => {
                self.read_bytes(&[], key, events, caches)
            }
            Payload::Tombstone | Payload::Empty => match self.read_key(key, events, caches) {
                Ok(true) => return None,
                Ok(false) => {
                    events.push_message(Op::Tombstone, None);
                    return None;
                }
                Err(fault) => Err(fault),
            },
            Payload::Bytes(bytes) => self.read_bytes(bytes, key, events, caches),
            Payload::Stored(stored) => {
                self.read_bytes(&stored.value, stored.key.as_deref().or(key), events, caches)
            }
            Payload::Invalid(fault) => fault
                .take()
                .map_or_else(|| Err(Fault::new(Kind::Compression, "is broken")), Err),
        };
        result
            .map_err(|fault| events.fail_message(explained(fault, payload.bytes())))
            .ok()
    }

    /// Reads a record without a value. Its key may be a delete by TiCDC or the key of a row without an envelope.
    /// Returns whether it is.
    fn read_key<'a>(
        &self,
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Result<bool> {
        if let Some(key) = key.filter(|key| self.is_key_of_row(key, caches)) {
            let quirks = (DEBEZIUM_JSON.quirks)(&self.options.dialect);
            let reading = ReadContext {
                quirks,
                lenient: self.options.lenient,
                key: None,
                options: &self.dialect_options,
            };
            read_deleted(key, &reading, events)?;
            return events.check_rows().map(|()| true);
        }
        if let Some(key) = key.filter(|key| self.is_avro_key_of_row(key, caches)) {
            read_deleted_row(key, &self.dialect_options, events, caches)?;
            return events.check_rows().map(|()| true);
        }
        let is_named = self
            .dialect
            .is_some_and(|dialect| dialect.name == TICDC_AVRO);
        let may_be_delete = is_named || self.dialect.is_none() && key.and_then(schema_id).is_some();
        if !may_be_delete {
            return Ok(false);
        }
        read_key(key, is_named, &self.dialect_options, events, caches)
    }

    /// Returns whether a JSON key names the row that a record without a value deletes. The option `unwrapped` must be
    /// set.
    fn is_key_of_row(&self, key: &[u8], caches: &Caches<'_>) -> bool {
        let is_json = |dialect: &Dialect| {
            dialect.name == DEBEZIUM_JSON.name
                || dialect.name == DEBEZIUM_AVRO && schema_id(key).is_none()
        };
        self.dialect_options.unwrapped
            && self.dialect.map_or_else(|| !is_avro(key, caches), is_json)
    }

    /// Returns whether an Avro key names the row that a record without a value deletes.
    fn is_avro_key_of_row(&self, key: &[u8], caches: &Caches<'_>) -> bool {
        let is_detected = || is_avro(key, caches) && !is_tidb(key, caches);
        let is_named =
            |dialect: &Dialect| dialect.name == DEBEZIUM_AVRO && schema_id(key).is_some();
        self.dialect_options.unwrapped && self.dialect.map_or_else(is_detected, is_named)
    }

    fn read_bytes<'a>(
        &self,
        bytes: &'a [u8],
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Result<&'static Dialect> {
        let by_key = || {
            key.filter(|_| bytes.is_empty())
                .and_then(dialect::detect_by_key)
                .map(Found::Dialect)
        };
        let found = match self.dialect {
            Some(dialect) => Some(Found::Dialect(dialect)),
            None => dialect::detect_or_read(bytes, &self.dialect_options, events, caches)
                .or_else(by_key),
        };
        let dialect = match found.ok_or_else(|| dialect::undetected(bytes))? {
            Found::Dialect(dialect) => self
                .read_as(dialect, bytes, key, events, caches)
                .map(|()| dialect),
            Found::Read(read) => read,
        }?;
        events.check_rows()?;
        Ok(dialect)
    }

    fn read_as<'a>(
        &self,
        dialect: &Dialect,
        bytes: &'a [u8],
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Result<()> {
        let quirks = (dialect.quirks)(&self.options.dialect);
        let reading = ReadContext {
            quirks,
            lenient: self.options.lenient,
            key,
            options: &self.dialect_options,
        };
        events.set_dialect(quirks);
        match dialect.read {
            Read::Text(read) => {
                let json = without_schema_id(bytes);
                let text = utf8::text(json, "the message is not UTF-8");
                text.and_then(|text| read(text, &reading, events))
                    .map_err(|fault| fault.shifted(bytes.len() - json.len()))
            }
            Read::Bytes(read) => read(bytes, &reading, events, caches),
            Read::Keyed(read) => read(bytes, &reading, events),
        }
    }

    /// Returns a message that a template may match.
    fn incoming<'a>(
        &self,
        payload: &'a Payload<'_>,
        texts: &mut Texts<'a>,
        key: Option<&'a [u8]>,
        index: usize,
        max_rows: usize,
    ) -> Option<Incoming<'a>> {
        let bytes = match payload {
            Payload::Bytes(bytes)
                if self.options.templates
                    && self
                        .dialect
                        .is_none_or(|dialect| dialect.template.is_some()) =>
            {
                bytes
            }
            _ => return None,
        };
        let json = Some(without_schema_id(bytes)).filter(|json| json.starts_with(b"{"))?;
        let text = texts.text(json)?;
        Some(Incoming {
            text,
            key,
            index,
            max_rows,
            lenient: self.options.lenient,
            is_detected: self.dialect.is_none(),
        })
    }

    fn dialect_name(&self) -> &'static str {
        self.dialect.map_or("auto", |dialect| dialect.name)
    }

    /// Adds the kept columns, and removes the dropped rows.
    fn assemble(
        &self,
        finished: Finished,
        input: Option<&StructArray>,
    ) -> Result<RecordBatch, DecodeError> {
        let Finished {
            columns: mut arrays,
            origins,
            kept,
            ..
        } = finished;
        let rows = origins.len();
        let origins = UInt64Array::from(origins);
        let mut fields: Vec<FieldRef> = self.fields.iter().cloned().collect();
        for name in &self.options.keep {
            let input = input.ok_or_else(|| {
                format!("keep: {name:?} needs a record batch as input, not an array")
            })?;
            let array = arrow_select::take::take(column(input, name)?, &origins, None)?;
            fields.push(Arc::new(Field::new(name, array.data_type().clone(), true)));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
        match kept {
            Some(kept) if kept.true_count() < rows => {
                Ok(arrow_select::filter::filter_record_batch(&batch, &kept)?)
            }
            _ => Ok(batch),
        }
    }
}

fn unread(why: &str) -> Payload<'static> {
    Payload::Invalid(Cell::new(Some(Fault::new(
        Kind::Envelope,
        format!("the stored message cannot be read: {why}"),
    ))))
}

fn unknown_dialect(name: &str) -> String {
    let names = dialect::DIALECTS
        .iter()
        .flat_map(|dialect| std::iter::once(&dialect.name).chain(dialect.aliases))
        .copied();
    format!(
        "dialect: {}",
        unknown(name, std::iter::once("auto").chain(names))
    )
}

/// Detects the dialect of a message, which may be compressed or claim-checked by TiCDC.
pub fn detect(message: &[u8]) -> Option<&'static Dialect> {
    let expanded =
        expand(message, Compression::Auto, begins_like_message).unwrap_or(Cow::Borrowed(message));
    match claim_check::unwrap(&expanded) {
        Some(Ok(stored)) => dialect::detect(&stored.value),
        _ => dialect::detect(&expanded),
    }
}

/// Refuses names with U+0000, which neither Arrow's C interface nor MySQL allows.
fn check_no_nul(table: Option<&Fields>) -> Result<(), String> {
    let table = Schema::new(table.cloned().unwrap_or_else(Fields::empty));
    match table
        .flattened_fields()
        .into_iter()
        .find(|field| field.name().contains('\0'))
    {
        Some(field) => Err(format!(
            "schema: column {:?} has U+0000 in its name",
            field.name()
        )),
        None => Ok(()),
    }
}

fn check_column_options(options: &Options, columns: &ColumnNames) -> Result<(), String> {
    let labelled = options.labels.iter().map(|(name, _)| ("labels", name));
    let typed = options
        .column_types
        .iter()
        .map(|(name, _)| ("column_types", name));
    match labelled
        .chain(typed)
        .find(|(_, name)| columns.find(name).is_none())
    {
        Some((argument, name)) => Err(format!(
            "{argument}: {name:?} is not a column of the schema"
        )),
        None => Ok(()),
    }
}

/// Returns the layout's columns.
fn output_fields(plan: &Plan) -> Fields {
    let images = plan.image_type();
    let envelope: Vec<FieldRef> = plan
        .fields
        .iter()
        .map(|field| field.arrow(plan.layout, &images))
        .collect();
    if plan.layout == Layout::Change {
        return envelope.into();
    }
    let (leading, rest) = envelope.split_at(plan.leading());
    let row = plan
        .row_column
        .as_ref()
        .map(|name| Fields::from(vec![Field::new(name, images, true)]));
    let columns = row.as_ref().or(plan.table.as_ref());
    leading
        .iter()
        .chain(columns.iter().flat_map(|columns| columns.iter()))
        .chain(rest)
        .cloned()
        .collect()
}

fn check_names(fields: &Fields, keep: &[String]) -> Result<(), String> {
    let mut seen = HashSet::new();
    let names = fields.iter().map(|field| field.name()).chain(keep);
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(format!("duplicate column {name:?} in the output")),
        None => Ok(()),
    }
}

/// Returns the type of a column of Spark's Kafka source.
fn kafka_type(name: &str) -> Option<DataType> {
    Some(match name {
        "key" | "value" => DataType::Binary,
        "topic" => DataType::Utf8,
        "partition" | "timestampType" => DataType::Int32,
        "offset" => DataType::Int64,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => return None,
    })
}

fn column<'c>(columns: &'c StructArray, name: &str) -> Result<&'c ArrayRef, String> {
    columns.column_by_name(name).ok_or_else(|| {
        format!(
            "the input has no column {name:?}; it has {}",
            columns.column_names().join(", ")
        )
    })
}

/// Returns the buffer that holds the messages of an array, if it is one.
fn buffer_of(array: &dyn Array) -> &[u8] {
    match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value_data(),
        DataType::LargeBinary => array.as_binary::<i64>().value_data(),
        DataType::Utf8 => array.as_string::<i32>().value_data(),
        DataType::LargeUtf8 => array.as_string::<i64>().value_data(),
        _ => &[],
    }
}

/// Returns the messages of an array of any Arrow text or binary type.
fn bytes_of(array: &dyn Array) -> Result<Vec<Option<&[u8]>>, String> {
    Ok(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        DataType::Utf8 => array
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(str::as_bytes))
            .collect(),
        DataType::LargeUtf8 => array
            .as_string::<i64>()
            .iter()
            .map(|text| text.map(str::as_bytes))
            .collect(),
        DataType::Utf8View => array
            .as_string_view()
            .iter()
            .map(|text| text.map(str::as_bytes))
            .collect(),
        DataType::Null => vec![None; array.len()],
        other => {
            return Err(format!(
                "messages: expected binary or string (large and view types too), not {other}"
            ));
        }
    })
}
