//! Damage and rare forms: changes of a message's structure, of its bytes, and of the whole value.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

use crate::json::{Json, Spacing, escaped, null, quoted, raw};
use crate::tables::{NAMES, pick};

/// One change of a message.
#[derive(Clone, Debug)]
pub enum Mutation {
    /// Change of an object or array of the message. It hits the outermost one most often.
    Tree {
        place: u16,
        member: u16,
        change: TreeChange,
    },
    /// Change of one of the envelope's arrays: rows of an image, columns, names.
    Rows {
        place: u16,
        member: u16,
        change: TreeChange,
    },
    /// Change of the message's text.
    Text { place: u16, change: TextChange },
    /// Change of the Kafka record's value.
    Value(ValueChange),
}

#[derive(Clone, Copy, Debug)]
pub enum TreeChange {
    Swap,
    Reverse,
    Rotate,
    Remove,
    Empty,
    /// The member again, with the same or another value.
    Repeat {
        at_the_end: bool,
        value: Option<u8>,
    },
    Replace(u8),
    /// Null in place of the value.
    Null,
    /// Another member or element.
    Add(u8, u8),
    /// Another name that the batch knows.
    Rename(u8),
    /// The name, or the text of its value, in another case.
    Case {
        value: bool,
    },
    /// The name with an escape that does not change it.
    Respell,
    /// Another number, or a text with an addition, in place of a value of the same kind.
    Vary(u8),
}

