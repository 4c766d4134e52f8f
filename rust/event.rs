//! Change events: the one form that every dialect produces, borrowed from the message.
//!
//! A dialect reads a message into [`Events`]: an [`Envelope`] for each message and a [`Row`] for each change. Row
//! images are lists of cells, which the batch converts once it knows the requested tables and columns.

use std::borrow::Cow;
use std::ops::Range;

use bumpalo::Bump;
use hashbrown::HashSet;

use crate::error::{Fault, Kind, Result};
use crate::interner::{Interner, MemberNames, NameId, Quoting};
use crate::mysql::statement::first_word;
use crate::mysql::types::DeclaredTypes;
use crate::named::named_enum;
use crate::value::Value;
use crate::wire::json::Cursor;

named_enum! {
    /// The operation of an output row.
    #[derive(Hash)]
    pub enum Op {
        /// A row was inserted.
        Insert = "insert",
        /// A row was updated.
        Update = "update",
        /// A row was deleted.
        Delete = "delete",
        /// A row was read by the producer's initial scan.
        Snapshot = "snapshot",
        /// All rows of a table were removed.
        Truncate = "truncate",
        /// The schema changed.
        Ddl = "ddl",
        /// A statement other than DDL.
        Query = "query",
        /// A transaction begins.
        Begin = "begin",
        /// A transaction is committed.
        Commit = "commit",
        /// A transaction is rolled back.
        Rollback = "rollback",
        /// The producer is alive.
        Heartbeat = "heartbeat",
        /// A GTID is announced.
        Gtid = "gtid",
        /// All changes up to a point have been sent.
        Watermark = "watermark",
        /// A Kafka record without a value.
        Tombstone = "tombstone",
        /// An operation that has no counterpart here.
        Other = "other",
        /// The message could not be read.
        Error = "error",
    }
}

impl Op {
    /// Returns the operation of a statement whose message does not name it.
    pub(crate) fn of_statement(sql: &str) -> Op {
        match first_word(sql).to_ascii_lowercase().as_str() {
            "truncate" => Op::Truncate,
            // Debezium's snapshot sends these between the tables' own statements.
            "use" | "set" => Op::Query,
            _ => Op::Ddl,
        }
    }

    /// Returns whether a row of a table changed.
    pub fn is_row_change(self) -> bool {
        matches!(self, Op::Insert | Op::Update | Op::Delete | Op::Snapshot)
    }
}

/// A dialect's encoding of MySQL's values, as data instead of code. Each dialect has its own.
#[derive(Debug)]
pub(crate) struct Quirks {
    /// The dialect's name, for `source.dialect` and for errors.
    pub dialect: &'static str,
    /// True if declared types are the DDL's own text, where `bit` means `bit(1)`. Otherwise a type may lack its length.
    pub declares_lengths: bool,
    /// The format of values.
    pub format: ValueFormat,
    /// The quoting of names.
    pub quoting: Quoting,
}

/// The format in which a dialect writes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueFormat {
    /// As MySQL prints them. Binary values are text whose characters U+0000 to U+00FF are the bytes.
    Text,
    /// As text, with enums and sets by their labels.
    TextAndLabels,
    /// In Kafka Connect's encodings: epochs, base64, structs. The schema part declares them; without it, the
    /// connector's settings do.
    Connect,
    /// As text, with binary in base64.
    Base64,
    /// As text, with binary in base64 and JSON columns as JSON. JSON strings have lost their quotes.
    Base64AndJson,
    /// As text, with binary in base64. Enums, sets and bits are numbers in text.
    Base64AndNumbers,
    /// As text, with binary in hexadecimal digits. `0x` may precede the digits.
    Hex,
    /// As text, with binary as bytes. Enums, sets and bits are numbers or text of numbers.
    BytesAndNumbers,
    /// Each value carries its own type: text, bytes, a number or a time.
    Typed,
}

impl ValueFormat {
    /// Returns whether text of digits may be the number of an enum, set or bit.
    pub fn has_numbers_as_text(self) -> bool {
        matches!(
            self,
            ValueFormat::Text
                | ValueFormat::TextAndLabels
                | ValueFormat::Base64AndNumbers
                | ValueFormat::BytesAndNumbers
        )
    }
}

