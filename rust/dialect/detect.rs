//! Detection of a message's dialect, by JSON members that only one dialect has, or by the first bytes.
//!
//! The members are read in message order, up to the first mark that is not merely a word such as `INSERT`. Detection
//! never considers members of row images, because a column may have any name. A row without an envelope may have any
//! name too, so the members that transformations add to such rows come first.

use std::borrow::Cow;
use std::sync::LazyLock;

use hashbrown::HashMap;

use super::debezium::UNWRAPPED;
use super::{DIALECTS, Dialect, begins_like_json, without_schema_id};
use crate::error::{Fault, Kind};
use crate::event::Op;
use crate::wire::json::{BYTE_ORDER_MARK, Cursor, Text};
use crate::wire::utf8::{self, is_utf16};

/// A member that identifies a dialect.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// A member whose name no other dialect has.
    Name(&'static str),
    /// A member whose value begins with this byte: `{`, `[`, a quote, a digit, or the first letter of a literal.
    Begins(&'static str, u8),
    /// A member whose value is one of the dialect's words for operations.
    Words(&'static str, Words),
    /// A member whose value is such a word and that directly follows another member. It outranks the other marks of
    /// that member.
    WordsAfter(&'static str, &'static str, Words),
    /// A member whose value is an object that begins with this member. It outranks the other marks of that member.
    First(&'static str, &'static str),
    /// A member whose value is an object with all of these members. It outranks the other marks of that member.
    Holds(&'static str, &'static [&'static str]),
    /// A member that a transformation adds to rows without an envelope. Its name begins with `__`. It outranks the
    /// marks of all members, wherever it is, because other members may be columns.
    Added(IsAdded),
}

/// Words of a dialect, and the operations that they name.
type Words = &'static [(&'static str, Op)];

impl Mark {
    fn name(&self) -> Option<&'static str> {
        match self {
            Mark::Name(name)
            | Mark::Begins(name, _)
            | Mark::Words(name, _)
            | Mark::WordsAfter(_, name, _) => Some(name),
            Mark::First(name, _) | Mark::Holds(name, _) => Some(name),
            Mark::Added(_) => None,
        }
    }

    /// Returns the words of the mark.
    fn words(&self) -> impl Iterator<Item = &'static str> {
        let words: Words = match self {
            Mark::Words(_, words) | Mark::WordsAfter(_, _, words) => words,
            _ => &[],
        };
        words.iter().map(|(word, _)| *word)
    }

    fn has_word(&self, word: &str) -> bool {
        self.words().any(|own| own == word)
    }

    fn outranks(&self) -> bool {
        matches!(
            self,
            Mark::WordsAfter(..) | Mark::First(..) | Mark::Holds(..)
        )
    }

    /// Returns whether the mark matches the value at the cursor. `previous` is the name of the member before the
    /// value's own.
    fn matches(&self, cursor: &mut Cursor<'_>, previous: &str) -> bool {
        let first = cursor.peek();
        match self {
            Mark::Name(_) => true,
            Mark::Begins(_, begin) => first == Some(*begin),
            Mark::Words(..) => self.has_word_at(cursor),
            Mark::WordsAfter(after, ..) => previous == *after && self.has_word_at(cursor),
            Mark::First(_, inner) => names(cursor.clone())
                .next()
                .is_some_and(|name| name == *inner),
            Mark::Holds(_, inner) => {
                let found: Vec<_> = names(cursor.clone()).collect();
                inner
                    .iter()
                    .all(|inner| found.iter().any(|name| name == inner))
            }
            Mark::Added(_) => false,
        }
    }

    fn has_word_at(&self, cursor: &Cursor<'_>) -> bool {
        let text = cursor.clone().text();
        text.is_ok_and(|text| self.has_word(&text.unescaped()))
    }
}

/// Returns the names of the members of the object at the cursor.
fn names(mut cursor: Cursor<'_>) -> impl Iterator<Item = Cow<'_, str>> {
    let mut members = cursor.object().ok();
    let mut is_first = true;
    std::iter::from_fn(move || {
        if !std::mem::take(&mut is_first) {
            cursor.skip_unchecked().ok()?;
        }
        cursor
            .next_key(members.as_mut()?)
            .ok()?
            .map(Text::unescaped)
    })
}

/// Marks of all dialects, by the member's name.
static MARKS: LazyLock<HashMap<&'static str, Vec<(Mark, &'static Dialect)>>> =
    LazyLock::new(|| {
        let mut marks: HashMap<_, Vec<_>> = HashMap::new();
        for dialect in DIALECTS {
            for mark in dialect.marks.members() {
                mark.name()
                    .into_iter()
                    .for_each(|name| marks.entry(name).or_default().push((*mark, dialect)));
            }
        }
        marks
            .values_mut()
            .for_each(|marks| marks.sort_by_key(|(mark, _)| !mark.outranks()));
        marks
    });

/// Returns whether transformations add a member of this name to rows.
type IsAdded = fn(&str) -> bool;

