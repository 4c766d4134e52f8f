//! Declared types: `decimal(10,2) unsigned`, `enum('a','b')`, and which of them each column of a message has.

use hashbrown::HashMap;

use crate::error::Result;
use crate::interner::{Interner, NameId};
use crate::wire::json::{Cursor, Text};

/// The families of MySQL's types.
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
    /// Text or bytes: the producer's word is the same for both, and only a value tells.
    Characters,
    /// `binary(n)`: as long as declared, filled with zero bytes.
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

/// A declared type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredType {
    /// As the message spells it.
    pub text: Box<str>,
    pub family: TypeFamily,
    pub unsigned: bool,
    /// The numbers in parentheses.
    pub arguments: Vec<u32>,
    /// The members of an enum or set, in order.
    pub labels: Vec<String>,
    pub encoding: Encoding,
}

/// How the values of a declared column are written, where the producer's way with the type alone does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As the dialect writes values of this type.
    #[default]
    Plain,
    /// A number: days since 1970.
    Days,
    /// A number: so many of these a second, since 1970 on a clock.
    DateTime(i64),
    /// A number: so many of these a second, of a TIME.
    Time(i64),
    /// ISO text of an instant.
    Zoned,
    /// ISO text of a clock, a date or a time of day.
    Iso,
    /// Base64 of a two's complement, with this many digits behind the point.
    Decimal(i32),
    /// Base64 of a two's complement, but nobody says how many digits are behind the point.
    DecimalWithoutScale,
    /// A struct of scale and base64.
    VariableDecimal,
    /// Base64 of the bytes, the least significant first.
    Bits,
    /// A number that is negative where it should be beyond 2^63.
    Unsigned,
    /// Base64.
    Base64,
    /// Two hexadecimal digits a byte.
    Hex,
    /// Text whose characters U+0000 to U+00FF are the bytes.
    Latin1,
    /// A struct of SRID and base64 of the WKB.
    Geometry,
    /// The WKB alone.
    Wkb,
}

impl DeclaredType {
    /// A type that only Kafka Connect names.
    pub fn connect(text: &str, family: TypeFamily, encoding: Encoding) -> Self {
        DeclaredType { text: text.into(), family, unsigned: false, arguments: Vec::new(), labels: Vec::new(), encoding }
    }

    /// Reads a type as DDL, `SHOW CREATE TABLE` or `information_schema` spell it.
    pub fn parse(text: &str) -> Self {
        let lower = text.trim_start().to_lowercase();
        let family = family_of(&lower);
        let is_list = matches!(family, TypeFamily::Enum | TypeFamily::Set);
        // The labels keep their case; only the words around them are compared in lower case.
        let words = if is_list { "" } else { lower.as_str() };
        DeclaredType {
            text: text.into(),
            family,
            unsigned: words.contains("unsigned") || words.contains("zerofill") || words.starts_with("serial"),
            arguments: if is_list { Vec::new() } else { arguments(words) },
            labels: if is_list { labels(text) } else { Vec::new() },
            encoding: Encoding::Plain,
        }
    }

    /// The type with this number in MySQL's protocol. Of text and blobs only the flag tells which.
    pub fn of_number(number: i64, is_binary: bool, unsigned: bool, text: &str) -> Self {
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
        DeclaredType { text: text.into(), family, unsigned, arguments: Vec::new(), labels: Vec::new(), encoding: Encoding::Plain }
    }

    /// Bytes of a `bit(n)` or `binary(n)` that says its length.
    pub fn length(&self) -> Option<usize> {
        self.arguments.first().map(|&n| n as usize)
    }

    fn has_lengths(&self) -> bool {
        !self.arguments.is_empty() || !self.labels.is_empty()
    }

    /// Whether a zero date may stand in such a column.
    pub fn is_date(&self) -> bool {
        matches!(self.family, TypeFamily::Date | TypeFamily::Datetime | TypeFamily::Timestamp)
    }
}

