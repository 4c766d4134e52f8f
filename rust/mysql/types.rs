//! Declared types: `decimal(10,2) unsigned`, `enum('a','b')`, and the declared type of each column of a message.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::Result;
use crate::interner::{Interner, NameId};
use crate::wire::json::{Cursor, Text};

/// MySQL type family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeFamily {
    Tinyint,
    Smallint,
    Mediumint,
    Int,
    Bigint,
    Decimal,
    Float,
    Double,
    Bit,
    Date,
    Datetime,
    Timestamp,
    Time,
    Year,
    Text,
    /// Text or bytes. The producer uses the same word for both, and only the value distinguishes them.
    Characters,
    /// `binary(n)`: fixed length, padded with zero bytes.
    Binary,
    /// `varbinary` and the blobs.
    Blob,
    Enum,
    Set,
    Json,
    Geometry,
    /// A type that MySQL does not have.
    Unknown,
}

/// Declared type of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredType {
    /// Spelling in the message.
    pub text: Box<str>,
    pub family: TypeFamily,
    pub unsigned: bool,
    /// Numbers in parentheses.
    pub arguments: Vec<u32>,
    /// Members of an enum or set, in order.
    pub labels: Vec<String>,
    pub encoding: Encoding,
}

/// Encoding of a declared column's values, if dialect and type alone do not determine it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The dialect's encoding of this type.
    #[default]
    Plain,
    /// Number of days since the epoch.
    Days,
    /// Local epoch as a number, with its units per second.
    DateTime(i64),
    /// TIME as a number, with its units per second.
    Time(i64),
    /// Epoch of an instant as a number, with its units per second.
    Instant(i64),
    /// ISO 8601 text of an instant.
    Zoned,
    /// ISO 8601 text of a local date-time, a date or a time of day.
    Iso,
    /// ISO 8601 text of a time of day in a zone. MySQL has no such type; as text, it keeps the zone.
    ZonedTime,
    /// Base64 of a two's complement unscaled integer, with this scale.
    Decimal(i32),
    /// Base64 of a two's complement unscaled integer of unknown scale.
    DecimalWithoutScale,
    /// Struct of scale and base64.
    VariableDecimal,
    /// Base64 of the bytes, little-endian.
    Bits,
    /// Unsigned 64-bit integer written as signed: values from 2^63 on are negative.
    Unsigned,
    /// Base64.
    Base64,
    /// Two hexadecimal digits per byte.
    Hex,
    /// Text whose characters U+0000 to U+00FF are the bytes.
    Latin1,
    /// Struct of SRID and base64 of the WKB.
    Geometry,
    /// WKB without SRID.
    Wkb,
}

impl DeclaredType {
    /// Returns a type that only Kafka Connect declares.
    pub fn connect(text: &str, family: TypeFamily, encoding: Encoding) -> Self {
        DeclaredType {
            text: text.into(),
            family,
            unsigned: false,
            arguments: Vec::new(),
            labels: Vec::new(),
            encoding,
        }
    }

    /// Parses a type as spelled by DDL, `SHOW CREATE TABLE` or `information_schema`.
    pub fn parse(text: &str) -> Self {
        let lower = text.trim_start().to_lowercase();
        let family = family_of(&lower);
        let is_enum_or_set = matches!(family, TypeFamily::Enum | TypeFamily::Set);
        // Labels keep their case. Only keywords are compared in lower case.
        let keywords = if is_enum_or_set { "" } else { lower.as_str() };
        DeclaredType {
            text: text.into(),
            family,
            unsigned: keywords.contains("unsigned")
                || keywords.contains("zerofill")
                || keywords.starts_with("serial"),
            arguments: if is_enum_or_set {
                Vec::new()
            } else {
                arguments(keywords)
            },
            labels: if is_enum_or_set {
                labels(text)
            } else {
                Vec::new()
            },
            encoding: Encoding::Plain,
        }
    }

