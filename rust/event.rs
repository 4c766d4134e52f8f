//! The hub: what every dialect says, in one form, borrowed from the message.
//!
//! A dialect reads a message into [`Events`]: an [`Envelope`] for each message and a [`Row`] for each change. Row images
//! stay as the cells they came in, until the batch knows which tables and columns are asked for.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bumpalo::Bump;
use hashbrown::HashSet;

use crate::error::{Fault, Kind, Result};
use crate::keys::{KeyId, Keys};
use crate::mysql::types::Types;
use crate::mysql::{number, temporal};
use crate::shapes::Shapes;
use crate::wire::json::Cursor;
use crate::wire::utf8::utf8;

/// One value of a row image, as its message writes it.
///
/// The tag is as wide as a pointer, so that copying a value moves whole words: a narrow tag between padding made every copy
/// wait for the bytes just written, a third of the time spent on reading rows.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u64)]
pub(crate) enum Value<'a> {
    /// The image does not carry the column.
    Missing,
    /// SQL NULL.
    Null,
    /// `true` or `false`.
    Bool(&'a str),
    /// A JSON number's characters.
    Number(&'a str),
    /// Text without escapes.
    Text(&'a str),
    /// The same as bytes, which are known to be UTF-8: most of them become numbers, and nobody needs a `&str`.
    Plain(&'a [u8]),
    /// Likewise the characters of a number.
    Digits(&'a [u8]),
    /// The characters of a JSON string that has escapes.
    Escaped(&'a str),
    /// A JSON object or array.
    Nested(&'a str),
    /// The stored bytes themselves (Avro; what was base64).
    Bytes(&'a [u8]),
    /// A DATE: days since 1970.
    Date(i32),
    /// A DATETIME: microseconds since 1970 on its clock.
    Clock(i64),
    /// A TIMESTAMP: microseconds since 1970 in UTC.
    Instant(i64),
    /// A TIME: microseconds.
    Time(i64),
    /// A DECIMAL times ten to the scale of the column that it is for, within its precision.
    Unscaled(i64),
    /// A FLOAT.
    Single(f32),
    /// A DOUBLE.
    Double(f64),
    /// A value that its dialect could not make out, though it could the row.
    Unread(&'a Unread<'a>),
}

/// Why a single value could not be made out, so that it is an error of its column and of no other.
#[derive(Debug, PartialEq)]
pub(crate) struct Unread<'a> {
    pub kind: Kind,
    pub why: &'a str,
    /// As they stand in the message: of text that cannot be decoded, the stored bytes.
    pub bytes: &'a [u8],
}

impl Unread<'_> {
    #[cold]
    pub fn fault(&self) -> Fault {
        Fault::new(self.kind, self.why)
    }
}

impl<'a> Value<'a> {
    /// The characters as they stand in the message; of a value that is not written in characters, none.
    pub fn raw(&self) -> &'a str {
        match *self {
            Value::Null => "null",
            Value::Bool(raw) | Value::Number(raw) | Value::Text(raw) | Value::Escaped(raw) | Value::Nested(raw) => raw,
            Value::Plain(bytes) | Value::Digits(bytes) => utf8(bytes).unwrap_or_default(),
            _ => "",
        }
    }

    /// Its bytes, where it has any: they lie in the message, unless the value was made from what is written there.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Value::Bytes(bytes) | Value::Plain(bytes) | Value::Digits(bytes) => bytes,
            Value::Unread(unread) => unread.bytes,
            other => other.raw().as_bytes(),
        }
    }

    /// The text that the value stands for: escapes decoded, numbers with their own digits, JSON as JSON, bytes as base64, dates
    /// and times as MySQL prints them.
    pub fn text(&self) -> Result<Cow<'a, str>> {
        Ok(match *self {
            Value::Escaped(raw) => return crate::wire::json::Text { raw, escaped: true }.decode(),
            Value::Bytes(bytes) => BASE64.encode(bytes).into(),
            Value::Date(days) => temporal::print_date(days).into(),
            Value::Clock(micros) | Value::Instant(micros) => temporal::print_clock(micros).into(),
            Value::Time(micros) => temporal::print_time(micros).into(),
            Value::Unscaled(number) => number.to_string().into(),
            Value::Single(single) => number::print_float(single).into(),
            Value::Double(double) => number::print_float(double).into(),
            Value::Unread(unread) => return Err(unread.fault()),
            other => Cow::Borrowed(other.raw()),
        })
    }

    /// The characters of text without escapes, or of a number.
    #[inline]
    pub fn plain(&self) -> Option<&'a [u8]> {
        match *self {
            Value::Text(text) | Value::Number(text) => Some(text.as_bytes()),
            Value::Plain(text) | Value::Digits(text) => Some(text),
            _ => None,
        }
    }

    /// The value with its characters as a `&str`.
    pub fn as_text(&self) -> Value<'a> {
        match *self {
            Value::Plain(_) => Value::Text(self.raw()),
            Value::Digits(_) => Value::Number(self.raw()),
            other => other,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Missing | Value::Null)
    }

    /// Whether its message writes it in characters.
    fn is_written(&self) -> bool {
        use Value::{Bool, Digits, Escaped, Missing, Nested, Null, Number, Plain, Text};
        matches!(self, Missing | Null | Bool(_) | Number(_) | Text(_) | Plain(_) | Digits(_) | Escaped(_) | Nested(_))
    }

    /// Whether both stand for the same text; null equals only null.
    pub fn same(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (a, b) if a.is_null() || b.is_null() => a.is_null() && b.is_null(),
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Plain(a), Value::Plain(b)) | (Value::Digits(a), Value::Digits(b)) => a == b,
            (a, b) if a == b => true,
            (a, b) if !a.is_written() || !b.is_written() => false,
            (a, b) if a.raw() == b.raw() => true,
            (Value::Escaped(_), _) | (_, Value::Escaped(_)) => {
                matches!((self.text(), other.text()), (Ok(a), Ok(b)) if a == b)
            }
            _ => false,
        }
    }
}

