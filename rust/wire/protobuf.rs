//! Zero-copy reader of the protobuf wire format.
//!
//! A message is a list of fields. A field is a tag (field number and wire type), then a varint, length-delimited bytes,
//! or four or eight bytes. A table of [`KnownField`]s names the fields. The protobuf specification asks to skip unknown
//! ones. Nothing recurses: the bytes of a field are a [`Reader`], and the caller may read them as a message.

use super::utf8::{is_utf8, utf8};
use super::varint::{Invalid, varint};
use crate::error::{Fault, Kind, Result};

/// Tag of a field: its number and wire type.
pub(crate) type Tag = u32;

/// Returns the tag of an integer, boolean or enum.
pub(crate) const fn number(field: u32) -> Tag {
    field << 3 | VARINT
}

/// Returns the tag of text, bytes or a message.
pub(crate) const fn bytes(field: u32) -> Tag {
    field << 3 | LEN
}

// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LEN: u32 = 2;
const FIXED32: u32 = 5;

/// A field of a message type.
pub(crate) struct KnownField {
    pub tag: Tag,
    pub name: &'static str,
}

fn find(known: &'static [KnownField], tag: Tag) -> Option<&'static KnownField> {
    known.iter().find(|known| known.tag >> 3 == tag >> 3)
}

fn wire_type_name(tag: Tag) -> &'static str {
    match tag & 7 {
        VARINT => "a number",
        LEN => "text, bytes or a message",
        _ => "a number of four or eight bytes",
    }
}

/// A raw field.
pub(crate) struct Field<'a> {
    pub tag: Tag,
    /// The value of a varint.
    pub varint: u64,
    /// The bytes of any other wire type.
    pub bytes: Reader<'a>,
}