    /// Returns the type with this number in MySQL's protocol. Only the binary flag distinguishes text from blobs.
    pub fn from_protocol(number: i64, is_binary: bool, unsigned: bool, text: &str) -> Self {
        let family = match number {
            1 => TypeFamily::Tinyint,
            2 => TypeFamily::Smallint,
            3 => TypeFamily::Int,
            4 => TypeFamily::Float,
            5 => TypeFamily::Double,
            7 | 17 => TypeFamily::Timestamp,
            8 => TypeFamily::Bigint,
            9 => TypeFamily::Mediumint,
            10 | 14 => TypeFamily::Date,
            11 | 19 => TypeFamily::Time,
            12 | 18 => TypeFamily::Datetime,
            13 => TypeFamily::Year,
            16 => TypeFamily::Bit,
            0 | 246 => TypeFamily::Decimal,
            245 => TypeFamily::Json,
            247 => TypeFamily::Enum,
            248 => TypeFamily::Set,
            15 | 249..=254 if is_binary => TypeFamily::Blob,
            15 | 249..=254 => TypeFamily::Text,
            255 => TypeFamily::Geometry,
            _ => TypeFamily::Unknown,
        };
        DeclaredType {
            text: text.into(),
            family,
            unsigned,
            arguments: Vec::new(),
            labels: Vec::new(),
            encoding: Encoding::Plain,
        }
    }

    /// Returns the declared length of a `bit(n)` or `binary(n)`.
    pub fn length(&self) -> Option<usize> {
        self.arguments.first().map(|&n| n as usize)
    }

    fn has_lengths(&self) -> bool {
        !self.arguments.is_empty() || !self.labels.is_empty()
    }

    /// Returns whether values are bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(self.family, TypeFamily::Binary | TypeFamily::Blob)
    }

    /// Returns whether a column of this type may hold a zero date.
    pub fn is_date(&self) -> bool {
        matches!(
            self.family,
            TypeFamily::Date | TypeFamily::Datetime | TypeFamily::Timestamp
        )
    }
}

/// Returns the family of a type, whose text is in lower case.
fn family_of(lower: &str) -> TypeFamily {
    let end = lower
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(lower.len());
    let (word, rest) = lower.split_at(end);
    match word {
        "tinyint" | "boolean" | "bool" | "int1" => TypeFamily::Tinyint,
        "smallint" | "int2" => TypeFamily::Smallint,
        "mediumint" | "int3" | "middleint" => TypeFamily::Mediumint,
        "int" | "integer" | "int4" => TypeFamily::Int,
        "bigint" | "int8" | "serial" => TypeFamily::Bigint,
        "decimal" | "numeric" | "dec" | "fixed" => TypeFamily::Decimal,
        "float" | "float4" => TypeFamily::Float,
        "double" | "real" | "float8" => TypeFamily::Double,
        "bit" => TypeFamily::Bit,
        "date" => TypeFamily::Date,
        "datetime" => TypeFamily::Datetime,
        "timestamp" => TypeFamily::Timestamp,
        "time" => TypeFamily::Time,
        "year" => TypeFamily::Year,
        "binary" => TypeFamily::Binary,
        "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => TypeFamily::Blob,
        // LONG VARBINARY is a synonym of MEDIUMBLOB, CHAR BYTE of BINARY.
        "long" if rest.trim_start().starts_with("varbinary") => TypeFamily::Blob,
        "char" if rest.contains(" byte") => TypeFamily::Binary,
        "char" | "character" | "nchar" | "varchar" | "nvarchar" | "varcharacter" | "national"
        | "tinytext" | "text" | "mediumtext" | "longtext" | "long" => TypeFamily::Text,
        "enum" => TypeFamily::Enum,
        "set" => TypeFamily::Set,
        "json" => TypeFamily::Json,
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geomcollection" | "geometrycollection" => TypeFamily::Geometry,
        _ => TypeFamily::Unknown,
    }
}

fn arguments(lower: &str) -> Vec<u32> {
    let inner = lower
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .map_or("", |(inner, _)| inner);
    inner
        .split(',')
        .map_while(|n| n.trim().parse().ok())
        .collect()
}