/// What a row of the output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A row was inserted.
    Insert,
    /// A row was updated.
    Update,
    /// A row was deleted.
    Delete,
    /// A row was read by the producer's initial scan.
    Snapshot,
    /// All rows of a table were removed.
    Truncate,
    /// The schema changed.
    Ddl,
    /// A statement that is no DDL.
    Query,
    /// A transaction begins.
    Begin,
    /// A transaction is committed.
    Commit,
    /// A transaction is rolled back.
    Rollback,
    /// The producer is alive.
    Heartbeat,
    /// A GTID is announced.
    Gtid,
    /// All changes up to a point have been sent.
    Watermark,
    /// A Kafka record without a value.
    Tombstone,
    /// A kind without a counterpart here.
    Other,
    /// Nothing could be read.
    Error,
}

impl Op {
    /// The word in the output.
    pub fn name(self) -> &'static str {
        match self {
            Op::Insert => "insert",
            Op::Update => "update",
            Op::Delete => "delete",
            Op::Snapshot => "snapshot",
            Op::Truncate => "truncate",
            Op::Ddl => "ddl",
            Op::Query => "query",
            Op::Begin => "begin",
            Op::Commit => "commit",
            Op::Rollback => "rollback",
            Op::Heartbeat => "heartbeat",
            Op::Gtid => "gtid",
            Op::Watermark => "watermark",
            Op::Tombstone => "tombstone",
            Op::Other => "other",
            Op::Error => "error",
        }
    }

    /// What a statement is, of which its message only says that it is one.
    pub(crate) fn of_statement(sql: &str) -> Op {
        let word = sql.split_ascii_whitespace().next().unwrap_or_default();
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        match () {
            () if is("truncate") => Op::Truncate,
            // Debezium's snapshot sends these beside the tables' own statements.
            () if is("use") || is("set") => Op::Query,
            () => Op::Ddl,
        }
    }

    /// Whether a row of a table changed.
    pub fn is_row_change(self) -> bool {
        matches!(self, Op::Insert | Op::Update | Op::Delete | Op::Snapshot)
    }
}

