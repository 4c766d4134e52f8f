//! Interner of column names.
//!
//! The rows of a table repeat the same names in the same order. So each name remembers its last successor. A reader
//! compares the text with this successor instead of scanning, decoding and hashing it.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::Result;
use crate::wire::json::{self, Cursor, Text};

/// Id of a column name within one call of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameId(u32);

impl NameId {
    /// The predecessor of a row's first name.
    pub const START: NameId = NameId(0);

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

struct Key {
    /// The key in JSON, `"name":`; `None` if the name is never predicted.
    quoted: Option<Box<str>>,
    /// First 16 bytes of the key and their mask: one comparison instead of a call. The head of a never predicted name
    /// matches no bytes.
    head: u128,
    mask: u128,
    /// The name.
    name: Box<str>,
    /// Index of the requested column, or of the struct's member, with this name.
    column: Option<u32>,
    /// The last two successors: a name may occur in two kinds of objects.
    next: NameId,
    other: NameId,
}

/// Interner of column names. It is reset between two chunks of messages if it has more than [`Interner::MOST`] names.
pub(crate) struct Interner {
    known: KnownNames,
    quoting: Quoting,
    /// True if the quoting of a name was undone since the quoting was set.
    has_unquoted: bool,
    keys: Vec<Key>,
    /// Ids by the raw JSON characters. Differently escaped spellings of a name share an id.
    ids: HashMap<Box<str>, NameId>,
    by_name: HashMap<Box<str>, NameId>,
    /// Direct-mapped cache by [`fingerprint`]. With it, names in any order are nearly as fast as in the predicted
    /// order.
    near: [NameId; NEAR],
}

const NEAR: usize = 256;

/// Names that have an index of their own.
enum KnownNames {
    /// The requested columns.
    Columns(Arc<ColumnNames>),
    /// The members of a struct, in its order.
    Members(&'static [&'static str]),
}

impl KnownNames {
    fn find(&self, name: &str) -> Option<u32> {
        match self {
            KnownNames::Columns(columns) => columns.find(name),
            KnownNames::Members(members) => members
                .iter()
                .position(|member| *member == name)
                .and_then(|at| u32::try_from(at).ok()),
        }
    }
}

/// Hashes a name's length and three of its bytes, which distinguishes most names of a table.
#[inline]
pub(crate) fn fingerprint(name: &[u8]) -> usize {
    let byte = |at: usize| name.get(at).map_or(0, |byte| usize::from(*byte));
    let length = name.len();
    (length
        ^ byte(length / 2) << 1
        ^ byte(length.wrapping_sub(1)) << 3
        ^ byte(length.wrapping_sub(2)) << 5)
        % NEAR
}

/// Quoting of names by a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Names are not quoted.
    None,
    /// Names may keep SQL's backticks: around a name, and doubled within it (canal).
    Backticks,
}

impl Quoting {
    /// Returns the unquoted name.
    pub fn undo(self, name: &str) -> std::borrow::Cow<'_, str> {
        if self == Quoting::None || !name.contains('`') {
            return name.into();
        }
        let inner = name
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'))
            .unwrap_or(name);
        inner.replace("``", "`").into()
    }
}

/// The requested columns by name.
#[derive(Debug, Default)]
pub(crate) struct ColumnNames {
    by_name: HashMap<String, u32>,
    case_sensitive: bool,
}

/// Returns a column's name in the form in which names are compared.
pub(crate) fn folded(name: &str, case_sensitive: bool) -> String {
    if case_sensitive {
        name.to_owned()
    } else {
        name.to_lowercase()
    }
}

impl ColumnNames {
    /// Returns the columns by name. Fails with the first duplicate name.
    pub fn new<'n>(
        names: impl IntoIterator<Item = &'n str>,
        case_sensitive: bool,
    ) -> Result<Self, String> {
        let mut columns = ColumnNames {
            by_name: HashMap::new(),
            case_sensitive,
        };
        for (index, name) in names.into_iter().enumerate() {
            if columns
                .by_name
                .insert(columns.folded(name), index as u32)
                .is_some()
            {
                return Err(name.to_owned());
            }
        }
        Ok(columns)
    }

    /// Adds other names of columns. Fails if the other name is a column's own name, if it is given twice, or if its
    /// column does not exist.
    pub fn add_aliases(&mut self, aliases: &[(String, String)]) -> Result<(), String> {
        for (alias, name) in aliases {
            let index = self
                .find(name)
                .ok_or_else(|| format!("aliases: {name:?} is not a column of the schema"))?;
            if self.by_name.insert(self.folded(alias), index).is_some() {
                return Err(format!(
                    "aliases: {alias:?} is already a column of the schema or another alias"
                ));
            }
        }
        Ok(())
    }

    fn folded(&self, name: &str) -> String {
        folded(name, self.case_sensitive)
    }

    /// Returns the index of the column with this name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(&self.folded(name)).copied()
    }
}