impl DeclaredType {
    /// Returns the bytes of the longest text of an enum or set; 0 for other types.
    fn label_bytes(&self) -> usize {
        let lengths = self.labels.iter().map(String::len);
        match self.family {
            TypeFamily::Set => lengths.map(|length| length + 1).sum(),
            _ => lengths.max().unwrap_or(0),
        }
    }
}

/// Returns the members of `enum('a','it''s')`. Quotes are doubled, and a backslash escapes like in a MySQL string.
fn labels(text: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut rest = text
        .split_once('(')
        .map_or("", |(_, rest)| rest)
        .chars()
        .peekable();
    while let Some(quote) = rest.by_ref().find(|c| matches!(c, '\'' | '"' | ')')) {
        if quote == ')' {
            break;
        }
        let mut label = String::new();
        while let Some(c) = rest.next() {
            match c {
                '\\' => label.extend(rest.next().map(escaped)),
                c if c == quote => match rest.next_if_eq(&quote) {
                    Some(doubled) => label.push(doubled),
                    None => break,
                },
                c => label.push(c),
            }
        }
        labels.push(label);
    }
    labels
}

fn escaped(c: char) -> char {
    match c {
        '0' => '\0',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'Z' => '\u{1a}',
        other => other,
    }
}

/// Index of a type within one call of the decoder.
pub(crate) type TypeIndex = usize;

/// Declared types of one message.
#[derive(Debug)]
pub(crate) struct TypeBlock {
    /// Raw bytes, if contiguous in the message.
    raw: Box<[u8]>,
    /// Type of every column, in order; empty unless requested.
    pub entries: Vec<(NameId, TypeIndex)>,
    /// Type of each requested column.
    by_column: Vec<Option<TypeIndex>>,
    /// True if any type, requested or not, has arguments in parentheses.
    has_lengths: bool,
    /// Number of bytes that the texts of a row's enums and sets have together at most.
    label_bytes: usize,
}

/// Interner of declared types. Messages of a table repeat the same block, so a block is compared before it is parsed.
#[derive(Debug, Default)]
pub(crate) struct DeclaredTypes {
    /// True if blocks keep all entries; otherwise only the types of requested columns.
    keep_entries: bool,
    /// Types by their spelling in DDL.
    ids: HashMap<Box<str>, TypeIndex>,
    /// Types in other spellings, by the dialect and its key.
    ids_of_dialects: HashMap<&'static str, HashMap<Box<str>, TypeIndex>>,
    declared: Vec<Arc<DeclaredType>>,
    /// Spellings in DDL as JSON strings; `None` for a type in another spelling.
    quoted: Vec<Option<Box<str>>>,
    blocks: Vec<TypeBlock>,
    /// The last block seen with each hint.
    latest: HashMap<usize, usize>,
    /// The last type seen for each name, for producers that reorder the block in every message.
    last_by_name: Vec<TypeIndex>,
    /// Block being read: its entries, their positions by name, and the fields of [`TypeBlock`].
    entries: Vec<(NameId, TypeIndex)>,
    positions: HashMap<NameId, usize>,
    by_column: Vec<Option<TypeIndex>>,
    has_lengths: bool,
    /// Schema parts. They are much longer than the types that they declare.
    pub schemas: SchemaCache,
}

/// Cache of schema parts, each with its declared block.
#[derive(Debug, Default)]
pub(crate) struct SchemaCache {
    parts: Vec<CachedSchema>,
    by_text: HashMap<Box<str>, usize>,
    last: usize,
}

/// The names of database and table in a row's schema without an envelope, if it has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowName {
    pub database: Option<Box<str>>,
    pub table: Option<Box<str>>,
}

#[derive(Debug)]
struct CachedSchema {
    text: Box<str>,
    block: Option<usize>,
    row: Option<RowName>,
    /// The part that followed it last time.
    next: usize,
}

