//! The decoder: options in, record batches out.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use bumpalo::Bump;
use hashbrown::{HashMap, HashSet};

use crate::dialect::{self, Caches, Dialect, DialectOptions, KeptCaches, Payload, SchemaSnapshot};
use crate::error::{Error, MAX_TEXT, Result, shortened};
use crate::event::{Envelope, Events, Known};
use crate::interner::{ColumnNames, Interner};
use crate::mysql::types::{DeclaredType, DeclaredTypes};
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
use crate::wire::utf8::Texts;

/// Bytes of messages that are read before their values are converted: sized for a core's own cache.
const CHUNK_BYTES: usize = 128 << 10;

/// Decoder of change messages into record batches. It is immutable, so that many threads can share one decoder. The
/// output of a call depends only on its input.
pub struct Decoder {
    options: Options,
    plan: Plan,
    columns: Arc<ColumnNames>,
    fields: Fields,
    dialects: DialectOptions,
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

/// Data that a call keeps from chunk to chunk. It refers to interned names and declared types.
struct Call {
    known: Known,
    caches: KeptCaches,
    converters: KnownConverters,
}

/// The messages of a chunk, and the state of reading them.
struct Chunk<'c, 'a> {
    payloads: Payloads<'c>,
    events: Events<'a>,
    caches: Caches<'a>,
    scratch: Scratch<'a>,
    texts: Texts<'a>,
}

/// A message of a chunk.
struct Message<'a> {
    payload: &'a Payload<'a>,
    key: Option<&'a [u8]>,
    /// Index in the input.
    index: usize,
    max_rows: usize,
}

/// Consumer of the messages of a call.
trait Reader {
    /// Invalidates all references to interned names and declared types.
    fn reset(&mut self) {}

    /// Returns whether the reader wants no further chunk.
    fn is_full(&self) -> bool {
        false
    }

    /// Reads a message, by default into events.
    fn read<'a>(
        &mut self,
        decoder: &Decoder,
        message: &Message<'a>,
        chunk: &mut Chunk<'_, 'a>,
    ) -> Result<(), DecodeError> {
        decoder.read(message, chunk);
        Ok(())
    }

    /// Ends a chunk.
    fn end(&mut self, chunk: &mut Chunk<'_, '_>) -> Result<(), DecodeError>;
}

/// Calls itself with the events of each chunk.
impl<F: FnMut(&mut Events<'_>) -> Result<(), DecodeError>> Reader for F {
    fn end(&mut self, chunk: &mut Chunk<'_, '_>) -> Result<(), DecodeError> {
        self(&mut chunk.events)
    }
}

/// Reads messages into a batch: by a template if one matches, otherwise through events.
struct BatchReader<'r> {
    batch: Batch<'r>,
    templates: Templates,
    /// Index of the first message.
    start: usize,
    /// Bytes of rows after which the batch ends.
    max_bytes: usize,
}

impl Reader for BatchReader<'_> {
    fn reset(&mut self) {
        self.templates.clear();
        self.batch.forget_types();
    }

    fn is_full(&self) -> bool {
        self.batch.bytes() >= self.max_bytes
    }

    fn read<'a>(
        &mut self,
        decoder: &Decoder,
        message: &Message<'a>,
        chunk: &mut Chunk<'_, 'a>,
    ) -> Result<(), DecodeError> {
        let incoming = decoder.incoming(message, &mut chunk.texts);
        if let Some(incoming) = &incoming
            && let Some(slot) = self.templates.find(incoming, decoder.dialects.dialect)
        {
            self.batch
                .append(&mut chunk.events, &mut chunk.scratch, &chunk.payloads)?;
            if self.templates.read(
                slot,
                incoming,
                &mut self.batch,
                &mut chunk.events,
                &chunk.payloads,
            ) {
                return Ok(());
            }
        }
        let dialect = decoder.read(message, chunk);
        if let (Some(incoming), Some(dialect)) = (&incoming, dialect) {
            self.templates
                .learn(incoming, dialect, &mut self.batch, &mut chunk.events);
        }
        Ok(())
    }

    fn end(&mut self, chunk: &mut Chunk<'_, '_>) -> Result<(), DecodeError> {
        let Payloads {
            first,
            texts,
            input,
        } = chunk.payloads;
        self.batch
            .append(&mut chunk.events, &mut chunk.scratch, &chunk.payloads)?;
        self.batch
            .end_chunk(&chunk.events, |table| self.templates.envelope(table), input);
        if first == self.start {
            let rest = input.messages.get(first..).unwrap_or_default();
            let (read, left) = rest.split_at_checked(texts.len()).unwrap_or_default();
            self.batch.reserve(size_of(read), size_of(left));
        }
        Ok(())
    }
}

fn size_of(messages: &[Option<&[u8]>]) -> usize {
    messages.iter().flatten().map(|message| message.len()).sum()
}

