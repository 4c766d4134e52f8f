//! Kafka values with several JSON messages: an array, or concatenated objects.

use super::json::{BYTE_ORDER_MARK, Cursor};
use crate::error::{Fault, Kind, Result};

/// Calls `record` at the start of each object of a text. The text is an object, an array of objects, or several of
/// these separated by whitespace (in practice LF or CR LF).
pub(crate) fn records<'a>(
    cursor: &mut Cursor<'a>,
    mut record: impl FnMut(&mut Cursor<'a>) -> Result<()>,
) -> Result<()> {
    let (mut seen, mut has_array) = (false, false);
    cursor.eat(BYTE_ORDER_MARK);
    while let Some(byte) = cursor.peek() {
        let start = cursor.at();
        match byte {
            b'{' => {
                record(cursor)?;
                seen = true;
            }
            b'[' => {
                has_array = true;
                let mut elements = cursor.array()?;
                while cursor.next_element(&mut elements)? {
                    record(cursor)?;
                    seen = true;
                }
            }
            _ => return Err(cursor.no_object("an object or an array of objects")),
        }
        debug_assert!(cursor.at() > start);
        let end = cursor.at();
        if cursor.peek().is_some() && cursor.at() == end {
            return Err(cursor.unexpected(
                "a newline between two messages (Amazon Firehose writes one if a record delimiter is configured)",
            ));
        }
    }
    match (seen, has_array) {
        (true, _) => Ok(()),
        (false, true) => {
            Err(Fault::new(Kind::Envelope, "an array without messages").at(cursor.at()))
        }
        (false, false) => Err(Fault::new(Kind::Syntax, "the message is empty").at(cursor.at())),
    }
}