/// `lower` is in lower case.
fn family_of(lower: &str) -> TypeFamily {
    let end = lower.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(lower.len());
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
        // LONG VARBINARY is MySQL's other name of MEDIUMBLOB; CHAR BYTE of BINARY.
        "long" if rest.trim_start().starts_with("varbinary") => TypeFamily::Blob,
        "char" if rest.contains(" byte") => TypeFamily::Binary,
        "char" | "character" | "nchar" | "varchar" | "nvarchar" | "varcharacter" | "national" | "tinytext" | "text" | "mediumtext"
        | "longtext" | "long" => TypeFamily::Text,
        "enum" => TypeFamily::Enum,
        "set" => TypeFamily::Set,
        "json" => TypeFamily::Json,
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon" | "geomcollection"
        | "geometrycollection" => TypeFamily::Geometry,
        _ => TypeFamily::Unknown,
    }
}

fn arguments(lower: &str) -> Vec<u32> {
    let inner = lower.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inner, _)| inner);
    inner.split(',').map_while(|n| n.trim().parse().ok()).collect()
}

/// The members of `enum('a','it''s')`: quotes are doubled, and a backslash escapes as in a string of MySQL.
fn labels(text: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut rest = text.split_once('(').map_or("", |(_, rest)| rest).chars().peekable();
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

/// A type's number within one call of the decoder.
pub(crate) type TypeIndex = usize;

/// What one message declares.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its characters, if they stand together in the message.
    raw: Box<[u8]>,
    /// Of every column, in order; empty unless they are asked for.
    pub entries: Vec<(NameId, TypeIndex)>,
    /// Of the asked columns.
    by_column: Vec<Option<TypeIndex>>,
    /// Whether any of its types, asked for or not, has something in parentheses.
    has_lengths: bool,
}

/// The declared types met so far. The messages of a table repeat the same block, so a block is compared before it is read.
#[derive(Debug, Default)]
pub(crate) struct DeclaredTypes {
    /// Whether a block's entries are asked for, or only what it says of the asked columns.
    keep_entries: bool,
    ids: HashMap<Box<str>, TypeIndex>,
    declared: Vec<DeclaredType>,
    /// The declared types as they stand in JSON.
    quoted: Vec<Box<str>>,
    blocks: Vec<Block>,
    /// The block that came last with this hint.
    latest: HashMap<usize, usize>,
    /// By name: the type that it was last declared with, for producers that write a block in another order each time.
    by_key: Vec<TypeIndex>,
    /// Of the block that is being read.
    entries: Vec<(NameId, TypeIndex)>,
    places: HashMap<NameId, usize>,
    by_column: Vec<Option<TypeIndex>>,
    has_lengths: bool,
    /// Schema parts, which are much longer than what they declare.
    pub schemas: SchemaTexts,
}

/// The schema parts met so far, each with the block that it declares.
#[derive(Debug, Default)]
pub(crate) struct SchemaTexts {
    parts: Vec<SchemaText>,
    by_text: HashMap<Box<str>, usize>,
    last: usize,
}

#[derive(Debug)]
struct SchemaText {
    text: Box<str>,
    block: Option<usize>,
    /// Which part came after it last time.
    next: usize,
}

impl SchemaTexts {
    /// How many parts are compared before one is looked up by its whole text: those of different tables differ early.
    const NEAR: usize = 32;
    /// How many parts are kept between two chunks of messages.
    const MOST: usize = 1 << 10;

    /// Steps over a part that was met before, and tells what it declares.
    #[inline]
    pub fn eat(&mut self, cursor: &mut Cursor<'_>) -> Option<Option<usize>> {
        let guess = self.parts.get(self.last)?.next;
        let near = std::iter::once(guess).chain(0..Self::NEAR.min(self.parts.len()));
        let found = near.into_iter().find(|at| self.parts.get(*at).is_some_and(|part| cursor.eat(&part.text)))?;
        Some(self.follow(found))
    }

    /// What the part with this text declares, if it was met before.
    pub fn find(&mut self, text: &str) -> Option<Option<usize>> {
        let found = *self.by_text.get(text)?;
        Some(self.follow(found))
    }

    pub fn add(&mut self, text: &str, block: Option<usize>) {
        self.by_text.insert(text.into(), self.parts.len());
        self.parts.push(SchemaText { text: text.into(), block, next: self.parts.len() });
        self.follow(self.parts.len() - 1);
    }