impl Decoder {
    /// Validates the options. Errors about unknown names or types list the allowed ones.
    pub fn new(options: Options) -> Result<Self, String> {
        let dialect = dialect::requested(&options)?;
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
        let dialects = DialectOptions::new(&options, dialect, plan.has_objects())?;
        Ok(Decoder {
            options,
            plan,
            columns: Arc::new(columns),
            fields,
            dialects,
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
            let Some(data_type) = given.or_else(|| kafka_type(name)) else {
                return Err(format!(
                    "keep: the type of {name:?} is unknown before the input is read; give keep a mapping from columns to types"
                ));
            };
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
            .dialects
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
        if !self.dialects.may_have_schemas() {
            return Ok(Vec::new());
        }
        let schemas = SchemaSnapshot::default();
        let input = self.input(values, &schemas)?;
        let (mut seen, mut unknown) = (HashSet::new(), Vec::new());
        for (index, message) in input.messages.iter().enumerate() {
            let ids = self.dialects.schema_ids(*message, input.key(index));
            for id in ids.into_iter().flatten() {
                if seen.insert(id) && !self.dialects.writer_schemas.is_known(id) {
                    unknown.push(id);
                }
            }
        }
        Ok(unknown)
    }

    /// Adds the schema of an id, unless the id is known. An unusable schema is an error of the messages that refer to
    /// it.
    pub fn add_schema(&self, id: u32, text: &str, references: &[String]) {
        // The schema cache keeps the reason with the id.
        let _ = self.dialects.writer_schemas.add(id, text, references);
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
        let mut reader = BatchReader {
            batch: Batch::new(&self.plan)?,
            templates: Templates::new(),
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
        reader: &mut impl Reader,
    ) -> Result<usize, DecodeError> {
        let types = DeclaredTypes::new(self.plan.has_field(EnvelopeField::ColumnTypes));
        let mut call = Call {
            known: Known::new(Interner::new(self.columns.clone()), types),
            caches: KeptCaches::default(),
            converters: KnownConverters::default(),
        };
        let mut at = start;
        while at < input.messages.len() {
            let messages = self.payloads(input, at);
            let texts: Vec<&[u8]> = messages.iter().map(Payload::bytes).collect();
            if call.known.trim() {
                (call.caches, call.converters) = Default::default();
                reader.reset();
            }
            let arena = Bump::new();
            let mut chunk = Chunk {
                payloads: Payloads {
                    first: at,
                    texts: &texts,
                    input,
                },
                events: Events::new(
                    call.known,
                    &arena,
                    self.plan.needs,
                    self.dialects.dialect_name(),
                ),
                caches: Caches::new(input.schemas, call.caches),
                scratch: Scratch::new(call.converters),
                texts: Texts::new(input.buffer),
            };
            for (index, payload) in (at..).zip(&messages) {
                let message = Message {
                    payload,
                    key: input.key(index),
                    index,
                    max_rows: self.plan.budget.max_rows(input.received(index)),
                };
                reader.read(self, &message, &mut chunk)?;
            }
            reader.end(&mut chunk)?;
            call = Call {
                known: chunk.events.into_known(),
                caches: chunk.caches.into_kept(),
                converters: chunk.scratch.converters,
            };
            at += messages.len();
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
        let schemas = self.dialects.writer_schemas.snapshot(HashMap::new());
        self.each_chunk(&self.input(values, &schemas)?, |events| {
            let mut image_by_name = ImageByName::default();
            for row in &events.rows {
                let Some(envelope) = events.envelope_of(row) else {
                    continue;
                };
                let block = match envelope.types {
                    Some(block) if self.selects(envelope) => Some(events.types.block(block)),
                    _ => None,
                };
                row.after
                    .as_ref()
                    .or(row.before.as_ref())
                    .into_iter()
                    .for_each(|image| image_by_name.load(image, events));
                for (key, id) in block.into_iter().flat_map(|block| &block.entries) {
                    let name = events.keys.name(*key);
                    if !self.dialects.is_op_column(name) {
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
        mut chunk: impl FnMut(&mut Events<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.read_from(0, input, &mut chunk).map(drop)
    }

    /// Expands the next messages, up to the size of a chunk.
    fn payloads<'a>(&self, input: &Input<'a>, at: usize) -> Vec<Payload<'a>> {
        let mut payloads = Vec::new();
        let mut bytes = 0;
        for (index, message) in input.messages.iter().enumerate().skip(at) {
            let payload = match input.unread.get(&index) {
                Some(why) => Payload::unread(why),
                None => self.dialects.payload(*message),
            };
            bytes += payload.bytes().len();
            payloads.push(payload);
            if bytes >= CHUNK_BYTES {
                break;
            }
        }
        payloads
    }

    /// Reads a message into events. Returns its dialect, or `None` for a tombstone or a message that cannot be read.
    fn read<'a>(
        &self,
        message: &Message<'a>,
        chunk: &mut Chunk<'_, 'a>,
    ) -> Option<&'static Dialect> {
        let Chunk { events, caches, .. } = chunk;
        events.begin(message.index, message.max_rows);
        self.dialects
            .read(message.payload, message.key, events, caches)
    }

    /// Returns a message that a template may match.
    fn incoming<'a>(&self, message: &Message<'a>, texts: &mut Texts<'a>) -> Option<Incoming<'a>> {
        let json = self.dialects.template_json(message.payload)?;
        Some(Incoming {
            text: texts.text(json)?,
            key: message.key,
            index: message.index,
            max_rows: message.max_rows,
            lenient: self.options.lenient,
            is_detected: self.dialects.dialect.is_none(),
        })
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