/// Marks of members that transformations add to rows.
static ADDED: LazyLock<Vec<(IsAdded, &'static Dialect)>> = LazyLock::new(|| {
    let marks = DIALECTS.iter().flat_map(|dialect| {
        dialect
            .marks
            .members()
            .iter()
            .map(move |mark| (mark, dialect))
    });
    marks
        .filter_map(|(mark, dialect)| {
            if let Mark::Added(is_it) = mark {
                Some((*is_it, dialect))
            } else {
                None
            }
        })
        .collect()
});

/// Returns whether members of this name identify another dialect.
pub(crate) fn is_mark_of_other(name: &str, dialect: &Dialect) -> bool {
    MARKS
        .get(name)
        .is_some_and(|marks| marks.iter().any(|(_, of)| of.name != dialect.name))
}

/// Returns the words of a member, including `word`, that lead to the same dialect as `word`. `None` if no mark of the
/// member has words.
pub(crate) fn words_like(name: &str, word: &str) -> Option<Box<[Box<str>]>> {
    let marks = MARKS.get(name)?;
    let mut others = marks.iter().flat_map(|(mark, _)| mark.words()).peekable();
    others.peek()?;
    let alike = others.filter(|other| {
        let mut marks = marks.iter();
        *other != word && marks.all(|(mark, _)| mark.has_word(other) == mark.has_word(word))
    });
    let this = std::iter::once(word.into());
    Some(this.chain(alike.map(Into::into)).collect())
}

/// Detects the dialect of a message.
pub(crate) fn detect(message: &[u8]) -> Option<&'static Dialect> {
    known_json(without_schema_id(message)).or_else(|| by_bytes(message))
}

/// Detects by the beginning of the bytes.
pub(super) fn by_bytes(message: &[u8]) -> Option<&'static Dialect> {
    let mut dialects = DIALECTS.iter();
    dialects.find(|dialect| dialect.marks.matches(message))
}

/// Returns whether bytes are JSON of a known dialect.
pub(crate) fn is_known_json(message: &[u8]) -> bool {
    known_json(message).is_some()
}

/// Returns the dialect of JSON, by its members.
fn known_json(message: &[u8]) -> Option<&'static Dialect> {
    begins_like_json(message)
        .then(|| by_members(message))
        .flatten()
}

/// Detects by the members of the first object.
pub(super) fn by_members(json: &[u8]) -> Option<&'static Dialect> {
    let text = simdutf8::basic::from_utf8(json).ok()?;
    by_added(text).or_else(|| by_marks(first_object(text)?))
}

/// Returns the first object of a text.
fn first_object(text: &str) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::new(text, true);
    cursor.eat(BYTE_ORDER_MARK);
    if cursor.peek() == Some(b'[') {
        let mut elements = cursor.array().ok()?;
        cursor.next_element(&mut elements).ok()?;
    }
    Some(cursor)
}

/// Detects by a member that a transformation added to rows. Most messages lack even a byte of such a member.
fn by_added(text: &str) -> Option<&'static Dialect> {
    let bytes = text.as_bytes();
    if memchr::memmem::find(bytes, b"\"__").is_none()
        && memchr::memmem::find(bytes, b"\\u").is_none()
    {
        return None;
    }
    names(first_object(text)?).find_map(|name| {
        ADDED
            .iter()
            .find(|(is_it, _)| is_it(&name))
            .map(|(_, dialect)| *dialect)
    })
}

fn by_marks(mut cursor: Cursor<'_>) -> Option<&'static Dialect> {
    let mut members = cursor.object().ok()?;
    let mut previous = Cow::Borrowed("");
    // A word is weak evidence: a later member may be unique to another dialect.
    let mut by_word = None;
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        let name = name.unescaped();
        let marks = MARKS.get(&*name).map_or(&[][..], Vec::as_slice);
        match marks
            .iter()
            .find(|(mark, _)| mark.matches(&mut cursor, &previous))
        {
            Some((Mark::Words(..), dialect)) => by_word = by_word.or(Some(*dialect)),
            Some((_, dialect)) => return Some(dialect),
            None => {}
        }
        // The following bytes may not be JSON.
        if cursor.skip_unchecked().is_err() {
            break;
        }
        previous = name;
    }
    by_word
}

/// Returns the fault of a message whose dialect was not detected.
pub(crate) fn undetected(message: &[u8]) -> Fault {
    if message.iter().all(u8::is_ascii_whitespace) {
        return Fault::new(Kind::Syntax, "the message is empty").at(0);
    }
    if is_utf16(message) {
        return Fault::new(Kind::Encoding, "the message is not UTF-8").at(0);
    }
    if begins_like_json(message) {
        // Invalid UTF-8 or JSON has its own error.
        let text = utf8::text(message, "the message is not UTF-8");
        let checked = text.and_then(|text| {
            let mut cursor = Cursor::new(text, true);
            cursor.eat(BYTE_ORDER_MARK);
            cursor.skip()
        });
        if let Err(fault) = checked {
            return fault;
        }
    }
    let tried: Vec<_> = DIALECTS.iter().map(|dialect| dialect.name).collect();
    let hint = if first_object(utf8::utf8(message).unwrap_or_default())
        .is_some_and(|mut object| object.peek() == Some(b'{'))
    {
        UNWRAPPED
    } else {
        ""
    };
    Fault::new(
        Kind::Envelope,
        format!("dialect not recognised; tried {}{hint}", tried.join(", ")),
    )
    .at(0)
}