    fn follow(&mut self, found: usize) -> Option<usize> {
        if let Some(last) = self.parts.get_mut(self.last) {
            last.next = found;
        }
        self.last = found;
        self.parts.get(found)?.block
    }
}

impl DeclaredTypes {
    /// How many blocks are kept between two chunks of messages.
    const MOST: usize = 1 << 10;

    pub fn new(keep_entries: bool) -> Self {
        DeclaredTypes { keep_entries, ..DeclaredTypes::default() }
    }

    /// Forgets everything if it has become too much, or if the names' numbers are no longer what they were, and tells so.
    pub fn trim(&mut self, names_forgotten: bool) -> bool {
        let is_forgotten = names_forgotten || self.blocks.len() > Self::MOST || self.schemas.parts.len() > SchemaTexts::MOST;
        if is_forgotten {
            *self = DeclaredTypes::new(self.keep_entries);
        }
        is_forgotten
    }

    pub fn block(&self, block: usize) -> Option<&Block> {
        self.blocks.get(block)
    }

    /// The declared type with this number.
    pub fn declared(&self, id: TypeIndex) -> Option<&DeclaredType> {
        self.declared.get(id)
    }

    /// Whether any type of `block` has something in parentheses.
    pub fn has_lengths(&self, block: usize) -> bool {
        self.blocks.get(block).is_some_and(|block| block.has_lengths)
    }

    /// What `block` declares for an asked column.
    #[inline]
    pub fn of_column(&self, block: usize, column: usize) -> Option<&DeclaredType> {
        let id = (*self.blocks.get(block)?.by_column.get(column)?)?;
        self.declared.get(id)
    }

    /// Reads an object of names and types. `hint` is anything that tends to go with the same block.
    pub fn read(&mut self, cursor: &mut Cursor<'_>, keys: &mut Interner<'_>, hint: usize) -> Result<usize> {
        if let Some(block) = self.latest(hint, |raw| cursor.eat_bytes(raw)) {
            return Ok(block);
        }
        let start = cursor.at();
        self.start();
        self.read_entries(cursor, keys)?;
        Ok(self.finish(cursor.since(start).as_bytes(), hint))
    }

    /// The block that came last with this hint, if it is the one that `stands_here`.
    pub fn latest(&self, hint: usize, stands_here: impl FnOnce(&[u8]) -> bool) -> Option<usize> {
        let block = *self.latest.get(&hint)?;
        self.blocks.get(block).is_some_and(|block| !block.raw.is_empty() && stands_here(&block.raw)).then_some(block)
    }

    /// Begins a block.
    pub fn start(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.by_column.clear();
        self.has_lengths = false;
    }

    /// Declares a column of the block, by the type's own text.
    #[inline]
    pub fn declare(&mut self, key: NameId, column: Option<usize>, text: &str) {
        let last = self.by_key.get(key.index()).copied().unwrap_or(usize::MAX);
        let id = match self.declared.get(last) {
            Some(declared) if *declared.text == *text && declared.encoding == Encoding::Plain => last,
            _ => self.id(text, || DeclaredType::parse(text)),
        };
        self.note(key, column, id);
    }

    /// Declares a column of the block, by a type that is not spelled as in DDL. `spelling` tells it from all others.
    pub fn declare_as(&mut self, key: NameId, column: Option<usize>, spelling: &str, make: impl FnOnce() -> DeclaredType) {
        // No producer's own spelling begins like this.
        let id = self.id(&format!("\0{spelling}"), make);
        self.note(key, column, id);
    }

    /// Ends a block, whose characters are `raw` if they stand together in the message, and returns its number.
    pub fn finish(&mut self, raw: &[u8], hint: usize) -> usize {
        let same =
            |block: &Block| block.by_column == self.by_column && block.has_lengths == self.has_lengths && block.entries == self.entries;
        // The same types in another order, or without characters to compare: nothing new.
        if let Some(&block) = self.latest.get(&hint)
            && self.blocks.get(block).is_some_and(same)
        {
            return block;
        }
        let (entries, by_column) = (self.entries.clone(), self.by_column.clone());
        self.blocks.push(Block { raw: raw.into(), entries, by_column, has_lengths: self.has_lengths });
        self.latest.insert(hint, self.blocks.len() - 1);
        self.blocks.len() - 1
    }

