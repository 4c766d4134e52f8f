//! Reader of Avro's binary encoding.
//!
//! A [`Reader`] borrows everything from the message. It checks every length and count against the remaining bytes.

use super::utf8::{is_utf8, utf8};
use super::varint::{Invalid, varint};
use crate::error::{Fault, Kind, Result};

/// Reader of binary data.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// State of the iteration over an array or map. Avro writes these in blocks.
#[derive(Default)]
pub(crate) struct Items {
    /// Remaining items of the block.
    remaining: u64,
    /// End of the block, if it declares its size.
    end: Option<usize>,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Returns a reader of the same data at another offset.
    pub fn reader_at(&self, at: usize) -> Self {
        Reader {
            bytes: self.bytes,
            at,
        }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the offset of a slice that was borrowed from this data.
    pub fn offset_of(&self, part: &[u8]) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.bytes.as_ptr() as usize)
    }

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "only bytes that exist are read")]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Returns the bytes from `start` to the current offset.
    #[allow(clippy::indexing_slicing, reason = "the reader was at `start` before")]
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    /// Skips bytes of the rest.
    #[inline]
    pub fn advance(&mut self, length: usize) {
        debug_assert!(length <= self.rest().len());
        self.at += length;
    }

    /// Skips these bytes if they come next.
    #[inline]
    pub fn eat(&mut self, expected: &[u8]) -> bool {
        let found = self.rest().starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// Reads a non-negative number of one byte. Nearly every length and every union branch is one.
    #[inline(always)]
    fn one_byte(&mut self) -> Option<usize> {
        let byte = *self.bytes.get(self.at).filter(|byte| **byte & 0x81 == 0)?;
        self.at += 1;
        Some(usize::from(byte >> 1))
    }

    /// Reads an integer of up to 64 bits.
    #[inline(always)]
    pub fn long(&mut self) -> Result<i64> {
        match *self.rest() {
            [byte @ 0..0x80, ..] => {
                self.at += 1;
                Ok(unzigzag(byte.into()))
            }
            [low, high @ 0..0x80, ..] => {
                self.at += 2;
                Ok(unzigzag(u64::from(high) << 7 | u64::from(low & 0x7F)))
            }
            _ => self.long_varint(),
        }
    }

    /// Reads a union of null and an integer.
    #[inline(always)]
    pub fn optional_long(&mut self) -> Result<Option<i64>> {
        match self.index(2, "branch")? {
            0 => Ok(None),
            _ => self.long().map(Some),
        }
    }

    /// Reads a varint of any length.
    fn long_varint(&mut self) -> Result<i64> {
        let (number, length) = varint(self.rest()).map_err(|invalid| match invalid {
            Invalid::Incomplete => self.unexpected_end("a number"),
            Invalid::TooLong => self.invalid("a number of more than 64 bits".into()),
        })?;
        self.at += length;
        Ok(unzigzag(number))
    }

    /// Reads an integer of up to 32 bits.
    pub fn int(&mut self) -> Result<i32> {
        let start = self.at;
        let number = self.long()?;
        i32::try_from(number).map_err(|_| {
            self.reader_at(start)
                .invalid(format!("{number} is not a 32-bit integer"))
        })
    }

    pub fn boolean(&mut self) -> Result<bool> {
        let start = self.at;
        match self.array("a boolean")? {
            [0] => Ok(false),
            [1] => Ok(true),
            other => Err(self
                .reader_at(start)
                .invalid(format!("an invalid boolean {other:?}"))),
        }
    }

    pub fn float(&mut self) -> Result<f32> {
        self.array("a float").map(f32::from_le_bytes)
    }

    pub fn double(&mut self) -> Result<f64> {
        self.array("a double").map(f64::from_le_bytes)
    }

    /// Reads bytes with their length prefix.
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        let length = match self.one_byte() {
            Some(length) => length,
            None => usize::try_from(self.long_varint()?).unwrap_or(usize::MAX),
        };
        let end = self.at.saturating_add(length);
        let bytes = self
            .bytes
            .get(self.at..end)
            .ok_or_else(|| self.reader_at(start).length_exceeds_rest())?;
        self.at = end;
        Ok(bytes)
    }

    #[inline]
    pub fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        self.utf8(bytes)
    }

    /// Reads text and checks its UTF-8. Returns whether it is non-empty.
    #[inline]
    pub fn is_text(&mut self) -> Result<bool> {
        let bytes = self.bytes()?;
        if is_utf8(bytes) {
            Ok(!bytes.is_empty())
        } else {
            Err(self.not_utf8(bytes))
        }
    }

    /// Validates bytes that were borrowed from this data as text.
    #[inline]
    pub fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str> {
        utf8(bytes).ok_or_else(|| self.not_utf8(bytes))
    }

    /// Reads the next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let bytes = self
            .rest()
            .get(..length)
            .ok_or_else(|| self.unexpected_end(what))?;
        self.at += length;
        Ok(bytes)
    }

    /// Reads `N` bytes.
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self
            .rest()
            .first_chunk()
            .ok_or_else(|| self.unexpected_end(what))?;
        self.at += N;
        Ok(*bytes)
    }

    /// Reads the index of an item, and returns the item: a union's branch, or an enum's symbol.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "`index` is below the count")]
    pub fn pick<'t, T>(&mut self, items: &'t [T], what: &str) -> Result<&'t T> {
        self.index(items.len(), what).map(|index| &items[index])
    }

    /// Reads an index below `count`: a union's branch, or an enum's symbol.
    #[inline(always)]
    pub fn index(&mut self, count: usize, what: &str) -> Result<usize> {
        let start = self.at;
        match self.one_byte() {
            Some(index) if index < count => Ok(index),
            _ => self.reader_at(start).invalid_index(count, what),
        }
    }

    /// Advances to the next item of an array or map. Returns false at the end.
    #[inline]
    pub fn next_item(&mut self, items: &mut Items) -> Result<bool> {
        if items.remaining == 0 && !self.next_block(items)? {
            return Ok(false);
        }
        items.remaining -= 1;
        Ok(true)
    }

    /// Begins the next block. Returns false at the end. Nearly all blocks have few items and do not declare their size.
    #[inline]
    fn next_block(&mut self, items: &mut Items) -> Result<bool> {
        let count = self.bytes.get(self.at).map(|count| usize::from(count >> 1));
        match count.filter(|count| items.end.is_none() && self.is_short_count(*count)) {
            Some(count) => {
                self.at += 1;
                items.remaining = count as u64;
                Ok(count != 0)
            }
            None => self.next_long_block(items),
        }
    }

    /// Returns whether the next byte is a count of items that does not exceed the number of bytes after it.
    #[inline]
    fn is_short_count(&self, count: usize) -> bool {
        self.bytes.get(self.at).is_some_and(|byte| byte & 0x81 == 0)
            && count < self.bytes.len() - self.at
    }

    #[inline(never)]
    fn next_long_block(&mut self, items: &mut Items) -> Result<bool> {
        if let Some(end) = items.end.take().filter(|end| *end != self.at) {
            return Err(self.invalid(format!("a block that declares its end at byte {end}")));
        }
        let start = self.at;
        let count = self.long()?;
        if count < 0 {
            let (size_at, size) = (self.at, self.long()?);
            let end = usize::try_from(size)
                .ok()
                .and_then(|size| self.at.checked_add(size))
                .filter(|end| *end <= self.bytes.len());
            items.end = Some(end.ok_or_else(|| self.exceeds_rest(size, "bytes", size_at))?);
        }
        // Every item that is worth reading takes at least one byte, so a count beyond the remaining bytes is invalid.
        if count.unsigned_abs() > self.rest().len() as u64 {
            return Err(self.exceeds_rest(count, "items", start));
        }
        items.remaining = count.unsigned_abs();
        Ok(count != 0)
    }

    /// Runs `item` over the items of an array or map.
    #[inline]
    pub fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let mut items = Items::default();
        while self.next_item(&mut items)? {
            let before = self.at;
            item(self)?;
            // Items of zero bytes are all equal, so the rest of the block is skipped.
            items.remaining = if self.at == before {
                0
            } else {
                items.remaining
            };
        }
        Ok(())
    }

    #[cold]
    fn unexpected_end(&self, within: &str) -> Fault {
        Fault::new(Kind::Syntax, format!("the message ends inside {within}")).at(self.bytes.len())
    }

    #[cold]
    fn invalid(&self, found: String) -> Fault {
        Fault::new(Kind::Syntax, format!("found {found}")).at(self.at)
    }

    #[cold]
    fn exceeds_rest(&self, count: i64, what: &str, start: usize) -> Fault {
        let left = self.rest().len();
        Fault::new(
            Kind::Syntax,
            format!("declares {count} {what}, but only {left} bytes of the message remain"),
        )
        .at(start)
    }

    #[cold]
    fn length_exceeds_rest(mut self) -> Fault {
        let start = self.at;
        match self.long() {
            Ok(length) => self.exceeds_rest(length, "bytes", start),
            Err(fault) => fault,
        }
    }

    /// Returns the error of an index that is out of range or longer than a byte.
    #[cold]
    fn invalid_index(mut self, count: usize, what: &str) -> Result<usize> {
        let start = self.at;
        let index = self.long()?;
        Err(self
            .reader_at(start)
            .invalid(format!("{what} {index}, but there are {count}")))
    }

    #[cold]
    fn not_utf8(&self, bytes: &[u8]) -> Fault {
        let valid = simdutf8::compat::from_utf8(bytes)
            .err()
            .map_or(0, |error| error.valid_up_to());
        Fault::new(Kind::Encoding, "the text is not UTF-8").at(self.offset_of(bytes) + valid)
    }
}