/// How a dialect writes what MySQL holds: data, not code. Each dialect states its own.
#[derive(Debug)]
pub(crate) struct Quirks {
    /// The dialect's name, for `source.dialect` and for errors.
    pub dialect: &'static str,
    /// Whether declared types are the DDL's own text, where `bit` is `bit(1)`; else lengths may have been left out.
    pub declares_lengths: bool,
    /// In which form values stand in the message.
    pub writes: Writes,
}

/// In which form a dialect writes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// As MySQL prints them; binary as text whose characters U+0000 to U+00FF are the bytes.
    Text,
    /// As Kafka Connect does: epochs, base64, structs. The schema part says which; else the connector's settings do.
    Connect,
    /// As text, but binary in base64.
    Base64,
    /// Likewise, and JSON columns as JSON, so that their strings are out of their quotes.
    Base64AndJson,
    /// Each value says itself whether it is text, bytes, a number or a time.
    Typed,
}

/// What a message says of itself and of all its rows.
#[derive(Clone, Debug)]
pub(crate) struct Envelope<'a> {
    pub quirks: &'static Quirks,
    pub database: Option<Cow<'a, str>>,
    pub schema: Option<Cow<'a, str>>,
    pub table: Option<Cow<'a, str>>,
    /// Within [`Events::names`].
    pub primary_key: Option<Range<usize>>,
    pub sql: Option<Cow<'a, str>>,
    /// JSON text.
    pub table_changes: Option<Cow<'a, str>>,
    /// Which block of declared types, see [`Types`].
    pub types: Option<usize>,
    /// JSON text: an object of numbers.
    pub jdbc_types: Option<Cow<'a, str>>,
    pub connector: Option<Cow<'a, str>>,
    pub version: Option<Cow<'a, str>>,
    pub server_id: Option<i64>,
    pub handle_key_only: Option<bool>,
    pub claim_check: Option<Cow<'a, str>>,
    pub source: Source<'a>,
}

/// Where and when a change comes from: what differs from message to message of a table. What a dialect lacks is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Source<'a> {
    pub operation: Option<Cow<'a, str>>,
    /// Microseconds since 1970.
    pub event_time: Option<i64>,
    /// Microseconds since 1970.
    pub produced_time: Option<i64>,
    pub message_id: Option<i64>,
    pub file: Option<Cow<'a, str>>,
    pub position: Option<i64>,
    pub gtid: Option<Cow<'a, str>>,
    pub transaction_id: Option<Cow<'a, str>>,
    pub commit_ts: Option<i64>,
    pub watermark_ts: Option<i64>,
}

impl Envelope<'_> {
    /// An envelope that says nothing yet.
    pub fn empty(quirks: &'static Quirks) -> Self {
        Envelope {
            quirks,
            database: None,
            schema: None,
            table: None,
            primary_key: None,
            sql: None,
            table_changes: None,
            types: None,
            jdbc_types: None,
            connector: None,
            version: None,
            server_id: None,
            handle_key_only: None,
            claim_check: None,
            source: Source::default(),
        }
    }

    /// What holds for other messages too, out of the message's lifetime: all but the source, and the key, whose names are the
    /// chunk's.
    pub fn shared(&self) -> Envelope<'static> {
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(|text| Cow::Owned(text.to_owned()));
        Envelope {
            database: owned(&self.database),
            schema: owned(&self.schema),
            table: owned(&self.table),
            sql: owned(&self.sql),
            table_changes: owned(&self.table_changes),
            types: self.types,
            jdbc_types: owned(&self.jdbc_types),
            connector: owned(&self.connector),
            version: owned(&self.version),
            server_id: self.server_id,
            handle_key_only: self.handle_key_only,
            claim_check: owned(&self.claim_check),
            ..Envelope::empty(self.quirks)
        }
    }
}

/// The cells of one row image, within [`Events::cells`].
pub(crate) type Cells = Range<usize>;

/// A row image: the cells it carries itself, over those of another image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    pub base: Cells,
    pub own: Cells,
}

