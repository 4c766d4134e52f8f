//! A reader of the protobuf wire that borrows everything and converts nothing.
//!
//! On the wire a message is a list of fields: a number and a form, then a varint, bytes with their length, or four or eight
//! bytes. What the numbers mean is in a table of [`Known`] fields; others are stepped over, as protobuf has it. Nothing here
//! recurses: a field's bytes are a [`Reader`] of their own, which may be read as a message or not.

use crate::error::{Fault, Kind, Result};

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Integers, booleans, enums.
    Varint,
    /// Text, bytes, messages.
    Bytes,
    /// Four or eight bytes.
    Fixed,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Varint => "a number",
            Form::Bytes => "text, bytes or a message",
            Form::Fixed => "a number of four or eight bytes",
        }
    }
}

/// A field that a message may have.
pub(crate) struct Known {
    pub number: u32,
    pub name: &'static str,
    pub form: Form,
}

impl Known {
    pub const fn number(number: u32, name: &'static str) -> Self {
        Known { number, name, form: Form::Varint }
    }

    pub const fn bytes(number: u32, name: &'static str) -> Self {
        Known { number, name, form: Form::Bytes }
    }
}

/// The known field with this number. Tables are in order, and most of them without gaps.
#[inline]
fn known(table: &'static [Known], number: u32) -> Option<&'static Known> {
    match table.get((number as usize).wrapping_sub(1)) {
        Some(known) if known.number == number => Some(known),
        _ => table.iter().find(|known| known.number == number),
    }
}

/// A field as it stands.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub number: u32,
    /// Where it begins in the whole message.
    pub at: usize,
    pub form: Form,
    varint: u64,
    bytes: Reader<'a>,
}

impl<'a> Field<'a> {
    /// The number of a varint; 0 of what is none.
    #[inline]
    pub fn varint(&self) -> u64 {
        self.varint
    }

    /// A boolean.
    #[inline]
    pub fn flag(&self) -> bool {
        self.varint != 0
    }

    /// Bytes, or a message; none of what is a number.
    #[inline]
    pub fn bytes(&self) -> Reader<'a> {
        self.bytes
    }

    /// Text.
    #[inline]
    pub fn text(&self) -> Result<&'a str> {
        self.bytes.text()
    }

    fn check(&self, known: &Known) -> Result<()> {
        if self.form == known.form {
            return Ok(());
        }
        let what = format!("expected {}, found {}", known.form.name(), self.form.name());
        Err(Fault::new(Kind::Envelope, what).at(self.at))
    }
}

/// Reads bytes from their start; it knows where they stand in the whole message.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of their end.
    end: usize,
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Reader { rest: message, end: message.len() }
    }

    /// The offset of the byte that is read next.
    #[inline]
    pub fn at(&self) -> usize {
        self.end.saturating_sub(self.rest.len())
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The bytes before the offset `at`, and those from there.
    pub fn split(&self, at: usize) -> (&'a [u8], &'a [u8]) {
        self.rest.split_at_checked(at.saturating_sub(self.at())).unwrap_or((self.rest, &[]))
    }

    /// The bytes as text.
    #[inline]
    pub fn text(&self) -> Result<&'a str> {
        utf8(self.rest).ok_or_else(|| self.no_text())
    }

    #[cold]
    fn no_text(&self) -> Fault {
        let valid = std::str::from_utf8(self.rest).map_or_else(|error| error.valid_up_to(), str::len);
        Fault::new(Kind::Encoding, "the text is not UTF-8").at(self.at() + valid)
    }

    /// Calls `take` with each known field.
    #[inline]
    pub fn fields(mut self, table: &'static [Known], mut take: impl FnMut(&Field<'a>) -> Result<()>) -> Result<()> {
        while let Some(field) = self.next()? {
            let Some(known) = known(table, field.number) else { continue };
            field.check(known).and_then(|()| take(&field)).map_err(|fault| fault.within(known.name))?;
        }
        Ok(())
    }

    /// Whether these bytes are a message of nothing but known fields in their forms, and every field passes the `test`.
    pub fn is_message(mut self, table: &'static [Known], mut test: impl FnMut(&Field<'a>) -> bool) -> bool {
        loop {
            match self.next() {
                Ok(Some(field)) if known(table, field.number).is_some_and(|known| known.form == field.form) && test(&field) => {}
                Ok(end) => return end.is_none(),
                Err(_) => return false,
            }
        }
    }

    /// Steps over the field that comes next if it is this one, of bytes; none if it is not. `number` is below 16.
    #[inline]
    pub fn repeated(&mut self, number: u8) -> Result<Option<Reader<'a>>> {
        match self.rest.split_first() {
            Some((&tag, rest)) if tag == number << 3 | LENGTH => {
                self.rest = rest;
                self.delimited().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Steps over the next field, whatever it is; none at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Field<'a>>> {
        if self.rest.is_empty() { Ok(None) } else { self.field().map(Some) }
    }

    #[inline]
    fn field(&mut self) -> Result<Field<'a>> {
        let at = self.at();
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| syntax("no field has such a number").at(at))?;
        let mut field = Field { number, at, form: Form::Varint, varint: 0, bytes: Reader { rest: &[], end: at } };
        match (tag & 7) as u8 {
            VARINT => field.varint = self.varint()?,
            LENGTH => (field.form, field.bytes) = (Form::Bytes, self.delimited()?),
            FIXED64 => (field.form, field.bytes) = (Form::Fixed, self.take(8)?),
            FIXED32 => (field.form, field.bytes) = (Form::Fixed, self.take(4)?),
            3 | 4 => return Err(syntax("a group, which nothing here has").at(at)),
            _ => return Err(syntax("no field has such a form").at(at)),
        }
        Ok(field)
    }

    /// A length, and as many bytes.
    #[inline]
    fn delimited(&mut self) -> Result<Reader<'a>> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<Reader<'a>> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else { return Err(self.too_long(length)) };
        self.rest = rest;
        Ok(Reader { rest: taken, end: self.at() })
    }

    #[cold]
    fn too_long(&self, length: usize) -> Fault {
        syntax(format!("{length} bytes should follow, but {} are left", self.rest.len())).at(self.at())
    }

    /// A number of up to 64 bits, seven of them in each byte.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        /// 64 bits take ten bytes, and the last of them has one bit.
        const LONGEST: usize = 10;
        let mut number = 0;
        for (index, &byte) in self.rest.iter().take(LONGEST).enumerate() {
            number |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 && (index + 1 < LONGEST || byte <= 1) {
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok(number);
            }
        }
        let what = if self.rest.len() < LONGEST { "the message ends inside a number" } else { "a number of more than 64 bits" };
        Err(syntax(what).at(self.at()))
    }
}