/// The envelope of a message: its data about itself and about all its rows.
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
    /// Its block of declared types in [`DeclaredTypes`].
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

/// Place and time of a change: the part of the envelope that differs between messages of a table. A field is `None` if
/// the dialect lacks it.
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

/// The years 1 to 9999, in microseconds since 1970. Python and Spark have the same range.
const CALENDAR: Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

impl Source<'_> {
    /// Returns whether it has a place in a log of the database. Few dialects write one.
    pub fn has_log(&self) -> bool {
        let Source {
            file,
            position,
            transaction_id,
            commit_ts,
            watermark_ts,
            ..
        } = self;
        file.is_some()
            || position.is_some()
            || transaction_id.is_some()
            || commit_ts.is_some()
            || watermark_ts.is_some()
    }

    /// Returns whether readers can represent the times as dates.
    #[inline]
    pub fn has_times_in_calendar(&self) -> bool {
        [self.event_time, self.produced_time]
            .iter()
            .flatten()
            .all(|time| CALENDAR.contains(time))
    }

    #[inline]
    fn check_times(&self) -> Result<()> {
        if self.has_times_in_calendar() {
            Ok(())
        } else {
            Err(self.outside_of_calendar())
        }
    }

    #[cold]
    fn outside_of_calendar(&self) -> Fault {
        let is_event = self
            .event_time
            .is_some_and(|time| !CALENDAR.contains(&time));
        let field = if is_event {
            "event_time"
        } else {
            "produced_time"
        };
        Fault::new(Kind::Range, "is outside of the years 1 to 9999").within(field)
    }
}

impl Envelope<'_> {
    /// Returns an envelope with no field set.
    #[inline(always)]
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

    /// Returns an owned copy of the fields that other messages of the table share: all but the source and the key. The
    /// key's names belong to the chunk.
    pub fn shared(&self) -> Envelope<'static> {
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

fn owned(text: &Option<Cow<'_, str>>) -> Option<Cow<'static, str>> {
    text.as_deref().map(|text| Cow::Owned(text.to_owned()))
}

/// The cells of one row image, within [`Events::cells`].
pub(crate) type Cells = Range<usize>;

/// A row image: its own cells, merged onto the cells of a base image. The later cell of a duplicate name counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    pub base: Cells,
    pub own: Cells,
    /// True if the dialect knows that the cells belong to the table's first columns, one cell per column, in their
    /// order.
    pub is_in_order: bool,
}

impl Image {
    /// Returns a complete image.
    pub fn whole(cells: Cells) -> Self {
        Image {
            base: cells,
            own: 0..0,
            is_in_order: false,
        }
    }

    /// Returns a complete image whose cells may be known to be in the columns' order.
    pub fn ordered(cells: Cells, is_in_order: bool) -> Self {
        Image {
            is_in_order,
            ..Image::whole(cells)
        }
    }

    /// Returns the image before an update or delete: `old` merged onto `data`. `old` has the earlier value of a column,
    /// which may be null. A column that `old` lacks did not change.
    pub fn merged(data: Cells, old: Cells) -> Self {
        Image {
            base: data,
            own: old,
            is_in_order: false,
        }
    }
}

/// One change, or one message that is not a row change.
#[derive(Debug)]
pub(crate) struct Row {
    pub op: Op,
    /// Index of the message in the input.
    pub message: usize,
    /// The dialect of the message, for errors.
    pub dialect: &'static str,
    /// Index in [`Events::envelopes`]; `None` if the message could not be read.
    pub envelope: Option<usize>,
    /// Index of this change in its message.
    pub index: usize,
    pub before: Option<Image>,
    pub after: Option<Image>,
    /// Reason why the message could not be read.
    pub fault: Option<Fault>,
}

/// Parts of the messages that the decoder needs. Dialects skip the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Cells of columns outside the schema.
    pub every_cell: bool,
    /// Cells of the schema's columns.
    pub images: bool,
    /// Declared types: for the output, or because the conversion of a column depends on them.
    pub types: bool,
    /// JDBC type numbers, if they must be collected from the columns.
    pub jdbc_types: bool,
    /// Encodings of values, if a message declares them.
    pub encodings: bool,
    /// The column `source`.
    pub source: bool,
}

