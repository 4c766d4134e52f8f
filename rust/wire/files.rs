//! Framing of files: splits blocks of a file into messages.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::{ArrayRef, BinaryViewArray};
use arrow_buffer::Buffer;
use memchr::memchr;

use crate::named::named_enum;

/// Maximum length of a message, in bytes. A greater length counts as corruption, and is not allocated.
const MAX_MESSAGE: usize = 256 << 20;

/// Length of null in Kafka's records: -1.
const NULL: u32 = u32::MAX;

named_enum! {
    /// Framing of messages in a file.
    pub enum Framing {
        /// One message per line. A line ends with LF or CR LF. The end of the file may end the last line.
        Lines = "lines",
        /// A big-endian u32 length before each message.
        LengthPrefixed = "length-prefixed",
        /// Key and value alternately, each after its big-endian u32 length.
        KeyValue = "key-value",
    }
}

/// A block of a file.
pub struct Block<'b> {
    /// The bytes. They begin with a message.
    pub bytes: &'b Buffer,
    /// Messages that begin at this offset or later are not read.
    pub limit: usize,
    /// True if this is the last block of the file.
    pub last: bool,
}

/// Messages of a block, as views without a copy.
#[derive(Debug)]
pub struct Cut {
    /// The keys, if the framing has keys.
    pub keys: Option<BinaryViewArray>,
    /// The value of each message.
    pub values: BinaryViewArray,
    /// Offset of each message in the block.
    pub starts: Vec<usize>,
    /// Offset of the first unread message: beyond the limit, or incomplete in this block.
    pub used: usize,
}

/// Corruption of a file, and its offset. The messages after it cannot be located.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the block.
    pub byte: usize,
    /// Description.
    pub what: String,
}

/// Range in the block, or null.
type Part = Option<Range<usize>>;

struct Message {
    key: Part,
    value: Part,
    end: usize,
}

/// Returns the complete messages in a block that begin before its limit.
pub fn cut(block: &Block<'_>, framing: Framing) -> Result<Cut, Damage> {
    let (mut keys, mut values) = (Views::new(block.bytes)?, Views::new(block.bytes)?);
    let mut starts = Vec::new();
    let mut at = 0;
    while at < block.limit.min(block.bytes.len()) {
        let Some(message) = message(block, at, framing)? else {
            break;
        };
        keys.push(message.key)?;
        values.push(message.value)?;
        starts.push(at);
        at = message.end;
    }
    let keys = (framing == Framing::KeyValue).then(|| keys.finish());
    Ok(Cut {
        keys,
        values: values.finish(),
        starts,
        used: at,
    })
}

/// Returns the message at an offset; `None` if it is incomplete and the block is not the last one.
fn message(block: &Block<'_>, at: usize, framing: Framing) -> Result<Option<Message>, Damage> {
    let found = match framing {
        Framing::Lines => return line(block, at),
        Framing::LengthPrefixed => length_prefixed(block.bytes, at)?.map(|(value, end)| Message {
            key: None,
            value,
            end,
        }),
        Framing::KeyValue => key_and_value(block.bytes, at)?,
    };
    if found.is_none() && block.last {
        return Err(Damage {
            byte: at,
            what: "the file ends within the message that begins here".into(),
        });
    }
    Ok(found)
}

#[allow(
    clippy::indexing_slicing,
    reason = "`at` and the newline are in the block"
)]
fn line(block: &Block<'_>, at: usize) -> Result<Option<Message>, Damage> {
    let rest = &block.bytes[at..];
    let newline = memchr(b'\n', rest);
    let text = &rest[..newline.unwrap_or(rest.len())];
    let text = newline
        .and_then(|_| text.strip_suffix(b"\r"))
        .unwrap_or(text);
    if text.len() > MAX_MESSAGE {
        return Err(Damage {
            byte: at,
            what: format!("the line that begins here is longer than {MAX_MESSAGE} bytes"),
        });
    }
    let end = at + newline.map_or(rest.len(), |newline| newline + 1);
    let is_complete = newline.is_some() || block.last;
    Ok(is_complete.then(|| Message {
        key: None,
        value: Some(at..at + text.len()),
        end,
    }))
}

fn key_and_value(bytes: &[u8], at: usize) -> Result<Option<Message>, Damage> {
    let Some((key, middle)) = length_prefixed(bytes, at)? else {
        return Ok(None);
    };
    Ok(length_prefixed(bytes, middle)?.map(|(value, end)| Message { key, value, end }))
}

/// Returns the part after a length prefix, and its end; `None` if it is incomplete.
fn length_prefixed(bytes: &[u8], at: usize) -> Result<Option<(Part, usize)>, Damage> {
    let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
        return Ok(None);
    };
    let start = at + length.len();
    let length = u32::from_be_bytes(*length);
    if length == NULL {
        return Ok(Some((None, start)));
    }
    if length as usize > MAX_MESSAGE {
        return Err(Damage {
            byte: at,
            what: format!("the length {length} exceeds the limit of {MAX_MESSAGE} bytes"),
        });
    }
    let end = start + length as usize;
    Ok((end <= bytes.len()).then_some((Some(start..end), end)))
}

/// Builder of an array of views into one block.
struct Views {
    builder: BinaryViewBuilder,
    block: u32,
}

impl Views {
    /// Arrow's views have 32-bit offsets. Readers enlarge a block only up to the longest message.
    fn new(block: &Buffer) -> Result<Self, Damage> {
        if i32::try_from(block.len()).is_err() {
            return Err(Damage {
                byte: 0,
                what: format!("a block of {} bytes is too long to be cut", block.len()),
            });
        }
        let mut builder = BinaryViewBuilder::new();
        let block = builder.append_block(block.clone());
        Ok(Views { builder, block })
    }