#[derive(Clone, Copy, Debug)]
pub enum TextChange {
    /// Deletion of bytes anywhere.
    Delete {
        anywhere: bool,
        count: u8,
    },
    Replace {
        anywhere: bool,
        with: u8,
    },
    Insert {
        anywhere: bool,
        with: u8,
    },
    Twice {
        anywhere: bool,
    },
    /// A missing, additional or different comma, colon or bracket.
    Punctuate(u8),
    /// A replacement for a member's name, with its colon or without.
    Key {
        colon: bool,
        with: u8,
    },
    Truncate,
    Append(u8),
    Prepend(u8),
    Respace(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueChange {
    Null,
    Empty,
    /// The message and the preceding one in the same value, joined in one of these ways, see [`join`].
    Joined(u8),
    /// The wrapper in which TiCDC stores messages too large for Kafka.
    Stored,
    Snappy,
    Lz4,
    /// White space after the message, long enough that the next message is in another chunk.
    Padded,
}

pub fn mutation() -> impl Strategy<Value = Mutation> {
    let text =
        (any::<u16>(), text_change()).prop_map(|(place, change)| Mutation::Text { place, change });
    prop_oneof![6 => of_tree(), 4 => text, 1 => value_change().prop_map(Mutation::Value)]
}

/// Draws a mutation that may be a producer's habit.
pub fn of_tree() -> impl Strategy<Value = Mutation> {
    let rows = prop_oneof![
        2 => any::<u8>().prop_map(|value| TreeChange::Repeat { at_the_end: false, value: Some(value) }),
        2 => Just(TreeChange::Remove),
        1 => Just(TreeChange::Empty),
        1 => Just(TreeChange::Null),
        1 => Just(TreeChange::Rotate),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(name, value)| TreeChange::Add(name, value)),
    ];
    let number = any::<u16>;
    prop_oneof![
        4 => (number(), number(), tree_change()).prop_map(|(place, member, change)| Mutation::Tree { place, member, change }),
        1 => (number(), number(), rows).prop_map(|(place, member, change)| Mutation::Rows { place, member, change }),
    ]
}

/// Draws a mutation that sets a member of the envelope to null. Earlier messages have another value.
pub fn null_of_envelope() -> impl Strategy<Value = Mutation> {
    any::<u16>().prop_map(|member| Mutation::Tree {
        place: 0,
        member,
        change: TreeChange::Null,
    })
}

/// Returns a mutation that rotates the members of an object or array.
pub fn turned(draw: u16) -> Mutation {
    Mutation::Tree {
        place: 0x8000 | draw,
        member: draw / 7,
        change: TreeChange::Rotate,
    }
}

fn tree_change() -> impl Strategy<Value = TreeChange> {
    let number = any::<u8>;
    let repeat = (any::<bool>(), prop::option::of(number()))
        .prop_map(|(at_the_end, value)| TreeChange::Repeat { at_the_end, value });
    prop_oneof![
        1 => Just(TreeChange::Swap),
        1 => Just(TreeChange::Reverse),
        1 => Just(TreeChange::Rotate),
        3 => Just(TreeChange::Remove),
        1 => Just(TreeChange::Empty),
        4 => repeat,
        4 => number().prop_map(TreeChange::Replace),
        3 => Just(TreeChange::Null),
        2 => (number(), number()).prop_map(|(name, value)| TreeChange::Add(name, value)),
        1 => number().prop_map(TreeChange::Rename),
        2 => any::<bool>().prop_map(|value| TreeChange::Case { value }),
        1 => Just(TreeChange::Respell),
        3 => number().prop_map(TreeChange::Vary),
    ]
}

fn text_change() -> impl Strategy<Value = TextChange> {
    let number = any::<u8>;
    let anywhere = any::<bool>;
    prop_oneof![
        3 => (anywhere(), 1..=3u8).prop_map(|(anywhere, count)| TextChange::Delete { anywhere, count }),
        4 => (anywhere(), number()).prop_map(|(anywhere, with)| TextChange::Replace { anywhere, with }),
        4 => (anywhere(), number()).prop_map(|(anywhere, with)| TextChange::Insert { anywhere, with }),
        1 => anywhere().prop_map(|anywhere| TextChange::Twice { anywhere }),
        4 => number().prop_map(TextChange::Punctuate),
        3 => (anywhere(), number()).prop_map(|(colon, with)| TextChange::Key { colon, with }),
        2 => Just(TextChange::Truncate),
        2 => number().prop_map(TextChange::Append),
        1 => number().prop_map(TextChange::Prepend),
        1 => number().prop_map(TextChange::Respace),
    ]
}

fn value_change() -> impl Strategy<Value = ValueChange> {
    prop_oneof![
        2 => Just(ValueChange::Null),
        1 => Just(ValueChange::Empty),
        6 => any::<u8>().prop_map(ValueChange::Joined),
        1 => Just(ValueChange::Stored),
        1 => Just(ValueChange::Snappy),
        1 => Just(ValueChange::Lz4),
        1 => Just(ValueChange::Padded),
    ]
}

/// Replacements for any value.
const VALUES: &[&str] = &[
    "null",
    "\"\"",
    "0",
    "1",
    "-1",
    "true",
    "false",
    "{}",
    "[]",
    "[{}]",
    "[null]",
    "[{},{}]",
    "[{},]",
    "[}]",
    "{\"id\":1}",
    "[{\"id\":\"1\"}]",
    "[\"id\",\"id\"]",
    "1.5",
    "1e3",
    "-0",
    "9223372036854775807",
    "9223372036854775808",
    "1763000000000",
    "100000000000000000000",
    "\"5\"",
    "\"null\"",
    "\"INSERT\"",
    "\"update\"",
    "\"d\"",
    "\"TRUNCATE\"",
    "\"orders\"",
    "\"\\u004f\\ud83d\\ude00\\/\"",
    "\"\\ud800\"",
    "\"a\nb\"",
    "01",
    "nul",
    "",
    "\"",
    "\"sixteen bytes are\"",
    "{\"a\":{\"b\":[1,{\"c\":null}]}}",
    "\"\\u0000\"",
    "\"\\u0000int\"",
    "\"`\"",
    "\0",
];

/// Replacements for names. Producers do not write them, and a reader might reserve them.
pub const IN_PLACE_OF_NAMES: &[&str] = &[
    "\0",
    "",
    "`",
    "``",
    "\"\"",
    "\"\\u0000\"",
    "\"`\"",
    "\"``\"",
    "\"a`b\"",
    "\"\0\"",
    "\0\0",
    "\u{fffd}",
    "null",
    "0",
    "-1",
];

/// Returns a name that a statement may have, but no schema.
fn name(draw: u8) -> String {
    const ODD: &[&str] = &["\0", "a\0b", "`", "``", "a`b", "a``b", "`a`b`"];
    let draw = usize::from(draw) % (NAMES.len() + ODD.len());
    quoted(
        NAMES.get(draw).unwrap_or_else(|| &ODD[draw - NAMES.len()]),
        Default::default(),
    )
}

impl Mutation {
    pub fn change_tree(&self, message: &mut Json) {
        let (container, member, change) = match self {
            // Half of the changes hit the envelope. The others hit any object or array, including the envelope.
            Mutation::Tree {
                place: place @ 0..0x8000,
                member,
                change,
            } => (Some(envelope(message, *place)), member, change),
            Mutation::Tree {
                place,
                member,
                change,
            } => {
                let number = usize::from(*place) % message.containers().max(1);
                (message.container(number), member, change)
            }
            Mutation::Rows {
                place,
                member,
                change,
            } => {
                let mut arrays = message.arrays();
                let at = usize::from(*place) % arrays.len().max(1);
                (
                    if arrays.is_empty() {
                        None
                    } else {
                        Some(arrays.swap_remove(at))
                    },
                    member,
                    change,
                )
            }
            _ => return,
        };
        match container {
            Some(Json::Object(members)) => change.apply_to_members(members, (*member).into()),
            Some(Json::Array(items)) => change.apply_to_items(items, (*member).into()),
            _ => {}
        }
    }