#[allow(
    clippy::indexing_slicing,
    reason = "`by_text`, `last` and `next` have indices of `parts`, and a part exists before `follow`"
)]
impl SchemaCache {
    /// Number of parts to compare one by one before a lookup by the whole text. Parts of different tables differ early.
    const MAX_LINEAR: usize = 32;
    /// Maximum number of parts to keep between two chunks of messages.
    const MAX_PARTS: usize = 1 << 10;

    /// Skips a cached part and returns its block.
    #[inline]
    pub fn skip_cached(&mut self, cursor: &mut Cursor<'_>) -> Option<Option<usize>> {
        let guess = self.parts.get(self.last)?.next;
        let candidates = std::iter::once(guess).chain(0..Self::MAX_LINEAR.min(self.parts.len()));
        let found = candidates
            .into_iter()
            .find(|at| cursor.eat(&self.parts[*at].text))?;
        Some(self.follow(found))
    }

    /// Returns the block of the part with this text, if cached.
    pub fn find(&mut self, text: &str) -> Option<Option<usize>> {
        let found = *self.by_text.get(text)?;
        Some(self.follow(found))
    }

    pub fn add(&mut self, text: &str, block: Option<usize>, row: Option<RowName>) {
        self.by_text.insert(text.into(), self.parts.len());
        self.parts.push(CachedSchema {
            text: text.into(),
            block,
            row,
            next: self.parts.len(),
        });
        self.follow(self.parts.len() - 1);
    }

    /// Returns the row that the last part describes, if it does not describe an envelope.
    pub fn row(&self) -> Option<&RowName> {
        self.parts.get(self.last)?.row.as_ref()
    }

    fn follow(&mut self, found: usize) -> Option<usize> {
        self.parts[self.last].next = found;
        self.last = found;
        self.parts[found].block
    }
}

impl DeclaredTypes {
    /// Maximum number of blocks to keep between two chunks of messages.
    const MAX_BLOCKS: usize = 1 << 10;

    pub fn new(keep_entries: bool) -> Self {
        DeclaredTypes {
            keep_entries,
            ..DeclaredTypes::default()
        }
    }