impl Key {
    fn new(quoted: Option<String>, name: Box<str>, column: Option<u32>) -> Self {
        let (head, mask) = quoted.as_deref().map_or((u128::MAX, 0), head_and_mask);
        Key {
            quoted: quoted.map(Into::into),
            head,
            mask,
            name,
            column,
            next: NameId::START,
            other: NameId::START,
        }
    }

    /// Returns whether these are the raw characters of the key's name.
    #[inline]
    fn is(&self, raw: &str) -> bool {
        let quoted = self.quoted.as_deref().map_or(&[][..], str::as_bytes);
        quoted.len() == raw.len() + 3 && quoted.get(1..raw.len() + 1) == Some(raw.as_bytes())
    }

    /// Returns whether this is the name, and the name means the same in every quoting.
    #[inline]
    fn is_named(&self, name: &str) -> bool {
        *self.name == *name && self.quoted.is_some()
    }

    /// Skips the key if it comes next.
    #[inline(always)]
    fn eat(&self, cursor: &mut Cursor<'_>) -> bool {
        let block = cursor.block();
        if block.is_some_and(|block| block & self.mask != self.head) {
            return false;
        }
        match &self.quoted {
            Some(quoted) if block.is_some() && quoted.len() <= 16 => {
                cursor.advance(quoted.len());
                true
            }
            Some(quoted) => cursor.eat(quoted),
            None => false,
        }
    }
}

/// Returns the first 16 bytes of a text, and the mask of the bytes that the text has.
fn head_and_mask(text: &str) -> (u128, u128) {
    let mut head = [0; 16];
    let length = text.len().min(16);
    head.iter_mut()
        .zip(text.bytes())
        .for_each(|(to, from)| *to = from);
    let mask = if length == 16 {
        u128::MAX
    } else {
        (1 << (8 * length)) - 1
    };
    (u128::from_le_bytes(head), mask)
}

impl Interner {
    /// Maximum number of interned names. The tables of a topic have far fewer, so only generated names reach it.
    pub const MOST: usize = 1 << 16;

    pub fn new(columns: Arc<ColumnNames>) -> Self {
        Self::of(KnownNames::Columns(columns))
    }

    fn of(known: KnownNames) -> Self {
        let (ids, by_name) = (HashMap::new(), HashMap::new());
        let mut keys = Interner {
            known,
            quoting: Quoting::None,
            has_unquoted: false,
            keys: Vec::new(),
            ids,
            by_name,
            near: [NameId::START; NEAR],
        };
        keys.forget();
        keys
    }

    /// Sets the quoting of the names that are read next. Returns whether it differs from the previous quoting.
    #[inline]
    pub fn set_quoting(&mut self, quoting: Quoting) -> bool {
        self.has_unquoted = false;
        std::mem::replace(&mut self.quoting, quoting) != quoting
    }

    /// Resets the interner if it has too many names. Returns whether it did; earlier ids are then invalid.
    pub fn trim(&mut self) -> bool {
        let too_many = self.keys.len() > Self::MOST;
        if too_many {
            self.forget();
        }
        too_many
    }

    fn forget(&mut self) {
        self.ids.clear();
        self.by_name.clear();
        self.keys.clear();
        self.near = [NameId::START; NEAR];
        // `NameId::START`, which is not a name.
        self.keys.push(Key::new(None, "".into(), None));
    }