    pub fn change_text(&self, text: &mut Vec<u8>) {
        if let Mutation::Text { place, change } = self {
            change.apply(text, (*place).into());
        }
    }

    pub fn value_change(&self) -> Option<ValueChange> {
        if let Mutation::Value(change) = self {
            Some(*change)
        } else {
            None
        }
    }

    /// Returns the spacing of the message, if the mutation changes it.
    pub fn spacing(&self) -> Option<Spacing> {
        match self {
            Mutation::Text {
                change: TextChange::Respace(which),
                ..
            } => Some(pick(&Spacing::ALL, *which)),
            _ => None,
        }
    }
}

/// Returns the envelope. Within a wrapper, it is the payload every second time.
fn envelope(message: &mut Json, place: u16) -> &mut Json {
    let payload = message.place_of("payload").filter(|_| place % 2 == 1);
    match (message, payload) {
        (Json::Object(members), Some(at)) => &mut members[at].1,
        (message, _) => message,
    }
}

impl TreeChange {
    fn apply_to_members(self, members: &mut Vec<(String, Json)>, at: usize) {
        if let TreeChange::Add(name, value) = self {
            members.insert(
                at % (members.len() + 1),
                (self::name(name), raw(pick(VALUES, value))),
            );
            return;
        }
        if members.is_empty() {
            return;
        }
        let at = at % members.len();
        match self {
            TreeChange::Rename(name) => members[at].0 = self::name(name),
            TreeChange::Case { value: false } => members[at].0 = other_case(&members[at].0),
            TreeChange::Case { value: true } => {
                let is_word = |json: &Json| matches!(json, Json::Raw(text) if text.starts_with('"') && text.len() > 2);
                let behind = (at..members.len())
                    .chain(0..at)
                    .find(|at| is_word(&members[*at].1));
                vary(&mut members[behind.unwrap_or(at)].1, other_case);
            }
            TreeChange::Respell => members[at].0 = respelled(&members[at].0),
            TreeChange::Replace(value) => members[at].1 = raw(pick(VALUES, value)),
            TreeChange::Null => members[at].1 = null(),
            TreeChange::Vary(how) => vary(&mut members[at].1, |text| varied(text, how)),
            TreeChange::Repeat { at_the_end, value } => {
                let (name, old) = members[at].clone();
                let again = (name, value.map_or(old, |value| raw(pick(VALUES, value))));
                members.insert(if at_the_end { members.len() } else { at + 1 }, again);
            }
            change => change.reorder(members, at),
        }
    }