impl Image {
    /// An image that is whole by itself.
    pub fn whole(cells: Cells) -> Self {
        Image { base: cells, own: 0..0 }
    }

    /// The image before an update or delete: the whole row is `old` overlaid on `data`. A key that `old` has, even
    /// with null, is the value from before; a key that it lacks did not change.
    pub fn overlaid(data: Cells, old: Cells) -> Self {
        Image { base: data, own: old }
    }

    /// Its cells; where a key stands twice, the later one counts.
    pub fn cells(&self) -> impl Iterator<Item = usize> {
        self.base.clone().chain(self.own.clone())
    }
}

/// One change, or one message that is no row change.
#[derive(Debug)]
pub(crate) struct Row {
    pub op: Op,
    /// Index of the message in the input.
    pub message: usize,
    /// The dialect that the message was read in, for errors.
    pub dialect: &'static str,
    /// Within [`Events::envelopes`]; none for what could not be read.
    pub envelope: Option<usize>,
    /// Index of this change in its message.
    pub index: usize,
    pub before: Option<Image>,
    pub after: Option<Image>,
    /// Why nothing could be read.
    pub fault: Option<Fault>,
}

/// What a decoder has use for, so that dialects skip the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// Cells of columns that are not in the schema.
    pub every_cell: bool,
    /// Cells of the schema's columns.
    pub images: bool,
    /// Declared types: for output, or because a column's conversion depends on them.
    pub types: bool,
    /// JDBC's numbers of types, where they have to be gathered from the columns.
    pub jdbc_types: bool,
    /// In which forms values are written, where a message tells.
    pub forms: bool,
}

/// How many tables can alternate before blocks that repeat are read again.
const REPEATS: usize = 64;

/// A column of rows whose values stand apart from the names, in the same order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub key: KeyId,
    /// Whether anybody asks for its cells.
    pub is_wanted: bool,
    /// The producer's number of its type.
    pub type_number: i32,
}

/// The columns of a table, and how they stood in the message that listed them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List<'a> {
    /// The table's name as it stood.
    pub name: &'a [u8],
    /// Database, schema and table.
    pub names: [Option<&'a str>; 3],
    pub raw: &'a [u8],
    pub columns: &'a [Listed],
    /// Which block of declared types.
    pub types: Option<usize>,
}