    /// Clears the cache if it is too large or the interned names were reset. Returns whether it did.
    pub fn trim(&mut self, names_were_reset: bool) -> bool {
        let is_reset = names_were_reset
            || self.blocks.len() > Self::MAX_BLOCKS
            || self.schemas.parts.len() > SchemaCache::MAX_PARTS;
        if is_reset {
            *self = DeclaredTypes::new(self.keep_entries);
        }
        is_reset
    }

    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "blocks are only appended while events have their numbers"
    )]
    pub fn block(&self, block: usize) -> &TypeBlock {
        &self.blocks[block]
    }

    /// Returns the declared type with this index.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "types are only appended while blocks have their indices"
    )]
    pub fn declared(&self, id: TypeIndex) -> &Arc<DeclaredType> {
        &self.declared[id]
    }

    /// Returns whether any type of `block` has arguments in parentheses.
    pub fn has_lengths(&self, block: usize) -> bool {
        self.block(block).has_lengths
    }

    /// Returns the number of bytes that the requested enums and sets of a row have together at most.
    #[inline]
    pub fn label_bytes(&self, block: usize) -> usize {
        self.block(block).label_bytes
    }

    /// Returns the number of bytes in the names and types of all columns of `block`.
    pub fn entry_bytes(&self, block: usize, keys: &Interner) -> usize {
        let entries = self.block(block).entries.iter();
        let bytes = entries.map(|(key, id)| {
            keys.name(*key).len() + self.declared(*id).text.len() + 2 * size_of::<i32>()
        });
        bytes.sum()
    }

    /// Returns the type that `block` declares for a requested column.
    #[inline]
    pub fn of_column(&self, block: usize, column: usize) -> Option<&Arc<DeclaredType>> {
        let id = (*self.block(block).by_column.get(column)?)?;
        Some(self.declared(id))
    }

    /// Reads an object of names and types. `hint` is any value that correlates with the block.
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        keys: &mut Interner,
        hint: usize,
    ) -> Result<usize> {
        if let Some(block) = self.latest(hint, |raw| cursor.eat_bytes(raw)) {
            return Ok(block);
        }
        let start = cursor.at();
        self.start();
        self.read_entries(cursor, keys)?;
        Ok(self.finish(cursor.since(start).as_bytes(), hint))
    }

    /// Returns the last block with this hint, if `matches` accepts its raw bytes.
    pub fn latest(&self, hint: usize, matches: impl FnOnce(&[u8]) -> bool) -> Option<usize> {
        let number = *self.latest.get(&hint)?;
        let raw = &self.block(number).raw;
        (!raw.is_empty() && matches(raw)).then_some(number)
    }

    /// Forgets the last blocks, because their names were read in another quoting.
    pub fn forget_latest(&mut self) {
        self.latest.clear();
    }

    /// Starts a block.
    pub fn start(&mut self) {
        self.entries.clear();
        self.positions.clear();
        self.by_column.clear();
        self.has_lengths = false;
    }

    /// Declares a column of the block by the text of its type.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "each type has an entry in both lists"
    )]
    pub fn declare(&mut self, key: NameId, column: Option<usize>, text: &str) {
        let last = self
            .last_by_name
            .get(key.index())
            .copied()
            .unwrap_or(usize::MAX);
        let id = match self.declared.get(last) {
            Some(declared) if *declared.text == *text && self.quoted[last].is_some() => last,
            _ => self.intern(text),
        };
        self.record(key, column, id);
    }

    /// Declares a column of the block by a type in a spelling other than DDL's. `spelling` determines the type within
    /// the dialect.
    pub fn declare_as(
        &mut self,
        (key, column): (NameId, Option<usize>),
        dialect: &'static str,
        spelling: &str,
        make: impl FnOnce() -> DeclaredType,
    ) {
        let known = self
            .ids_of_dialects
            .get(dialect)
            .and_then(|ids| ids.get(spelling))
            .copied();
        let id = known.unwrap_or_else(|| {
            let id = self.add(make(), None);
            self.ids_of_dialects
                .entry(dialect)
                .or_default()
                .insert(spelling.into(), id);
            id
        });
        self.record(key, column, id);
    }

    /// Ends a block and returns its index. `raw` has its bytes if they are contiguous in the message; otherwise it is
    /// empty.
    pub fn finish(&mut self, raw: &[u8], hint: usize) -> usize {
        // Reuse the block if it has the same types in another order, or has no raw bytes to compare.
        if let Some(&index) = self.latest.get(&hint) {
            let block = self.block(index);
            if block.by_column == self.by_column
                && block.has_lengths == self.has_lengths
                && block.entries == self.entries
            {
                return index;
            }
        }
        let (entries, by_column) = (self.entries.clone(), self.by_column.clone());
        let declared = by_column.iter().flatten().map(|id| self.declared(*id));
        let label_bytes = declared.map(|declared| declared.label_bytes()).sum();
        self.blocks.push(TypeBlock {
            raw: raw.into(),
            entries,
            by_column,
            has_lengths: self.has_lengths,
            label_bytes,
        });
        self.latest.insert(hint, self.blocks.len() - 1);
        self.blocks.len() - 1
    }

    fn read_entries(&mut self, cursor: &mut Cursor<'_>, keys: &mut Interner) -> Result<()> {
        let mut members = cursor.object()?;
        let mut key = NameId::START;
        while cursor.next_member(&mut members)? {
            key = keys.read_unordered(cursor, key)?;
            let id = self.read_type(key, cursor)?;
            self.record(key, keys.column(key), id);
        }
        Ok(())
    }

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "the lists are long enough before")]
    fn record(&mut self, key: NameId, column: Option<usize>, id: TypeIndex) {
        self.has_lengths |= self.declared(id).has_lengths();
        if self.keep_entries {
            self.add_entry(key, id);
        }
        if let Some(column) = column {
            self.by_column
                .resize(self.by_column.len().max(column + 1), None);
            self.by_column[column] = Some(id);
        }
        if self.last_by_name.get(key.index()) != Some(&id) {
            self.last_by_name
                .resize(self.last_by_name.len().max(key.index() + 1), usize::MAX);
            self.last_by_name[key.index()] = id;
        }
    }

    /// Adds a column. The last type of a duplicate name wins.
    fn add_entry(&mut self, key: NameId, id: TypeIndex) {
        let next = self.entries.len();
        let position = *self.positions.entry(key).or_insert(next);
        match self.entries.get_mut(position) {
            Some(entry) => entry.1 = id,
            None => self.entries.push((key, id)),
        }
    }

    /// Returns the index of the type declared for `key`. It is usually the same as last time.
    #[inline]
    fn read_type(&mut self, key: NameId, cursor: &mut Cursor<'_>) -> Result<TypeIndex> {
        let last = self
            .last_by_name
            .get(key.index())
            .copied()
            .unwrap_or(usize::MAX);
        if self
            .quoted
            .get(last)
            .and_then(Option::as_deref)
            .is_some_and(|quoted| cursor.eat(quoted))
        {
            return Ok(last);
        }
        cursor.peek();
        let start = cursor.at();
        let text = read_type(cursor)?;
        let text = text.decode().map_err(|fault| fault.at(start))?;
        Ok(self.intern(&text))
    }

    /// Interns the type with this spelling in DDL.
    fn intern(&mut self, spelling: &str) -> TypeIndex {
        if let Some(&id) = self.ids.get(spelling) {
            return id;
        }
        let id = self.add(
            DeclaredType::parse(spelling),
            Some(crate::wire::json::quoted(spelling).into()),
        );
        self.ids.insert(spelling.into(), id);
        id
    }

    fn add(&mut self, declared: DeclaredType, quoted: Option<Box<str>>) -> TypeIndex {
        self.declared.push(declared.into());
        self.quoted.push(quoted);
        self.declared.len() - 1
    }
}