    fn read_entries(&mut self, cursor: &mut Cursor<'_>, keys: &mut Interner<'_>) -> Result<()> {
        let mut members = cursor.object()?;
        let mut key = NameId::START;
        while cursor.next_member(&mut members)? {
            key = keys.read_unordered(cursor, key)?;
            let id = self.read_type(key, cursor)?;
            self.note(key, keys.column(key), id);
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, key: NameId, column: Option<usize>, id: TypeIndex) {
        self.has_lengths |= self.declared.get(id).is_some_and(DeclaredType::has_lengths);
        if self.keep_entries {
            self.keep(key, id);
        }
        if let Some(column) = column {
            self.by_column.resize(self.by_column.len().max(column + 1), None);
            self.by_column.get_mut(column).into_iter().for_each(|slot| *slot = Some(id));
        }
        if self.by_key.get(key.index()) != Some(&id) {
            self.by_key.resize(self.by_key.len().max(key.index() + 1), usize::MAX);
            self.by_key.get_mut(key.index()).into_iter().for_each(|slot| *slot = id);
        }
    }

    /// Where a name stands twice, the later type counts.
    fn keep(&mut self, key: NameId, id: TypeIndex) {
        let next = self.entries.len();
        let place = *self.places.entry(key).or_insert(next);
        match self.entries.get_mut(place) {
            Some(entry) => entry.1 = id,
            None => self.entries.push((key, id)),
        }
    }

    /// The number of the type that is declared for `key`: usually the same as last time.
    #[inline]
    fn read_type(&mut self, key: NameId, cursor: &mut Cursor<'_>) -> Result<TypeIndex> {
        let last = self.by_key.get(key.index()).copied().unwrap_or(usize::MAX);
        if self.quoted.get(last).is_some_and(|quoted| cursor.eat(quoted)) {
            return Ok(last);
        }
        cursor.peek();
        let start = cursor.at();
        let text = read_type(cursor)?;
        let text = text.decode().map_err(|fault| fault.at(start))?;
        Ok(self.id(&text, || DeclaredType::parse(&text)))
    }

    /// The number of the type that is spelled so.
    fn id(&mut self, spelling: &str, make: impl FnOnce() -> DeclaredType) -> TypeIndex {
        if let Some(&id) = self.ids.get(spelling) {
            return id;
        }
        self.declared.push(make());
        self.quoted.push(crate::wire::json::quoted(spelling).into());
        self.ids.insert(spelling.into(), self.declared.len() - 1);
        self.declared.len() - 1
    }
}

/// A type's name; null says nothing.
fn read_type<'a>(cursor: &mut Cursor<'a>) -> Result<Text<'a>> {
    if cursor.peek() == Some(b'n') {
        return cursor.null().map(|()| Text { raw: "", escaped: false });
    }
    cursor.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_mysql_spells_them() {
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
            ("varchar(20) character set gbk", TypeFamily::Text, false, &[20]),
            ("long varbinary", TypeFamily::Blob, false, &[]),
            ("char(5) byte", TypeFamily::Binary, false, &[5]),
            ("geometrycollection", TypeFamily::Geometry, false, &[]),
            ("uuid", TypeFamily::Unknown, false, &[]),
        ];
        for (text, family, unsigned, arguments) in cases {
            let declared = DeclaredType::parse(text);
            assert_eq!((declared.family, declared.unsigned, &*declared.arguments), (family, unsigned, arguments), "{text}");
        }
    }

    #[test]
    fn labels_may_hold_quotes_commas_and_parentheses() {
        let declared = DeclaredType::parse(r#"enum('small','x,y','it''s','中',')','a\\b','Unsigned')"#);
        assert_eq!(declared.labels, ["small", "x,y", "it's", "中", ")", r"a\b", "Unsigned"]);
        assert!(!declared.unsigned);
        assert_eq!(DeclaredType::parse("SET ( 'a' , 'B' )").labels, ["a", "B"]);
    }
}