// Forms on the wire.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

#[cold]
fn syntax(what: impl Into<String>) -> Fault {
    Fault::new(Kind::Syntax, what)
}

/// Most texts are too short for SIMD.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    const SHORT: usize = 64;
    if bytes.len() < SHORT { std::str::from_utf8(bytes).ok() } else { simdutf8::basic::from_utf8(bytes).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Known] = &[Known::number(1, "one"), Known::bytes(2, "two"), Known::bytes(9, "nine")];

    /// The numbers and values of the known fields, or what is wrong and where.
    fn read(bytes: &[u8]) -> std::result::Result<Vec<(u32, u64, Vec<u8>)>, (String, Option<usize>)> {
        let mut found = Vec::new();
        let outcome = Reader::new(bytes).fields(TABLE, |field| {
            found.push((field.number, field.varint(), field.bytes().rest().to_vec()));
            Ok(())
        });
        outcome.map(|()| found).map_err(|fault| {
            let parts = fault.into_parts();
            (if parts.field.is_empty() { parts.what } else { format!("{}: {}", parts.field, parts.what) }, parts.byte)
        })
    }

    #[test]
    fn known_fields_are_read_and_others_stepped_over() {
        let bytes = b"\x08\x96\x01\x1D1234\x12\x02hi\x21\x01\x02\x03\x04\x05\x06\x07\x08\x4A\x00\xA2\x06\x01x\x08\x00";
        let hi = (2, 0, b"hi".to_vec());
        assert_eq!(read(bytes).unwrap(), [(1, 150, vec![]), hi, (9, 0, vec![]), (1, 0, vec![])]);
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn what_is_no_message_is_told_with_its_place() {
        let cases: [(&[u8], &str, usize); 13] = [
            (b"\x08", "the message ends inside a number", 1),
            (b"\x08\x80", "the message ends inside a number", 1),
            (b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", "a number of more than 64 bits", 1),
            (b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "a number of more than 64 bits", 1),
            (b"\x12\x03ab", "3 bytes should follow, but 2 are left", 2),
            (b"\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01ab", "18446744073709551615 bytes should follow, but 2 are left", 11),
            (b"\x08\x01\x0D123", "4 bytes should follow, but 3 are left", 3),
            (b"\x08\x01\x13", "a group, which nothing here has", 2),
            (b"\x14", "a group, which nothing here has", 0),
            (b"\x0F", "no field has such a form", 0),
            (b"\x02\x00", "no field has such a number", 0),
            (b"\x12\x00\x10\x05", "two: expected text, bytes or a message, found a number", 2),
            (b"\x0A\x00", "one: expected a number, found text, bytes or a message", 0),
        ];
        for (bytes, what, at) in cases {
            assert_eq!(read(bytes).unwrap_err(), (what.to_owned(), Some(at)), "{bytes:?}");
        }
    }

    #[test]
    fn numbers_have_64_bits() {
        let bytes = b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
        assert_eq!(read(bytes).unwrap(), [(1, u64::MAX, vec![])]);
    }

    #[test]
    fn places_are_those_in_the_whole_message() {
        let mut reader = Reader::new(b"\x12\x04\x12\x02a\xFF");
        let mut inner = reader.repeated(2).unwrap().unwrap();
        assert!(reader.is_empty() && inner.repeated(1).unwrap().is_none());
        let text = inner.repeated(2).unwrap().unwrap();
        assert_eq!((text.at(), text.text().unwrap_err().into_parts().byte), (4, Some(5)));
    }
}