/// Reads a type's name. Null is not a type.
fn read_type<'a>(cursor: &mut Cursor<'a>) -> Result<Text<'a>> {
    if cursor.peek() == Some(b'n') {
        return cursor.null().map(|()| Text {
            raw: "",
            escaped: false,
        });
    }
    cursor.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_mysql_spellings() {
        let cases: [(&str, TypeFamily, bool, &[u32]); 14] = [
            ("int", TypeFamily::Int, false, &[]),
            ("int(8) unsigned zerofill", TypeFamily::Int, true, &[8]),
            ("BIGINT UNSIGNED", TypeFamily::Bigint, true, &[]),
            ("decimal(10, 4)", TypeFamily::Decimal, false, &[10, 4]),
            ("double precision", TypeFamily::Double, false, &[]),
            ("float(7,2)", TypeFamily::Float, false, &[7, 2]),
            ("bit(10)", TypeFamily::Bit, false, &[10]),
            ("boolean", TypeFamily::Tinyint, false, &[]),
            ("datetime(6)", TypeFamily::Datetime, false, &[6]),
            (
                "varchar(20) character set gbk",
                TypeFamily::Text,
                false,
                &[20],
            ),
            ("long varbinary", TypeFamily::Blob, false, &[]),
            ("char(5) byte", TypeFamily::Binary, false, &[5]),
            ("geometrycollection", TypeFamily::Geometry, false, &[]),
            ("uuid", TypeFamily::Unknown, false, &[]),
        ];
        for (text, family, unsigned, arguments) in cases {
            let declared = DeclaredType::parse(text);
            assert_eq!(
                (declared.family, declared.unsigned, &*declared.arguments),
                (family, unsigned, arguments),
                "{text}"
            );
        }
    }

    #[test]
    fn labels_may_contain_quotes_commas_and_parentheses() {
        let declared =
            DeclaredType::parse(r#"enum('small','x,y','it''s','中',')','a\\b','Unsigned')"#);
        assert_eq!(
            declared.labels,
            ["small", "x,y", "it's", "中", ")", r"a\b", "Unsigned"]
        );
        assert!(!declared.unsigned);
        assert_eq!(DeclaredType::parse("SET ( 'a' , 'B' )").labels, ["a", "B"]);
    }
}