/// What some messages said, in order.
pub(crate) struct Events<'a, 's, 'k> {
    pub keys: &'k mut Keys<'s>,
    /// Names of the envelope's fields, for each dialect: its own are numbered as it lists them.
    fields: &'k mut [Keys<'s>],
    dialect_index: usize,
    pub types: &'k mut Types,
    pub wants: Wants,
    /// The current message's dialect: as asked for, until it is known.
    dialect: &'static str,
    asked: &'static str,
    pub cells: Vec<(KeyId, Value<'a>)>,
    /// Row images of the message that is being read; none where there is null in place of one.
    pub images: Vec<Option<Cells>>,
    /// The values of one of its images, each as it stands and what was made of it, for what repeats them.
    pub twins: Vec<(&'a [u8], Value<'a>)>,
    pub names: Vec<KeyId>,
    pub envelopes: Vec<Envelope<'a>>,
    /// Of messages that were read by a template.
    pub sources: Vec<Source<'a>>,
    pub rows: Vec<Row>,
    /// Room for what has to be made from the message, such as text of another charset.
    pub arena: &'a Bump,
    /// What stood in place of the declared JDBC types, by the last name of the row before them.
    repeats: [&'a str; REPEATS],
    /// Columns that were listed before, each at a place that the table's name tells.
    lists: [List<'a>; REPEATS],
    /// The list of names that was read last.
    last_names: (&'a str, Option<Range<usize>>),
    /// What is said of columns beside their values, where a message repeats that in every row.
    pub shapes: Shapes<'a>,
    /// Index of the message that is being read.
    pub message: usize,
    first_row: usize,
}

/// How much a chunk of messages said: the next one will say about as much.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extent {
    cells: usize,
    names: usize,
    envelopes: usize,
    sources: usize,
    rows: usize,
}

/// What was met in earlier chunks.
pub(crate) struct Known<'s, 'k> {
    pub keys: &'k mut Keys<'s>,
    pub fields: &'k mut [Keys<'s>],
    pub types: &'k mut Types,
}

impl<'a, 's, 'k> Events<'a, 's, 'k> {
    pub fn new(known: Known<'s, 'k>, arena: &'a Bump, wants: Wants, dialect: &'static str, expected: Extent) -> Self {
        let Known { keys, fields, types } = known;
        Events {
            keys,
            fields,
            dialect_index: 0,
            types,
            wants,
            dialect,
            asked: dialect,
            cells: Vec::with_capacity(expected.cells),
            images: Vec::new(),
            twins: Vec::new(),
            names: Vec::with_capacity(expected.names),
            envelopes: Vec::with_capacity(expected.envelopes),
            sources: Vec::with_capacity(expected.sources),
            rows: Vec::with_capacity(expected.rows),
            arena,
            repeats: [""; REPEATS],
            lists: [List::default(); REPEATS],
            last_names: ("", None),
            shapes: Shapes::default(),
            message: 0,
            first_row: 0,
        }
    }

    /// With some more room, as a list that has to grow is copied.
    pub fn extent(&self) -> Extent {
        let roomy = |length: usize| length + length / 4;
        Extent {
            cells: roomy(self.cells.len()),
            names: roomy(self.names.len()),
            envelopes: roomy(self.envelopes.len()),
            sources: roomy(self.sources.len()),
            rows: roomy(self.rows.len()),
        }
    }

    /// An object, or null, that is usually the same for the same columns.
    pub fn read_repeated(&mut self, cursor: &mut Cursor<'a>, first_cell: usize) -> Result<Option<Cow<'a, str>>> {
        let hint = self.last_key(first_cell) % REPEATS;
        Ok(cursor.repeated(self.repeats.get_mut(hint).unwrap_or(&mut ""))?.map(Cow::Borrowed))
    }

    /// The columns that were listed last for a table of this name, or for another one that shares its place.
    #[inline]
    pub fn list(&mut self, table: &[u8]) -> &mut List<'a> {
        let place = table.iter().fold(0, |place: usize, byte| place.wrapping_mul(31).wrapping_add((*byte).into())) % REPEATS;
        // There is a first place, so the fallback is never taken.
        let [first, rest @ ..] = &mut self.lists;
        rest.get_mut(place.wrapping_sub(1)).unwrap_or(first)
    }

    /// Declared types: an object of names and types, or null.
    pub fn read_types(&mut self, cursor: &mut Cursor<'a>, first_cell: usize) -> Result<Option<usize>> {
        if !self.wants.types || cursor.peek() != Some(b'{') {
            return self.read_repeated(cursor, first_cell).map(|_| None);
        }
        let hint = self.last_key(first_cell);
        self.types.read(cursor, self.keys, hint).map(Some)
    }

    /// The last name of the rows since `first_cell`: the messages of a table end their rows with the same one.
    fn last_key(&self, first_cell: usize) -> usize {
        self.cells.get(first_cell..).and_then(<[_]>::last).map_or(0, |(key, _)| key.index())
    }

    /// An array of names, each kept once, or null. No names are as good as null.
    pub fn read_names(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<Range<usize>>> {
        match cursor.peek() {
            Some(b'n') => return cursor.null().map(|()| None),
            Some(b'[') if !self.last_names.0.is_empty() && cursor.eat(self.last_names.0) => return Ok(self.last_names.1.clone()),
            Some(b'[') => {}
            _ => return Err(cursor.wrong_type("an array of names or null")),
        }
        let (start, first) = (cursor.at(), self.names.len());
        let mut seen = HashSet::new();
        let mut elements = cursor.array()?;
        while cursor.next_element(&mut elements)? {
            cursor.peek();
            let start = cursor.at();
            let key = self.keys.intern(cursor.text()?).map_err(|fault| fault.at(start))?;
            if seen.insert(key) {
                self.names.push(key);
            }
        }
        let names = Some(first..self.names.len()).filter(|names| !names.is_empty());
        self.last_names = (cursor.since(start), names.clone());
        Ok(names)
    }

    /// Row images, as a range of [`Events::images`]: an array of objects, or one object; null stands for no object.
    pub fn read_images(&mut self, cursor: &mut Cursor<'a>) -> Result<Range<usize>> {
        let start = self.images.len();
        match cursor.peek() {
            Some(b'n') => cursor.null()?,
            Some(b'{') => self.read_image(cursor)?,
            Some(b'[') => {
                let mut elements = cursor.array()?;
                while cursor.next_element(&mut elements)? {
                    self.read_image(cursor)?;
                }
            }
            _ => return Err(cursor.wrong_type("an array of objects, an object or null")),
        }
        Ok(start..self.images.len())
    }

    fn read_image(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        match cursor.peek() {
            Some(b'n') => {
                cursor.null()?;
                self.images.push(None);
            }
            Some(b'{') => {
                let cells = self.read_cells(cursor)?;
                self.images.push(Some(cells));
            }
            _ => return Err(cursor.wrong_type("an object or null")),
        }
        Ok(())
    }

    /// The cells of one of the current message's row images; none where there is null in place of an object.
    pub fn image(&self, images: &Range<usize>, row: usize) -> Option<Cells> {
        self.images.get(images.clone())?.get(row)?.clone()
    }

    /// Names of the current dialect's fields.
    #[inline]
    pub fn fields(&mut self) -> &mut Keys<'s> {
        self.fields.get_mut(self.dialect_index).unwrap_or(self.keys)
    }

    /// Says in which dialect the current message is written.
    pub fn speak(&mut self, dialect_index: usize, name: &'static str) {
        self.dialect_index = dialect_index;
        self.dialect = name;
    }

    /// Starts the message with this index in the input.
    pub fn begin(&mut self, message: usize) {
        self.message = message;
        self.dialect = self.asked;
        self.images.clear();
        self.twins.clear();
        self.first_row = self.rows.len();
    }

    /// Adds an envelope and returns its number.
    pub fn envelope(&mut self, envelope: Envelope<'a>) -> usize {
        self.envelopes.push(envelope);
        self.envelopes.len() - 1
    }

    /// Adds a change of the current message.
    pub fn row(&mut self, op: Op, envelope: usize, before: Option<Image>, after: Option<Image>) {
        let index = self.rows.len() - self.first_row;
        self.rows.push(Row {
            op,
            message: self.message,
            dialect: self.dialect,
            envelope: Some(envelope),
            index,
            before,
            after,
            fault: None,
        });
    }

    /// Takes back what the current message has said: it cannot be read, and that is one row.
    pub fn unreadable(&mut self, fault: Fault) {
        self.rows.truncate(self.first_row);
        self.plain(Op::Error, Some(fault));
    }

    /// Adds a row of the current message that has nothing but its op.
    pub fn plain(&mut self, op: Op, fault: Option<Fault>) {
        let index = self.rows.len() - self.first_row;
        self.rows.push(Row { op, message: self.message, dialect: self.dialect, envelope: None, index, before: None, after: None, fault });
    }

    /// Whether anybody asks for the cells of this name.
    #[inline]
    pub fn wants_cell(&self, key: KeyId) -> bool {
        self.wants.every_cell || self.wants.images && self.keys.column(key).is_some()
    }

    /// Reads the JSON object of a row image; cells that nobody asks for are stepped over.
    #[inline]
    pub fn read_cells(&mut self, cursor: &mut Cursor<'a>) -> Result<Cells> {
        let start = self.cells.len();
        let mut members = cursor.object()?;
        let mut key = KeyId::START;
        while cursor.next_member(&mut members)? {
            key = self.keys.read(cursor, key)?;
            let value = cursor.value()?;
            if self.wants_cell(key) {
                self.cells.push((key, value));
            }
        }
        Ok(start..self.cells.len())
    }
}