/// Reader of a part of a message, with offsets in the whole message.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the end.
    end: usize,
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Reader {
            rest: message,
            end: message.len(),
        }
    }

    /// Returns the current offset.
    #[inline]
    pub fn at(&self) -> usize {
        self.end.wrapping_sub(self.rest.len())
    }

    /// Returns the offset of the end.
    #[inline]
    pub fn end(&self) -> usize {
        self.end
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the unread bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Splits the unread bytes at the offset `at`.
    pub fn split(&self, at: usize) -> (&'a [u8], &'a [u8]) {
        debug_assert!((self.at()..=self.end).contains(&at));
        self.rest.split_at(at - self.at())
    }

    /// Returns the unread bytes as text.
    #[inline]
    pub fn as_text(&self) -> Result<&'a str> {
        utf8(self.rest).ok_or_else(|| self.not_utf8())
    }

    /// Returns the unread bytes, validated as UTF-8.
    #[inline]
    pub fn as_utf8(&self) -> Result<&'a [u8]> {
        if is_utf8(self.rest) {
            Ok(self.rest)
        } else {
            Err(self.not_utf8())
        }
    }

    #[cold]
    fn not_utf8(&self) -> Fault {
        let valid =
            std::str::from_utf8(self.rest).map_or_else(|error| error.valid_up_to(), str::len);
        Fault::new(Kind::Encoding, "the text is not UTF-8").at(self.at() + valid)
    }

    /// Reads a message. Calls `take` after each tag, to read the value or to [`skip`](Self::skip) it.
    #[inline]
    pub fn fields(
        mut self,
        known: &'static [KnownField],
        mut take: impl FnMut(Tag, &mut Self) -> Result<()>,
    ) -> Result<()> {
        while !self.rest.is_empty() {
            let tag = self.tag()?;
            take(tag, &mut self).map_err(|fault| match find(known, tag) {
                // Names that are Rust keywords are raw identifiers.
                Some(known) => fault.within(known.name.trim_start_matches("r#")),
                None => fault,
            })?;
        }
        Ok(())
    }

    /// Skips a value. Fails if a known field has an unexpected wire type.
    #[inline]
    pub fn skip(&mut self, tag: Tag, known: &'static [KnownField]) -> Result<()> {
        // Most tables have no gaps.
        let is_expected = known
            .get((tag >> 3).wrapping_sub(1) as usize)
            .is_some_and(|known| known.tag == tag);
        match tag & 7 {
            VARINT if is_expected => self.varint().map(drop),
            LEN if is_expected => self.bytes().map(drop),
            _ => self.skip_checked(tag, known),
        }
    }

    fn skip_checked(&mut self, tag: Tag, known: &'static [KnownField]) -> Result<()> {
        if let Some(known) = find(known, tag).filter(|known| known.tag != tag) {
            let what = format!(
                "expected {}, found {}",
                wire_type_name(known.tag),
                wire_type_name(tag)
            );
            return Err(Fault::new(Kind::Envelope, what).at(self.at()));
        }
        self.value(tag).map(drop)
    }

    /// Returns whether the first field may be a known one. It rejects most other bytes without a fault.
    pub fn begins_with(&self, known: &'static [KnownField]) -> bool {
        self.rest.first().is_some_and(|byte| {
            *byte >= 0x80 || known.iter().any(|known| known.tag == u32::from(*byte))
        })
    }

    /// Returns whether the bytes are a message of known fields only, with the expected wire types, and each field
    /// passes the `test`.
    pub fn is_message(
        mut self,
        known: &'static [KnownField],
        mut test: impl FnMut(&Field<'a>) -> bool,
    ) -> bool {
        loop {
            match self.next() {
                Ok(Some(field))
                    if known.iter().any(|known| known.tag == field.tag) && test(&field) => {}
                Ok(end) => return end.is_none(),
                Err(_) => return false,
            }
        }
    }

    /// Reads the next field of any wire type; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Field<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.tag()?;
        self.value(tag).map(Some)
    }

    fn value(&mut self, tag: Tag) -> Result<Field<'a>> {
        let mut field = Field {
            tag,
            varint: 0,
            bytes: Reader {
                rest: &[],
                end: self.at(),
            },
        };
        match tag & 7 {
            VARINT => field.varint = self.varint()?,
            LEN => field.bytes = self.bytes()?,
            FIXED64 => field.bytes = self.take(8)?,
            FIXED32 => field.bytes = self.take(4)?,
            3 | 4 => return Err(syntax("unexpected group").at(self.at())),
            _ => return Err(syntax("invalid wire type").at(self.at())),
        }
        Ok(field)
    }

    /// Reads the next field if it has this tag. The tag must be for bytes, with a field number below 16.
    #[inline(always)]
    pub fn repeated(&mut self, tag: Tag) -> Result<Option<Reader<'a>>> {
        match self.rest.split_first() {
            Some((&byte, rest)) if u32::from(byte) == tag => {
                self.rest = rest;
                self.bytes().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Skips to `rest`, the end of a field that was inspected.
    #[inline(always)]
    pub fn advance_to(&mut self, rest: &'a [u8]) {
        debug_assert!(self.rest.ends_with(rest));
        self.rest = rest;
    }

    /// Skips a tag if it comes next. Its field number must be below 16.
    #[inline(always)]
    pub fn eat(&mut self, tag: Tag) -> bool {
        match self.rest.split_first() {
            Some((&byte, rest)) if u32::from(byte) == tag => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn tag(&mut self) -> Result<Tag> {
        match self.rest.split_first() {
            Some((&byte @ 8..0x80, rest)) => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_tag(),
        }
    }

    #[inline(never)]
    fn long_tag(&mut self) -> Result<Tag> {
        let at = self.at();
        let tag = self.varint()?;
        u32::try_from(tag)
            .ok()
            .filter(|tag| *tag >= 8)
            .ok_or_else(|| syntax("invalid field number").at(at))
    }

    /// Reads a boolean.
    #[inline(always)]
    pub fn flag(&mut self) -> Result<bool> {
        self.varint().map(|number| number != 0)
    }

    /// Reads text.
    #[inline(always)]
    pub fn text(&mut self) -> Result<&'a str> {
        self.bytes()?.as_text()
    }

    /// Reads bytes, or a message.
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<Reader<'a>> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    #[inline(always)]
    fn take(&mut self, length: usize) -> Result<Reader<'a>> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.too_long(length));
        };
        self.rest = rest;
        Ok(Reader {
            rest: taken,
            end: self.at(),
        })
    }

    #[cold]
    fn too_long(&self, length: usize) -> Fault {
        syntax(format!(
            "expected {length} more bytes, but only {} remain",
            self.rest.len()
        ))
        .at(self.at())
    }

    /// Reads a varint of up to 64 bits.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64> {
        match *self.rest {
            [byte @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(byte.into())
            }
            [low, high @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(high) << 7 | u64::from(low & 0x7F))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let (number, length) = varint(self.rest).map_err(|invalid| {
            let what = match invalid {
                Invalid::Incomplete => "the message ends inside a number",
                Invalid::TooLong => "a number of more than 64 bits",
            };
            syntax(what).at(self.at())
        })?;
        self.rest = self.rest.split_at(length).1;
        Ok(number)
    }
}