#[inline]
fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::avro_schema::Schemas;

    fn fault(result: Result<impl std::fmt::Debug>) -> (Kind, String, Option<usize>) {
        let parts = result.unwrap_err().into_parts();
        (parts.kind, parts.what, parts.byte)
    }

    #[test]
    fn integers_of_the_specification() {
        // The examples of the specification, and the ends of the range in apache-avro's encoding.
        let cases: [(&[u8], i64); 9] = [
            (b"\x00", 0),
            (b"\x01", -1),
            (b"\x02", 1),
            (b"\x7f", -64),
            (b"\x80\x01", 64),
            (b"\xfe\xff\xff\xff\x0f", i32::MAX as i64),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", i64::MIN),
            (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", i64::MAX),
            // Overlong, but the specification allows it.
            (b"\x82\x00", 1),
        ];
        for (bytes, number) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.long().unwrap(), number);
            assert!(reader.is_at_end());
        }
    }

    #[test]
    fn invalid_integers() {
        assert_eq!(
            fault(Reader::new(b"").long()),
            (
                Kind::Syntax,
                "the message ends inside a number".into(),
                Some(0)
            )
        );
        assert_eq!(
            fault(Reader::new(b"\x80\x80").long()),
            (
                Kind::Syntax,
                "the message ends inside a number".into(),
                Some(2)
            )
        );
        assert_eq!(
            fault(Reader::new(&[0x80; 20]).long()).1,
            "found a number of more than 64 bits"
        );
        assert_eq!(
            fault(Reader::new(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02").long()).1,
            "found a number of more than 64 bits"
        );
        assert_eq!(
            fault(Reader::new(b"\x80\x80\x80\x80\x10").int()).1,
            "found 2147483648 is not a 32-bit integer"
        );
    }

    #[test]
    fn lengths_counts_and_indexes_are_bounds_checked() {
        assert_eq!(
            fault(Reader::new(b"\x0aab").bytes()).1,
            "declares 5 bytes, but only 2 bytes of the message remain"
        );
        assert_eq!(
            fault(Reader::new(b"\x01ab").bytes()).1,
            "declares -1 bytes, but only 2 bytes of the message remain"
        );
        let huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(
            fault(Reader::new(huge).text()).1,
            "declares 9223372036854775807 bytes, but only 0 bytes of the message remain"
        );
        let items = fault(Reader::new(huge).next_item(&mut Items::default())).1;
        assert_eq!(
            items,
            "declares 9223372036854775807 items, but only 0 bytes of the message remain"
        );
        let most_negative = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00";
        assert!(
            fault(Reader::new(most_negative).next_item(&mut Items::default()))
                .1
                .starts_with("declares -9223372036854775808 items")
        );
        assert_eq!(
            fault(Reader::new(b"\x04\xff\xfe").text()),
            (Kind::Encoding, "the text is not UTF-8".into(), Some(1))
        );
        assert_eq!(
            fault(Reader::new(b"\x06").index(3, "branch")).1,
            "found branch 3, but there are 3"
        );
        assert_eq!(
            fault(Reader::new(b"\x01").index(3, "branch")).1,
            "found branch -1, but there are 3"
        );
        assert_eq!(
            fault(Reader::new(b"\x02").boolean()).1,
            "found an invalid boolean [2]"
        );
    }

    #[test]
    fn blocks_may_declare_their_size() {
        let items = |bytes: &[u8]| {
            let (schemas, schema) = Schemas::parse(r#"{"type":"array","items":"long"}"#).unwrap();
            let mut reader = Reader::new(bytes);
            schemas
                .skip(&schema, &mut reader)
                .map(|()| reader.at())
                .map_err(|fault| fault.into_parts().what)
        };
        assert_eq!(items(b"\x04\x06\x36\x02\x08\x00"), Ok(6));
        assert_eq!(items(b"\x03\x04\x06\x36\x00"), Ok(5));
        assert_eq!(
            items(b"\x03\x02\x06\x36\x00"),
            Err("found a block that declares its end at byte 3".into())
        );
        assert_eq!(
            items(b"\x03\x05\x06\x36\x00"),
            Err("declares -3 bytes, but only 3 bytes of the message remain".into())
        );
        assert_eq!(
            items(b"\x04\x06"),
            Err("declares 2 items, but only 1 bytes of the message remain".into())
        );
    }
}