    fn apply_to_items(self, items: &mut Vec<Json>, at: usize) {
        if let TreeChange::Add(_, value) = self {
            items.insert(at % (items.len() + 1), raw(pick(VALUES, value)));
            return;
        }
        if items.is_empty() {
            return;
        }
        let at = at % items.len();
        match self {
            TreeChange::Replace(value) => items[at] = raw(pick(VALUES, value)),
            TreeChange::Null => items[at] = null(),
            TreeChange::Case { .. } => vary(&mut items[at], other_case),
            TreeChange::Vary(how) => vary(&mut items[at], |text| varied(text, how)),
            TreeChange::Repeat { .. } => items.insert(at, items[at].clone()),
            change => change.reorder(items, at),
        }
    }

    /// Applies the changes that do not depend on the members.
    fn reorder<T>(self, items: &mut Vec<T>, at: usize) {
        match self {
            TreeChange::Swap => {
                let next = (at + 1) % items.len();
                items.swap(at, next);
            }
            TreeChange::Reverse => items.reverse(),
            TreeChange::Rotate => items.rotate_left(at),
            TreeChange::Remove => drop(items.remove(at)),
            TreeChange::Empty => items.clear(),
            _ => {}
        }
    }
}

/// Changes the characters of a value that is neither object nor array.
fn vary(value: &mut Json, change: impl Fn(&str) -> String) {
    if let Json::Raw(text) = value {
        *text = change(text);
    }
}

fn other_case(text: &str) -> String {
    let flip = |c: char| {
        if c.is_ascii_lowercase() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        }
    };
    text.chars().map(flip).collect()
}

/// Returns `"\u0069d"` for `"id"`.
fn respelled(name: &str) -> String {
    let mut chars = name.chars();
    match (chars.next(), chars.next()) {
        (Some(quote), Some(first)) if first != '"' && first != '\\' => {
            format!("{quote}{}{}", escaped(first), chars.as_str())
        }
        _ => name.to_owned(),
    }
}

/// Returns a similar text: slightly longer or shorter, with another digit, an escape, or a forbidden byte.
fn varied(text: &str, how: u8) -> String {
    let (start, end) = text.split_at(
        text.len()
            .saturating_sub(1)
            .min(text.char_indices().last().map_or(0, |(at, _)| at)),
    );
    let last = usize::from(how / 16);
    match how % 16 {
        0 => format!("{start}0{end}"),
        1 => format!("{start}\\n{end}"),
        2 => format!("{start}\n{end}"),
        3 => format!("{start}中{end}"),
        4 => format!("{start}\\u0031{end}"),
        5 => format!("{start}{}{end}", "x".repeat(last)),
        6 => format!("{start}{}{end}", "9".repeat(last)),
        7 => format!("-{text}"),
        8 => format!("{text}.5"),
        9 => format!("{text}e2"),
        10 => format!("0{text}"),
        11 => format!("\"{}\"", text.trim_matches('"')),
        12 => text.trim_matches('"').to_owned(),
        13 => format!("{text} "),
        14 => start.to_owned(),
        _ => format!("{start}\\\"{end}"),
    }
}

/// Bytes that have a meaning in JSON, or are forbidden in it.
const BYTES: &[u8] =
    b"\"\\{}[],: \n\t\r0123456789-+.eEntfu\0\x01\x1f\x7f\x80\xbf\xc0\xc3\xe4\xed\xf0\xff/xa";

/// Texts before or after a message.
const AROUND: &[&str] = &[
    " ", "\n", "\r\n", "\t  \n", "}", "]", ",", "x", "{}", "null", "\0", "\u{feff}", "\"", "//",
    "[", "[]", "{", "\u{a0}", "0", ",{}", "\n{}", "\n[",
];

impl TextChange {
    fn apply(self, text: &mut Vec<u8>, place: usize) {
        let at = self.place(text, place);
        match self {
            TextChange::Delete { count, .. } => {
                drop(text.drain(at..(at + usize::from(count)).min(text.len())))
            }
            TextChange::Replace { with, .. } if at < text.len() => text[at] = pick(BYTES, with),
            TextChange::Insert { with, .. } => text.insert(at, pick(BYTES, with)),
            TextChange::Twice { .. } if at < text.len() => text.insert(at, text[at]),
            TextChange::Punctuate(how) if at < text.len() => punctuate(text, at, how),
            TextChange::Key { colon, with } => {
                replace_key(text, place, colon, pick(IN_PLACE_OF_NAMES, with))
            }
            TextChange::Truncate => text.truncate(at),
            TextChange::Append(what) => text.extend(pick(AROUND, what).bytes()),
            TextChange::Prepend(what) => drop(text.splice(0..0, pick(AROUND, what).bytes())),
            _ => {}
        }
    }