    /// Returns whether the quoting of a name was undone since the quoting was set.
    pub fn has_unquoted(&self) -> bool {
        self.has_unquoted
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "ids are the interner's, and keys are only appended while they exist"
    )]
    fn key(&self, id: NameId) -> &Key {
        &self.keys[id.index()]
    }

    /// Returns a name, for the prediction of its successor.
    #[inline]
    #[allow(clippy::indexing_slicing, reason = "as in `key`")]
    fn key_mut(&mut self, id: NameId) -> &mut Key {
        &mut self.keys[id.index()]
    }

    #[inline]
    pub fn name(&self, id: NameId) -> &str {
        &self.key(id).name
    }

    /// Returns the index of the requested column, or of the struct's member, with this name.
    #[inline]
    pub fn column(&self, id: NameId) -> Option<usize> {
        self.key(id).column.map(|column| column as usize)
    }

    /// Reads a JSON key and its colon; `previous` is the preceding key.
    #[inline(always)]
    pub fn read(&mut self, cursor: &mut Cursor<'_>, previous: NameId) -> Result<NameId> {
        match self.eat_next(cursor, previous) {
            Some(id) => Ok(id),
            None => self.read_other(cursor, previous),
        }
    }

    /// Reads a key of an object that is not a row: its order does not update the predicted successors.
    pub fn read_unordered(&mut self, cursor: &mut Cursor<'_>, previous: NameId) -> Result<NameId> {
        match self.eat_next(cursor, previous) {
            Some(id) => Ok(id),
            None => self.intern_key(cursor),
        }
    }

    /// Skips the predicted successor of `previous`, if it comes next.
    #[inline(always)]
    fn eat_next(&self, cursor: &mut Cursor<'_>, previous: NameId) -> Option<NameId> {
        let Key { next, other, .. } = *self.key(previous);
        if next != NameId::START && self.key(next).eat(cursor) {
            return Some(next);
        }
        (other != NameId::START && self.key(other).eat(cursor)).then_some(other)
    }

    #[inline(never)]
    fn read_other(&mut self, cursor: &mut Cursor<'_>, previous: NameId) -> Result<NameId> {
        let id = self.intern_key(cursor)?;
        let key = self.key_mut(previous);
        key.other = std::mem::replace(&mut key.next, id);
        Ok(id)
    }

    fn intern_key(&mut self, cursor: &mut Cursor<'_>) -> Result<NameId> {
        cursor.peek();
        let start = cursor.at();
        self.intern(cursor.key()?).map_err(|fault| fault.at(start))
    }

    /// Returns the id of a JSON string's name.
    #[inline]
    #[allow(clippy::indexing_slicing, reason = "a fingerprint is below `NEAR`")]
    pub fn intern(&mut self, text: Text<'_>) -> Result<NameId> {
        let print = fingerprint(text.raw.as_bytes());
        let near = self.near[print];
        if self.key(near).is(text.raw) {
            return Ok(near);
        }
        let id = match self.ids.get(text.raw) {
            Some(&id) => id,
            None => self.add(text)?,
        };
        self.near[print] = id;
        Ok(id)
    }

    /// Returns the id of a name that is not JSON-encoded; `previous` is the preceding name.
    #[inline]
    pub fn plain(&mut self, name: &str, previous: NameId) -> NameId {
        let guess = self.key(previous).next;
        if guess != NameId::START && self.key(guess).is_named(name) {
            return guess;
        }
        let id = self.intern_plain(name);
        self.key_mut(previous).next = id;
        id
    }

    /// Returns the id of a name that is not JSON-encoded.
    #[allow(clippy::indexing_slicing, reason = "a fingerprint is below `NEAR`")]
    pub fn intern_plain(&mut self, name: &str) -> NameId {
        let print = fingerprint(name.as_bytes());
        let near = self.near[print];
        if near != NameId::START && self.key(near).is_named(name) {
            return near;
        }
        let unquoted = self.quoting.undo(name);
        match self.by_name.get(&*unquoted) {
            Some(&id) => id,
            None => self.push(json::quoted(&unquoted), &unquoted),
        }
    }

    fn push(&mut self, quoted: String, name: &str) -> NameId {
        let id = NameId(self.keys.len() as u32);
        // The meaning of a name with a backtick depends on the message's quoting, so such a name is never predicted.
        let quoted = (!name.contains('`')).then(|| quoted + ":");
        self.keys
            .push(Key::new(quoted, name.into(), self.known.find(name)));
        self.by_name.insert(name.into(), id);
        id
    }

    fn add(&mut self, text: Text<'_>) -> Result<NameId> {
        let decoded = text.decode()?;
        let name = self.quoting.undo(&decoded);
        let is_plain = !decoded.contains('`');
        self.has_unquoted |= !is_plain && name != decoded;
        let id = match self.by_name.get(&*name) {
            Some(&id) => id,
            None if is_plain => self.push(format!("\"{}\"", text.raw), &name),
            None => self.push(json::quoted(&name), &name),
        };
        if is_plain {
            self.ids.insert(text.raw.into(), id);
        }
        Ok(id)
    }
}

/// Member names of the structs that messages are read into, in message order: an interner for each struct.
#[derive(Default)]
pub(crate) struct MemberNames(Vec<(&'static [&'static str], Interner)>);

impl MemberNames {
    /// Returns the index of the struct with these members. It compares the addresses of the lists, which is faster than
    /// to compare the names.
    #[inline]
    pub fn index(&mut self, members: &'static [&'static str]) -> usize {
        match self
            .0
            .iter()
            .position(|(known, _)| std::ptr::eq(*known, members))
        {
            Some(index) => index,
            None => self.add(members),
        }
    }

    #[cold]
    fn add(&mut self, members: &'static [&'static str]) -> usize {
        self.0
            .push((members, Interner::of(KnownNames::Members(members))));
        self.0.len() - 1
    }

    /// Returns the names of the struct with this index.
    #[inline]
    #[allow(clippy::indexing_slicing, reason = "`index` returned the index")]
    pub fn get(&mut self, index: usize) -> &mut Interner {
        &mut self.0[index].1
    }

    /// Forgets the names of each struct that has met too many names.
    pub fn trim(&mut self) {
        for (_, names) in &mut self.0 {
            names.trim();
        }
    }
}