    fn push(&mut self, part: Part) -> Result<(), Damage> {
        let Some(part) = part else {
            self.builder.append_null();
            return Ok(());
        };
        self.builder
            .try_append_view(self.block, part.start as u32, part.len() as u32)
            .map_err(|error| Damage {
                byte: part.start,
                what: error.to_string(),
            })
    }

    fn finish(mut self) -> BinaryViewArray {
        self.builder.finish()
    }
}

impl Cut {
    /// Returns the named columns: `key` (if there are keys), `value`.
    pub fn columns(self) -> impl Iterator<Item = (&'static str, ArrayRef)> {
        let keys = self.keys.map(|keys| ("key", Arc::new(keys) as ArrayRef));
        keys.into_iter()
            .chain([("value", Arc::new(self.values) as ArrayRef)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: &[u8]) -> Buffer {
        Buffer::from_slice_ref(bytes)
    }

    fn complete(bytes: &[u8], framing: Framing) -> Result<Cut, Damage> {
        cut(
            &Block {
                bytes: &block(bytes),
                limit: usize::MAX,
                last: true,
            },
            framing,
        )
    }

    fn partial(bytes: &[u8], limit: usize, framing: Framing) -> Cut {
        cut(
            &Block {
                bytes: &block(bytes),
                limit,
                last: false,
            },
            framing,
        )
        .unwrap()
    }

    fn texts(array: &BinaryViewArray) -> Vec<Option<&str>> {
        array
            .iter()
            .map(|part| part.map(|part| std::str::from_utf8(part).unwrap()))
            .collect()
    }

    #[test]
    fn lines_end_with_lf_or_cr_lf_or_the_file() {
        let cut = complete(
            b"a\r\nb\rb\n\nlonger than a view's own\nc\r",
            Framing::Lines,
        )
        .unwrap();
        assert_eq!(
            texts(&cut.values),
            [
                Some("a"),
                Some("b\rb"),
                Some(""),
                Some("longer than a view's own"),
                Some("c\r")
            ]
        );
        assert_eq!((cut.starts, cut.used), (vec![0, 3, 7, 8, 33], 35));
        assert!(cut.keys.is_none());
    }

    #[test]
    fn no_message_follows_the_last_newline() {
        assert_eq!(
            texts(&complete(b"a\n", Framing::Lines).unwrap().values),
            [Some("a")]
        );
        assert!(complete(b"", Framing::Lines).unwrap().starts.is_empty());
    }

    #[test]
    fn incomplete_messages_are_left_for_the_next_block() {
        let cut = partial(b"a\nb", usize::MAX, Framing::Lines);
        assert_eq!((cut.starts, cut.used), (vec![0], 2));
        let bytes = b"\0\0\0\x01a\0\0\0\x02bc";
        for end in 0..bytes.len() {
            let cut = partial(&bytes[..end], usize::MAX, Framing::LengthPrefixed);
            assert_eq!(
                (cut.starts.len(), cut.used),
                if end < 5 { (0, 0) } else { (1, 5) }
            );
        }
    }

    #[test]
    fn the_limit_applies_to_the_start_of_a_message() {
        for (limit, count) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            assert_eq!(
                partial(b"a\nb\nc\n", limit, Framing::Lines).starts.len(),
                count,
                "{limit}"
            );
        }
    }

    #[test]
    fn keys_and_values_may_be_null() {
        let cut = complete(
            b"\0\0\0\x01k\0\0\0\x01v\xFF\xFF\xFF\xFF\0\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF",
            Framing::KeyValue,
        )
        .unwrap();
        assert_eq!(
            texts(cut.keys.as_ref().unwrap()),
            [Some("k"), None, Some("")]
        );
        assert_eq!(texts(&cut.values), [Some("v"), Some(""), None]);
        assert_eq!(cut.starts, [0, 10, 18]);
        let names: Vec<_> = cut.columns().map(|(name, _)| name).collect();
        assert_eq!(names, ["key", "value"]);
    }

    #[test]
    fn a_truncated_file_is_corrupt() {
        let ends = |byte| Damage {
            byte,
            what: "the file ends within the message that begins here".into(),
        };
        for bytes in [&b"\0\0\0\x01a\0"[..], b"\0\0\0\x01a\0\0\0\x02b"] {
            assert_eq!(
                complete(bytes, Framing::LengthPrefixed).unwrap_err(),
                ends(5)
            );
        }
        assert_eq!(
            complete(b"\0\0\0\x01a", Framing::KeyValue).unwrap_err(),
            ends(0)
        );
    }

    #[test]
    fn a_length_beyond_the_limit_is_corrupt() {
        let damage = cut(
            &Block {
                bytes: &block(b"\0\0\0\0\x10\0\0\x01"),
                limit: 9,
                last: false,
            },
            Framing::LengthPrefixed,
        )
        .unwrap_err();
        assert_eq!(
            damage,
            Damage {
                byte: 4,
                what: "the length 268435457 exceeds the limit of 268435456 bytes".into()
            }
        );
    }

    #[test]
    fn a_line_beyond_the_limit_is_corrupt() {
        let mut bytes = vec![b'a'; MAX_MESSAGE + 3];
        bytes[0] = b'\n';
        let damage = cut(
            &Block {
                bytes: &Buffer::from_vec(bytes),
                limit: usize::MAX,
                last: false,
            },
            Framing::Lines,
        )
        .unwrap_err();
        assert_eq!(
            damage,
            Damage {
                byte: 1,
                what: "the line that begins here is longer than 268435456 bytes".into()
            }
        );
    }
}