/// Returns the fault of a message with more rows than its received bytes allow.
#[cold]
fn too_many_rows(max_rows: usize) -> Fault {
    Fault::new(
        Kind::Size,
        format!(
            "the message has more than {max_rows} rows, the limit for its size; raise max_expansion"
        ),
    )
}

/// Number of tables that can alternate before repeated blocks are parsed again.
const REPEATS: usize = 64;

/// The change events of some messages, in order.
pub(crate) struct Events<'a> {
    pub keys: Interner,
    /// Members of the envelopes that were read before.
    pub members: MemberNames,
    pub types: DeclaredTypes,
    pub needs: Needs,
    /// The current message's dialect: the requested one until it is detected.
    dialect: &'static str,
    requested: &'static str,
    pub cells: Vec<(NameId, Value<'a>)>,
    /// Row images of the current message; `None` for null.
    pub images: Vec<Option<Cells>>,
    pub names: Vec<NameId>,
    pub envelopes: Vec<Envelope<'a>>,
    /// Sources of the messages that a template read.
    pub sources: Vec<Source<'a>>,
    pub rows: Vec<Row>,
    /// Memory for values that are decoded from the message, for example text in another charset.
    pub arena: &'a Bump,
    /// The last object of JDBC types, by the index of the row's last column name.
    repeats: [&'a str; REPEATS],
    /// The last list of names.
    last_names: (&'a str, Option<Range<usize>>),
    /// Index of the current message in the input.
    pub message: usize,
    first_row: usize,
    /// Number of rows that the current message may have, and whether it has more.
    max_rows: usize,
    has_too_many_rows: bool,
    /// Index of the current record's first cell. A message may have several records.
    first_cell: usize,
}

/// Numbers of items in a chunk of messages: an estimate for the next chunk.
#[derive(Default)]
struct Capacity {
    cells: usize,
    names: usize,
    envelopes: usize,
    sources: usize,
    rows: usize,
}

/// The names, types and sizes of earlier chunks.
pub(crate) struct Known {
    keys: Interner,
    members: MemberNames,
    types: DeclaredTypes,
    capacity: Capacity,
}

impl Known {
    pub fn new(keys: Interner, types: DeclaredTypes) -> Self {
        Known {
            keys,
            members: MemberNames::default(),
            types,
            capacity: Capacity::default(),
        }
    }

    /// Forgets names and types if there are too many. Returns whether references to names of columns and to types are
    /// invalid.
    pub fn trim(&mut self) -> bool {
        self.members.trim();
        let keys_were_reset = self.keys.trim();
        self.types.trim(keys_were_reset)
    }
}

fn roomy(length: usize) -> usize {
    length + length / 4
}

impl<'a> Events<'a> {
    pub fn new(known: Known, arena: &'a Bump, needs: Needs, dialect: &'static str) -> Self {
        let Known {
            keys,
            members,
            types,
            capacity: expected,
        } = known;
        Events {
            keys,
            members,
            types,
            needs,
            dialect,
            requested: dialect,
            cells: Vec::with_capacity(expected.cells),
            images: Vec::new(),
            names: Vec::with_capacity(expected.names),
            envelopes: Vec::with_capacity(expected.envelopes),
            sources: Vec::with_capacity(expected.sources),
            rows: Vec::with_capacity(expected.rows),
            arena,
            repeats: [""; REPEATS],
            last_names: ("", None),
            message: 0,
            first_row: 0,
            max_rows: usize::MAX,
            has_too_many_rows: false,
            first_cell: 0,
        }
    }

    /// Returns what the next chunk can use. It expects the sizes of this chunk plus a quarter, because a list that
    /// grows is copied.
    pub fn into_known(self) -> Known {
        Known {
            keys: self.keys,
            members: self.members,
            types: self.types,
            capacity: Capacity {
                cells: roomy(self.cells.len()),
                names: roomy(self.names.len()),
                envelopes: roomy(self.envelopes.len()),
                sources: roomy(self.sources.len()),
                rows: roomy(self.rows.len()),
            },
        }
    }

    /// Reads an object or null. The same columns usually have the same object.
    #[allow(clippy::indexing_slicing, reason = "the hint is below `REPEATS`")]
    pub fn read_repeated(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<&'a str>> {
        let hint = self.last_key() % REPEATS;
        cursor.repeated(&mut self.repeats[hint])
    }

    /// Reads declared types: an object of names and types, or null.
    pub fn read_types(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<usize>> {
        if !self.needs.types || cursor.peek() != Some(b'{') {
            return self.read_repeated(cursor).map(|_| None);
        }
        let hint = self.last_key();
        self.types.read(cursor, &mut self.keys, hint).map(Some)
    }

    /// Returns the cells of one part of a row image.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "cells are only appended while the events exist, so their ranges stay valid"
    )]
    pub fn cells_of(&self, cells: &Cells) -> &[(NameId, Value<'a>)] {
        debug_assert!(cells.end <= self.cells.len());
        &self.cells[cells.clone()]
    }

    /// Returns the names that `old` has and `data` lacks.
    pub fn lacking(&self, data: &Cells, old: &Cells) -> Vec<NameId> {
        let names = |cells| self.cells_of(cells).iter().map(|(key, _)| *key);
        // Producers write both in the table's order.
        let mut rest = names(data);
        if names(old).all(|key| rest.any(|other| other == key)) {
            return Vec::new();
        }
        let known: HashSet<_> = names(data).collect();
        names(old).filter(|key| !known.contains(key)).collect()
    }

    /// Returns the envelope of a row; `None` if its message could not be read.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "rows are made with the index that `Events::envelope` returned"
    )]
    pub fn envelope_of(&self, row: &Row) -> Option<&Envelope<'a>> {
        debug_assert!(
            row.envelope
                .is_none_or(|envelope| envelope < self.envelopes.len())
        );
        row.envelope.map(|envelope| &self.envelopes[envelope])
    }

    /// Returns the names of an envelope's primary key.
    #[allow(
        clippy::indexing_slicing,
        reason = "names are only appended while the events exist, so their ranges stay valid"
    )]
    pub fn primary_key_of(&self, envelope: &Envelope<'_>) -> Option<&[NameId]> {
        envelope.primary_key.clone().map(|names| &self.names[names])
    }

    /// Returns the index of the record's last column name. All rows of a table end with the same name.
    #[allow(
        clippy::indexing_slicing,
        reason = "cells are only appended while the events exist"
    )]
    fn last_key(&self) -> usize {
        self.cells[self.first_cell..]
            .last()
            .map_or(0, |(key, _)| key.index())
    }

    /// Reads an array of names without duplicates, or null. An empty array counts as null.
    pub fn read_names(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<Range<usize>>> {
        match cursor.peek() {
            Some(b'n') => return cursor.null().map(|()| None),
            Some(b'[') if !self.last_names.0.is_empty() && cursor.eat(self.last_names.0) => {
                return Ok(self.last_names.1.clone());
            }
            Some(b'[') => {}
            _ => return Err(cursor.wrong_type("an array of names or null")),
        }
        let (start, first) = (cursor.at(), self.names.len());
        let mut seen = HashSet::new();
        let mut elements = cursor.array()?;
        while cursor.next_element(&mut elements)? {
            cursor.peek();
            let start = cursor.at();
            let key = self
                .keys
                .intern(cursor.text()?)
                .map_err(|fault| fault.at(start))?;
            if seen.insert(key) {
                self.names.push(key);
            }
        }
        let names = Some(first..self.names.len()).filter(|names| !names.is_empty());
        self.last_names = (cursor.since(start), names.clone());
        Ok(names)
    }

    /// Adds a changed copy of the names.
    #[allow(
        clippy::indexing_slicing,
        reason = "names are only appended while the events exist"
    )]
    pub fn renamed(
        &mut self,
        names: Range<usize>,
        change: impl Fn(&str) -> String,
    ) -> Range<usize> {
        let first = self.names.len();
        for at in names {
            let name = change(self.keys.name(self.names[at]));
            let key = self.keys.intern_plain(&name);
            self.names.push(key);
        }
        first..self.names.len()
    }

    /// Reads row images as a range of [`Events::images`]: an array of objects, one object, or null.
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
        // A message's before and after images are read before the number of its rows is known.
        if self.images.len() / 2 > self.max_rows {
            return Err(too_many_rows(self.max_rows));
        }
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

    /// Returns the cells of a row image of the current message; `None` if it is null, or if the message has fewer images.
    #[allow(
        clippy::indexing_slicing,
        reason = "images are only appended while their message is read"
    )]
    pub fn image(&self, images: &Range<usize>, row: usize) -> Option<Cells> {
        self.images[images.clone()].get(row)?.clone()
    }

    /// Sets the current message's dialect.
    pub fn set_dialect(&mut self, quirks: &'static Quirks) {
        self.dialect = quirks.dialect;
        self.set_quoting(quirks.quoting);
    }

    /// Sets the quoting of the names that are read next.
    pub fn set_quoting(&mut self, quoting: Quoting) {
        if self.keys.set_quoting(quoting) {
            self.last_names = Default::default();
        }
    }

    /// Begins the message with this index in the input. It may have `max_rows` rows.
    pub fn begin(&mut self, message: usize, max_rows: usize) {
        (self.max_rows, self.has_too_many_rows) = (max_rows, false);
        self.message = message;
        self.dialect = self.requested;
        self.images.clear();
        self.first_row = self.rows.len();
    }

    /// Begins a record of the current message.
    pub fn begin_record(&mut self) {
        self.first_cell = self.cells.len();
    }

    /// Adds an envelope and returns its index.
    ///
    /// # Errors
    ///
    /// Fails if a time of its source is outside of the calendar.
    pub fn envelope(&mut self, envelope: Envelope<'a>) -> Result<usize> {
        envelope.source.check_times()?;
        self.envelopes.push(envelope);
        Ok(self.envelopes.len() - 1)
    }

    /// Adds an envelope with no field set. It is made in place, because a copy costs as much as filling the fields.
    #[inline]
    pub fn new_envelope(&mut self, quirks: &'static Quirks) -> Option<&mut Envelope<'a>> {
        self.envelopes
            .resize_with(self.envelopes.len() + 1, || Envelope::empty(quirks));
        self.envelopes.last_mut()
    }

    /// Returns the index of the last envelope.
    ///
    /// # Errors
    ///
    /// Fails like [`Events::envelope`].
    #[inline]
    pub fn last_envelope(&self) -> Result<usize> {
        if let Some(envelope) = self.envelopes.last() {
            envelope.source.check_times()?;
        }
        Ok(self.envelopes.len() - 1)
    }

    /// Adds a change of the current message.
    pub fn row(&mut self, op: Op, envelope: usize, before: Option<Image>, after: Option<Image>) {
        let index = self.rows.len() - self.first_row;
        if index >= self.max_rows {
            self.has_too_many_rows = true;
            return;
        }
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

    /// Fails if the current message has more rows than it may.
    pub fn check_rows(&self) -> Result<()> {
        if self.has_too_many_rows {
            Err(too_many_rows(self.max_rows))
        } else {
            Ok(())
        }
    }

    /// Drops the events of the current message, which cannot be read, and adds one error row.
    pub fn fail_message(&mut self, fault: Fault) {
        self.rows.truncate(self.first_row);
        self.push_message(Op::Error, Some(fault));
    }

    /// Adds a row of the current message without envelope and images.
    pub fn push_message(&mut self, op: Op, fault: Option<Fault>) {
        let index = self.rows.len() - self.first_row;
        self.rows.push(Row {
            op,
            message: self.message,
            dialect: self.dialect,
            envelope: None,
            index,
            before: None,
            after: None,
            fault,
        });
    }

    /// Returns whether cells of this name are needed.
    #[inline]
    pub fn wants_cell(&self, key: NameId) -> bool {
        self.needs.every_cell || self.needs.images && self.keys.column(key).is_some()
    }

    /// Reads the JSON object of a row image. Skips cells that are not needed.
    #[inline]
    pub fn read_cells(&mut self, cursor: &mut Cursor<'a>) -> Result<Cells> {
        let start = self.cells.len();
        let mut members = cursor.object()?;
        let mut key = NameId::START;
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
