//! Members that the JSON envelopes of several dialects share: parts of a message that [`Events`] keeps.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Deserializer};

use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Events, Source};
use crate::interner::MemberNames;
use crate::wire::json::Cursor;
use crate::wire::json_de::{self, Context, CowStr, Part, RawNested, deserialize_part};

/// Reads the record at the cursor.
#[inline]
pub(super) fn read_record<'a, T: Deserialize<'a>>(
    cursor: &mut Cursor<'a>,
    events: &mut Events<'a>,
) -> Result<T> {
    events.begin_record();
    json_de::read(cursor, events)
}

/// Row images as a range of [`Events::images`]: an array of objects, one object, or null, which is an empty range.
#[derive(Clone, Default)]
pub(super) struct ImageList(pub Range<usize>);

/// One row image: an object, or null.
#[derive(Clone, Default)]
pub(super) struct RowImage(pub Option<Cells>);

/// One row image: an object, or null. An object without members counts as null.
#[derive(Clone, Default)]
pub(super) struct FilledImage(pub Option<Cells>);

/// Declared types: an object of names and types, or null. Holds the index of its block in `DeclaredTypes`.
#[derive(Default)]
pub(super) struct Types(pub Option<usize>);

/// An object or null as JSON text. The same columns usually have the same text.
#[derive(Default)]
pub(super) struct Repeated<'a>(pub Option<&'a str>);

/// An array of names as a range of [`Events::names`], or null.
#[derive(Default)]
pub(super) struct Names(pub Option<Range<usize>>);

const IMAGES: &str = "$images";
const ROW_IMAGE: &str = "$row image";
const FILLED_IMAGE: &str = "$filled image";
const TYPES: &str = "$types";
const REPEATED: &str = "$repeated";
const NAMES: &str = "$names";

deserialize_part!(ImageList, IMAGES, |part| ImageList(
    part.range().unwrap_or_default()
));
deserialize_part!(RowImage, ROW_IMAGE, |part| RowImage(part.range()));
deserialize_part!(FilledImage, FILLED_IMAGE, |part| FilledImage(part.range()));
deserialize_part!(Types, TYPES, |part| Types(part.index()));
deserialize_part!(Names, NAMES, |part| Names(part.range()));

impl<'a> Context<'a> for Events<'a> {
    #[inline(always)]
    fn members(&mut self) -> &mut MemberNames {
        &mut self.members
    }

    #[inline(always)]
    fn read_part(&mut self, token: &'static str, cursor: &mut Cursor<'a>) -> Result<Part<'a>> {
        Ok(match token {
            IMAGES => Part::Range(self.read_images(cursor)?),
            ROW_IMAGE => row_image(cursor, self)?.map_or(Part::None, Part::Range),
            FILLED_IMAGE => filled_image(cursor, self)?.map_or(Part::None, Part::Range),
            TYPES => self.read_types(cursor)?.map_or(Part::None, Part::Index),
            REPEATED => self.read_repeated(cursor)?.map_or(Part::None, Part::Raw),
            NAMES => self.read_names(cursor)?.map_or(Part::None, Part::Range),
            _ => {
                return Err(Fault::new(
                    Kind::Envelope,
                    format!("no part of a message is called {token}"),
                ));
            }
        })
    }
}

/// Reads a row image: an object or null.
#[inline]
pub(super) fn row_image<'a>(
    cursor: &mut Cursor<'a>,
    events: &mut Events<'a>,
) -> Result<Option<Cells>> {
    match cursor.peek() {
        Some(b'n') => cursor.null().map(|()| None),
        Some(b'{') => events.read_cells(cursor).map(Some),
        _ => Err(cursor.wrong_type("an object or null")),
    }
}

/// Reads a row image. An object without members counts as null. The cells cannot tell, because unneeded ones are
/// skipped.
fn filled_image<'a>(cursor: &mut Cursor<'a>, events: &mut Events<'a>) -> Result<Option<Cells>> {
    cursor.peek();
    let start = cursor.at();
    let cells = row_image(cursor, events)?;
    let members = cursor
        .since(start)
        .trim_start_matches('{')
        .trim_end_matches('}');
    if members.trim_ascii().is_empty() {
        return Ok(None);
    }
    Ok(cells)
}

impl<'de: 'a, 'a> Deserialize<'de> for Repeated<'a> {
    #[inline(always)]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Part::deserialize(REPEATED, deserializer).map(|part| Repeated(part.raw()))
    }
}

/// Returns the value of an object's first matching member. `is_it` gets the name and the first byte of the value.
pub(super) fn member<'a>(
    object: &Cursor<'a>,
    mut is_it: impl FnMut(&str, Option<u8>) -> bool,
) -> Option<Cursor<'a>> {
    let mut cursor = object.clone();
    let mut members = cursor.object().ok()?;
    while let Some(name) = cursor.next_key(&mut members).ok()? {
        if is_it(&name.unescaped(), cursor.peek()) {
            return Some(cursor);
        }
        cursor.skip().ok()?;
    }
    None
}

/// Returns whether an object has a matching member.
pub(super) fn has_member(object: &Cursor<'_>, is_it: impl FnMut(&str, Option<u8>) -> bool) -> bool {
    member(object, is_it).is_some()
}

/// Returns a member's text.
#[inline]
pub(super) fn text<'a>(member: Option<CowStr<'a>>) -> Option<Cow<'a, str>> {
    member.map(|text| text.0)
}

/// Returns a member's text, if it is not empty.
pub(super) fn filled_text<'a>(member: Option<CowStr<'a>>) -> Option<Cow<'a, str>> {
    text(member).filter(|text| !text.is_empty())
}

/// Finds a file and an offset in the text of a place.
pub(super) type FindPlace = fn(&str) -> Option<(&str, Option<i64>)>;

/// Sets the place in a log that a member's text names. The text may have escapes.
pub(super) fn set_place<'a>(source: &mut Source<'a>, member: Option<CowStr<'a>>, find: FindPlace) {
    let place = member.and_then(|text| match text.0 {
        Cow::Borrowed(text) => find(text).map(|(file, offset)| (Cow::Borrowed(file), offset)),
        Cow::Owned(text) => find(&text).map(|(file, offset)| (Cow::Owned(file.to_owned()), offset)),
    });
    if let Some((file, offset)) = place {
        (source.file, source.position) = (Some(file), offset);
    }
}

/// Returns a member's JSON text.
pub(super) fn nested<'a>(member: Option<RawNested<'a>>) -> Option<Cow<'a, str>> {
    member.map(|nested| Cow::Borrowed(nested.0))
}
