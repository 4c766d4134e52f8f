//! Column names, met once and then known by number.
//!
//! The rows of a table repeat the same names in the same order. So each name remembers which one followed it last time,
//! and reading a row compares the text with that name instead of scanning, decoding and looking it up.

use hashbrown::HashMap;

use crate::error::Result;
use crate::wire::json::{Cursor, Text};

/// A column name's number within one call of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(u32);

impl KeyId {
    /// What comes before the first name of a row.
    pub const START: KeyId = KeyId(0);

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

struct Key {
    /// As it stands in JSON: `"name":`.
    quoted: Box<str>,
    /// Its first 16 bytes, and which of their bits count: one comparison in place of a call.
    head: u128,
    mask: u128,
    /// The name itself.
    name: Box<str>,
    /// Which of the asked columns it names.
    column: Option<u32>,
    /// Which name followed last time.
    next: KeyId,
}

/// The names met so far. More than [`Keys::MOST`] are forgotten between two chunks of messages.
pub(crate) struct Keys<'s> {
    columns: &'s ColumnNames,
    quoting: Quoting,
    keys: Vec<Key>,
    ids: HashMap<Box<str>, KeyId>,
}

/// Whether a producer quotes names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Names are written as they are.
    None,
    /// Backticks around names and doubled within them, as in SQL, may be left in names (canal).
    Backticks,
}

impl Quoting {
    /// The name itself.
    pub fn undo(self, name: &str) -> std::borrow::Cow<'_, str> {
        if self == Quoting::None || !name.contains('`') {
            return name.into();
        }
        let inner = name.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(name);
        inner.replace("``", "`").into()
    }
}

/// The asked columns by name.
#[derive(Debug, Default)]
pub(crate) struct ColumnNames {
    by_name: HashMap<String, u32>,
    case_sensitive: bool,
}

impl ColumnNames {
    /// Fails with the name that stands twice.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>, case_sensitive: bool) -> Result<Self, String> {
        let mut columns = ColumnNames { by_name: HashMap::new(), case_sensitive };
        for (index, name) in names.into_iter().enumerate() {
            if columns.by_name.insert(columns.folded(name), index as u32).is_some() {
                return Err(name.to_owned());
            }
        }
        Ok(columns)
    }

    fn folded(&self, name: &str) -> String {
        if self.case_sensitive { name.to_owned() } else { name.to_lowercase() }
    }

    /// The column that `name` is.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(&self.folded(name)).copied()
    }
}

impl Key {
    fn new(quoted: String, name: Box<str>, column: Option<u32>) -> Self {
        let mut head = [0; 16];
        let length = quoted.len().min(16);
        head.iter_mut().zip(quoted.bytes()).for_each(|(to, from)| *to = from);
        let mask = if length == 16 { u128::MAX } else { (1 << (8 * length)) - 1 };
        Key { quoted: quoted.into(), head: u128::from_le_bytes(head), mask, name, column, next: KeyId::START }
    }

    /// Steps over the key if it stands here.
    #[inline(always)]
    fn eat(&self, cursor: &mut Cursor<'_>) -> bool {
        match cursor.block() {
            Some(block) if block & self.mask != self.head => false,
            Some(_) if self.quoted.len() <= 16 => {
                cursor.advance(self.quoted.len());
                true
            }
            _ => cursor.eat(&self.quoted),
        }
    }
}

impl<'s> Keys<'s> {
    /// How many names are kept: far more than the tables of a topic have, so that only made-up names reach it.
    pub const MOST: usize = 1 << 16;

    pub fn new(columns: &'s ColumnNames, quoting: Quoting) -> Self {
        let mut keys = Keys { columns, quoting, keys: Vec::new(), ids: HashMap::new() };
        keys.forget();
        keys
    }

    /// Forgets all names if they have become too many. Numbers given out before mean nothing afterwards.
    pub fn trim(&mut self) {
        if self.keys.len() > Self::MOST {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.ids.clear();
        self.keys.clear();
        // The start of a row, which is no name.
        self.keys.push(Key::new("".into(), "".into(), None));
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub fn name(&self, id: KeyId) -> &str {
        self.keys.get(id.index()).map_or("", |key| &key.name)
    }

    /// A name without its producer's quoting.
    pub fn unquoted<'n>(&self, name: &'n str) -> std::borrow::Cow<'n, str> {
        self.quoting.undo(name)
    }

    /// Which of the asked columns `id` names.
    #[inline]
    pub fn column(&self, id: KeyId) -> Option<usize> {
        self.keys.get(id.index()).and_then(|key| key.column).map(|column| column as usize)
    }

    /// Reads a JSON key and its colon, where `previous` is the key before it.
    #[inline(always)]
    pub fn read(&mut self, cursor: &mut Cursor<'_>, previous: KeyId) -> Result<KeyId> {
        if let Some(guess) = self.keys.get(previous.index()).map(|key| key.next)
            && guess != KeyId::START
            && let Some(key) = self.keys.get(guess.index())
            && key.eat(cursor)
        {
            return Ok(guess);
        }
        self.read_other(cursor, previous)
    }

    #[inline(never)]
    fn read_other(&mut self, cursor: &mut Cursor<'_>, previous: KeyId) -> Result<KeyId> {
        let id = self.intern(cursor.key()?)?;
        if let Some(key) = self.keys.get_mut(previous.index()) {
            key.next = id;
        }
        Ok(id)
    }

    /// The number of a name that stands in JSON.
    pub fn intern(&mut self, text: Text<'_>) -> Result<KeyId> {
        if let Some(&id) = self.ids.get(text.raw) {
            return Ok(id);
        }
        let decoded = text.decode()?;
        let name = self.quoting.undo(&decoded);
        let id = KeyId(self.keys.len() as u32);
        let column = self.columns.find(&name);
        self.keys.push(Key::new(format!("\"{}\":", text.raw), name.into(), column));
        self.ids.insert(text.raw.into(), id);
        Ok(id)
    }
}