#[cold]
fn syntax(what: impl Into<String>) -> Fault {
    Fault::new(Kind::Syntax, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tag = number(1);
    const TWO: Tag = bytes(2);
    const NINE: Tag = bytes(9);
    const KNOWN: &[KnownField] = &[
        KnownField {
            tag: ONE,
            name: "one",
        },
        KnownField {
            tag: TWO,
            name: "two",
        },
        KnownField {
            tag: NINE,
            name: "nine",
        },
    ];

    type Found = Vec<(Tag, u64, Vec<u8>)>;

    /// Returns the tags and values of the known fields, or the error and its offset.
    fn read(bytes: &[u8]) -> std::result::Result<Found, (String, Option<usize>)> {
        let mut found = Vec::new();
        let result = Reader::new(bytes).fields(KNOWN, |tag, reader| {
            match tag {
                ONE => found.push((tag, reader.varint()?, Vec::new())),
                TWO | NINE => found.push((tag, 0, reader.bytes()?.rest().to_vec())),
                _ => reader.skip(tag, KNOWN)?,
            }
            Ok(())
        });
        result.map(|()| found).map_err(|fault| {
            let parts = fault.into_parts();
            (
                if parts.field.is_empty() {
                    parts.what
                } else {
                    format!("{}: {}", parts.field, parts.what)
                },
                parts.byte,
            )
        })
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let bytes = b"\x08\x96\x01\x1D1234\x12\x02hi\x21\x01\x02\x03\x04\x05\x06\x07\x08\x4A\x00\xA2\x06\x01x\x08\x00";
        let hi = (TWO, 0, b"hi".to_vec());
        assert_eq!(
            read(bytes).unwrap(),
            [(ONE, 150, vec![]), hi, (NINE, 0, vec![]), (ONE, 0, vec![])]
        );
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn invalid_messages_report_the_offset() {
        let cases: [(&[u8], &str, usize); 13] = [
            (b"\x08", "one: the message ends inside a number", 1),
            (b"\x08\x80", "one: the message ends inside a number", 1),
            (
                b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02",
                "one: a number of more than 64 bits",
                1,
            ),
            (
                b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                "one: a number of more than 64 bits",
                1,
            ),
            (
                b"\x12\x03ab",
                "two: expected 3 more bytes, but only 2 remain",
                2,
            ),
            (
                b"\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01ab",
                "two: expected 18446744073709551615 more bytes, but only 2 remain",
                11,
            ),
            (
                b"\x08\x01\x1D123",
                "expected 4 more bytes, but only 3 remain",
                3,
            ),
            (b"\x08\x01\x1B", "unexpected group", 3),
            (b"\x1C", "unexpected group", 1),
            (b"\x1F", "invalid wire type", 1),
            (b"\x02\x00", "invalid field number", 0),
            (
                b"\x12\x00\x10\x05",
                "two: expected text, bytes or a message, found a number",
                3,
            ),
            (
                b"\x0A\x00",
                "one: expected a number, found text, bytes or a message",
                1,
            ),
        ];
        for (bytes, what, at) in cases {
            assert_eq!(
                read(bytes).unwrap_err(),
                (what.to_owned(), Some(at)),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn varints_have_64_bits() {
        let bytes = b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
        assert_eq!(read(bytes).unwrap(), [(ONE, u64::MAX, vec![])]);
    }

    #[test]
    fn offsets_are_those_in_the_whole_message() {
        let mut reader = Reader::new(b"\x12\x04\x12\x02a\xFF");
        let mut inner = reader.repeated(TWO).unwrap().unwrap();
        assert!(reader.is_empty() && inner.repeated(NINE).unwrap().is_none());
        let text = inner.repeated(TWO).unwrap().unwrap();
        assert_eq!(
            (text.at(), text.as_text().unwrap_err().into_parts().byte),
            (4, Some(5))
        );
    }
}
