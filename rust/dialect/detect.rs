//! Detection of a message's dialect, by JSON members that are unique to one dialect, or by the first bytes.
//!
//! The members are read in message order, up to the first mark that is more than a word such as `INSERT`. Members of row images
//! are never considered: a column may have any name. So may one of a row without an envelope, which is why the members that are
//! added to such rows come first.

use std::borrow::Cow;
use std::sync::LazyLock;

use hashbrown::HashMap;

use super::debezium::UNWRAPPED;
use super::{DIALECTS, Dialect, begins_like_json, without_schema_id};
use crate::error::{Fault, Kind};
use crate::wire::json::{BYTE_ORDER_MARK, Cursor, Text};
use crate::wire::utf8::{self, is_utf16};

/// A member that identifies a dialect.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// No other dialect has a member of this name.
    Name(&'static str),
    /// A member whose value begins with this byte: `{`, `[`, a quote, a digit, or the first letter of a literal.
    Begins(&'static str, u8),
    /// A member whose value is one of these texts.
    Texts(&'static str, &'static [&'static str]),
    /// The same, for a member right behind another one. It outranks the other marks of that member.
    TextsBehind(&'static str, &'static str, &'static [&'static str]),
    /// A member whose value is an object that begins with this member. It outranks the other marks of that member.
    First(&'static str, &'static str),
    /// A member whose value is an object with all of these members. It outranks the other marks of that member.
    Holds(&'static str, &'static [&'static str]),
    /// A member that is added to rows without an envelope, by its name, which begins with `__`. It outranks the marks of all
    /// members, wherever it is: the others may be columns.
    Added(IsAdded),
}

impl Mark {
    fn name(&self) -> Option<&'static str> {
        match self {
            Mark::Name(name)
            | Mark::Begins(name, _)
            | Mark::Texts(name, _)
            | Mark::TextsBehind(_, name, _) => Some(name),
            Mark::First(name, _) | Mark::Holds(name, _) => Some(name),
            Mark::Added(_) => None,
        }
    }

    /// The texts that make the mark, which have their quotes.
    fn texts(&self) -> &'static [&'static str] {
        match self {
            Mark::Texts(_, texts) | Mark::TextsBehind(_, _, texts) => texts,
            _ => &[],
        }
    }

    fn outranks(&self) -> bool {
        matches!(
            self,
            Mark::TextsBehind(..) | Mark::First(..) | Mark::Holds(..)
        )
    }

    /// Whether the mark matches the value at the cursor, whose member is behind `previous`.
    fn matches(&self, cursor: &mut Cursor<'_>, previous: &str) -> bool {
        let first = cursor.peek();
        match self {
            Mark::Name(_) => true,
            Mark::Begins(_, begin) => first == Some(*begin),
            Mark::Texts(_, texts) => is_one_of(texts, cursor),
            Mark::TextsBehind(behind, _, texts) => previous == *behind && is_one_of(texts, cursor),
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
}

/// Whether the text at the cursor is one of these, which have their quotes.
fn is_one_of(texts: &[&str], cursor: &mut Cursor<'_>) -> bool {
    if texts.iter().any(|text| cursor.is_at(text)) {
        return true;
    }
    let Some(found) = cursor.clone().text().ok().filter(|found| found.escaped) else {
        return false;
    };
    texts
        .iter()
        .any(|text| text.trim_matches('"') == found.unescaped())
}

/// The names of the members of the object at the cursor.
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

/// Whether a member of this name is added to rows.
type IsAdded = fn(&str) -> bool;

/// The marks of members that are added to rows.
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

/// Whether members of this name identify another dialect.
pub(crate) fn is_mark_of_other(name: &str, dialect: &Dialect) -> bool {
    MARKS
        .get(name)
        .is_some_and(|marks| marks.iter().any(|(_, of)| of.name != dialect.name))
}

/// The texts of a member, this one included, that say the same of a message's dialect as this one; `None` if no text of the member says
/// anything of it.
pub(crate) fn texts_like(name: &str, text: &str) -> Option<Box<[Box<str>]>> {
    let marks = MARKS.get(name)?;
    if marks.iter().all(|(mark, _)| mark.texts().is_empty()) {
        return None;
    }
    // Compared with their quotes, as the marks have them: they are many, and each template that is made compares them.
    let quoted = format!("\"{text}\"");
    let is_alike = |other: &&str| {
        *other != quoted
            && marks.iter().all(|(mark, _)| {
                mark.texts().contains(other) == mark.texts().contains(&quoted.as_str())
            })
    };
    let others = marks
        .iter()
        .flat_map(|(mark, _)| mark.texts())
        .filter(|other| is_alike(other))
        .map(|other| other.trim_matches('"'));
    Some(
        std::iter::once(text)
            .chain(others)
            .map(Into::into)
            .collect(),
    )
}

/// Detects the dialect of a message.
pub(crate) fn detect(message: &[u8]) -> Option<&'static Dialect> {
    known_json(without_schema_id(message)).or_else(|| {
        DIALECTS
            .iter()
            .find(|dialect| dialect.marks.matches(message))
    })
}

/// Whether bytes are JSON of a known dialect.
pub(crate) fn is_known_json(message: &[u8]) -> bool {
    known_json(message).is_some()
}

/// The dialect of JSON, by its members.
fn known_json(message: &[u8]) -> Option<&'static Dialect> {
    if !begins_like_json(message) {
        return None;
    }
    by_members(simdutf8::basic::from_utf8(message).ok()?)
}

/// Detects by the members of the first object.
fn by_members(text: &str) -> Option<&'static Dialect> {
    by_added(text).or_else(|| by_marks(first_object(text)?))
}

/// The first object of a text.
fn first_object(text: &str) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::new(text, true);
    cursor.eat(BYTE_ORDER_MARK);
    if cursor.peek() == Some(b'[') {
        let mut elements = cursor.array().ok()?;
        cursor.next_element(&mut elements).ok()?;
    }
    Some(cursor)
}

/// Detects by a member that is added to rows. Most messages have none, and no byte of one.
fn by_added(text: &str) -> Option<&'static Dialect> {
    let may_have = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    if !may_have("\"__") && !may_have("\\u") {
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
    // A word is weak: a later member may be one that only another dialect has.
    let mut by_word = None;
    while let Ok(Some(name)) = cursor.next_key(&mut members) {
        let name = name.unescaped();
        let marks = MARKS.get(&*name).map_or(&[][..], Vec::as_slice);
        match marks
            .iter()
            .find(|(mark, _)| mark.matches(&mut cursor, &previous))
        {
            Some((Mark::Texts(..), dialect)) => by_word = by_word.or(Some(*dialect)),
            Some((_, dialect)) => return Some(dialect),
            None => {}
        }
        // What follows may be no JSON.
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
        // Invalid UTF-8 or JSON has an error of its own.
        let text = utf8::text(message, "the message is not UTF-8");
        let is_json = |text| {
            let mut cursor = Cursor::new(text, true);
            cursor.eat(BYTE_ORDER_MARK);
            cursor.skip()
        };
        if let Err(fault) = text.and_then(is_json) {
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
        format!("not recognised; tried {}{hint}", tried.join(", ")),
    )
    .at(0)
}
