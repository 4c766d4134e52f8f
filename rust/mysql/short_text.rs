//! Short text with the bytes around it in its message.

use wide::u8x16;

use crate::mysql::number::{AROUND_START, Around, Window, around, text_of};

/// A text of at most 32 bytes that is not near an end of its message. It is loaded as blocks of fixed size, including
/// neighboring bytes. So neither instructions nor branches depend on its length, which differs between values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortText<'a> {
    around: &'a Around,
    length: usize,
}

impl PartialEq for ShortText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl<'a> ShortText<'a> {
    /// Returns the text at `at`.
    #[inline(always)]
    pub fn of(message: &'a [u8], at: usize, length: usize) -> Option<Self> {
        ShortText::in_block(around(message, at)?, length)
    }

    /// Returns the text in a block.
    #[inline(always)]
    pub fn in_block(around: &'a Around, length: usize) -> Option<Self> {
        (length <= size_of::<Window>()).then_some(ShortText { around, length })
    }

    #[inline(always)]
    pub fn length(self) -> usize {
        self.length
    }

    /// Returns the text with the bytes before and after it.
    #[inline(always)]
    pub fn around(self) -> &'a Around {
        self.around
    }

    /// Returns the text with the bytes after it.
    #[inline(always)]
    pub fn window(self) -> &'a Window {
        text_of(self.around)
    }

    #[inline(always)]
    #[allow(
        clippy::indexing_slicing,
        reason = "a text is not longer than a window"
    )]
    pub fn bytes(self) -> &'a [u8] {
        debug_assert!(self.length <= size_of::<Window>());
        &self.around[AROUND_START..][..self.length]
    }

    /// Returns whether all of its bytes are ASCII.
    #[inline(always)]
    pub fn is_ascii(self) -> bool {
        let (blocks, _) = self.window().as_chunks();
        let others = blocks.iter().rev().fold(0, |others, block| {
            others << 16 | u64::from(u8x16::new(*block).to_bitmask())
        });
        (others | 1 << 32).trailing_zeros() as usize >= self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_around_a_text_are_none_of_its_own() {
        for length in 0..=32 {
            for at in 0..length {
                let mut message = [0xC3; 48];
                message[AROUND_START..][..length].fill(b'a');
                let is_ascii = |message: &[u8]| {
                    ShortText::of(message, AROUND_START, length).is_some_and(ShortText::is_ascii)
                };
                assert!(is_ascii(&message), "{length}");
                message[AROUND_START + at] = 0x80;
                assert!(!is_ascii(&message), "{at} of {length}");
            }
        }
    }

    #[test]
    fn a_text_is_short_and_not_near_an_end() {
        let message: Vec<u8> = (0..100).collect();
        for at in 0..=100 {
            for length in [0, 1, 31, 32, 33] {
                let text = ShortText::of(&message, at, length).map(ShortText::bytes);
                let is_short = length <= 32 && (16..=68).contains(&at);
                assert_eq!(
                    text,
                    if is_short {
                        message.get(at..at + length)
                    } else {
                        None
                    },
                    "{length} at {at}"
                );
            }
        }
        assert_eq!(ShortText::of(&message, usize::MAX, 1), None);
    }
}