    /// Returns the index of a byte of the text: any byte, or a structural one.
    fn place(self, text: &[u8], place: usize) -> usize {
        use TextChange::{Delete, Insert, Punctuate, Replace, Twice};
        let wanted: &[u8] = match self {
            Punctuate(_) => b"{}[],:",
            Delete {
                anywhere: false, ..
            }
            | Replace {
                anywhere: false, ..
            }
            | Insert {
                anywhere: false, ..
            } => b"{}[],:\"\\",
            Twice { anywhere: false } => b"{}[],:\"\\",
            _ => return place % text.len().max(1),
        };
        let marks: Vec<usize> = (0..text.len())
            .filter(|at| wanted.contains(&text[*at]))
            .collect();
        if marks.is_empty() {
            0
        } else {
            marks[place % marks.len()]
        }
    }
}

/// Replaces the name of a member, with its colon or without.
pub fn replace_key(text: &mut Vec<u8>, place: usize, colon: bool, with: &str) {
    let colons: Vec<usize> = (1..text.len())
        .filter(|at| text[*at] == b':' && text[at - 1] == b'"')
        .collect();
    let Some(end) = colons.get(place % colons.len().max(1)).copied() else {
        return;
    };
    let start = text[..end - 1]
        .iter()
        .rposition(|byte| *byte == b'"')
        .unwrap_or(0);
    text.splice(start..end + usize::from(colon), with.bytes());
}

/// Changes the punctuation mark at this place.
fn punctuate(text: &mut Vec<u8>, at: usize, how: u8) {
    match how % 8 {
        0 | 1 => text.insert(at, b','),
        2 => text.insert(at + 1, b','),
        3 | 4 => drop(text.remove(at)),
        5 => text.insert(at, text[at]),
        6 => text[at] = b' ',
        _ => {
            let (marks, others) = (b"{}[],:", b"[]{}:,");
            let which = marks.iter().position(|mark| *mark == text[at]);
            text[at] = which.map_or(b' ', |which| others[which]);
        }
    }
}

/// Joins two messages in the same value.
pub fn join(first: &[u8], second: &[u8], how: u8) -> Vec<u8> {
    let parts: [&[u8]; 5] = match how % 12 {
        0..=2 => [b"", first, b"\n", second, b""],
        3 => [b"", first, b"\r\n", second, b"\n"],
        4..=6 => [b"[", first, b",", second, b"]"],
        7 => [b"[", first, b" ,\n", second, b" ]\n"],
        8 => [b"", first, b"", second, b""],
        9 => [b"", first, b",", second, b""],
        10 => [b"[", first, b",", second, b",]"],
        _ => [b"", first, b"\n[", second, b"]"],
    };
    parts.concat()
}

impl ValueChange {
    pub fn apply(self, value: Vec<u8>, before: Option<&[u8]>) -> Option<Vec<u8>> {
        Some(match self {
            ValueChange::Null => return None,
            ValueChange::Empty => Vec::new(),
            ValueChange::Joined(how) => join(before.unwrap_or(&value), &value, how),
            ValueChange::Stored => format!(
                "{{\"key\":null,\"value\":\"{}\"}}",
                BASE64_STANDARD.encode(value)
            )
            .into_bytes(),
            ValueChange::Snappy => snap::raw::Encoder::new()
                .compress_vec(&value)
                .expect("a message is small"),
            ValueChange::Lz4 => lz4(&value),
            ValueChange::Padded => [&value[..], &b" ".repeat(130_000)].concat(),
        })
    }
}

fn lz4(value: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    std::io::Write::write_all(&mut encoder, value).expect("into memory");
    encoder.finish().expect("into memory")
}
