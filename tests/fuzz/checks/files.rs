//! Framing of files: the messages equal a slow reader's, for any division of the file into blocks.

use std::ops::Range;

use arrow_array::{Array, BinaryViewArray};
use arrow_buffer::Buffer;
use towpath::{Block, Cut, Framing, cut};

use super::input::split_choices;

/// Checks a file.
pub fn check(data: &[u8]) {
    let (choices, bytes) = split_choices(data);
    let (_, framing) = choices.pick(0, 1, Framing::NAMES);
    let sizes: Vec<usize> = (1..=64).collect();
    let (wanted, is_whole) = expected(bytes, framing);
    let buffer = Buffer::from_slice_ref(bytes);
    match cut(
        &Block {
            bytes: &buffer,
            limit: usize::MAX,
            last: true,
        },
        framing,
    ) {
        Ok(cut) => {
            assert!(is_whole, "a damaged file is read");
            assert_eq!((messages(&cut), cut.used), (wanted.clone(), bytes.len()));
        }
        Err(damage) => assert!(!is_whole && damage.byte <= bytes.len(), "{damage:?}"),
    }
    assert_eq!(
        in_blocks(&buffer, choices.pick(1, 1, &sizes), framing),
        (wanted.clone(), is_whole),
        "blocks change the messages"
    );
    check_limit(&buffer, choices.pick(2, 1, &sizes), framing);
}

/// Key, value and start of a message.
type Message = (Option<Vec<u8>>, Option<Vec<u8>>, usize);

fn messages(cut: &Cut) -> Vec<Message> {
    let at = |array: &BinaryViewArray, row: usize| {
        array.is_valid(row).then(|| array.value(row).to_vec())
    };
    let key = |row| cut.keys.as_ref().and_then(|keys| at(keys, row));
    cut.starts
        .iter()
        .enumerate()
        .map(|(row, start)| (key(row), at(&cut.values, row), *start))
        .collect()
}

/// Reads blocks of a size, which grow until a message is complete. Returns whether the file is undamaged.
fn in_blocks(bytes: &Buffer, size: usize, framing: Framing) -> (Vec<Message>, bool) {
    let (mut found, mut start, mut end) = (Vec::new(), 0, size.min(bytes.len()));
    loop {
        let last = end == bytes.len();
        let block = bytes.slice_with_length(start, end - start);
        let Ok(cut) = cut(
            &Block {
                bytes: &block,
                limit: usize::MAX,
                last,
            },
            framing,
        ) else {
            // Only the slow reader knows the messages before the damage.
            let (before, _) = expected(bytes, framing);
            return (before, false);
        };
        found.extend(
            messages(&cut)
                .into_iter()
                .map(|(key, value, at)| (key, value, start + at)),
        );
        start += cut.used;
        if last {
            return (found, true);
        }
        end = (end + size).min(bytes.len());
    }
}

/// Checks that a limit keeps the messages that begin before it.
fn check_limit(bytes: &Buffer, limit: usize, framing: Framing) {
    let read = |limit, last| cut(&Block { bytes, limit, last }, framing);
    let (Ok(all), Ok(some)) = (read(usize::MAX, false), read(limit, false)) else {
        return;
    };
    let count = all.starts.iter().filter(|start| **start < limit).count();
    assert_eq!(messages(&some), messages(&all)[..count]);
}

/// Returns the messages before any damage, and whether the file is undamaged.
fn expected(bytes: &[u8], framing: Framing) -> (Vec<Message>, bool) {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        let mut part = || length_prefixed(bytes, &mut at);
        let message = match framing {
            Framing::Lines => Some((None, Some(line(bytes, &mut at)))),
            Framing::LengthPrefixed => part().map(|value| (None, value)),
            Framing::KeyValue => part().and_then(|key| part().map(|value| (key, value))),
        };
        let Some((key, value)) = message else {
            return (found, false);
        };
        let bytes_of = |part: Option<Range<usize>>| part.map(|part| bytes[part].to_vec());
        found.push((bytes_of(key), bytes_of(value), start));
    }
    (found, true)
}

fn line(bytes: &[u8], at: &mut usize) -> Range<usize> {
    let start = *at;
    let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') else {
        *at = bytes.len();
        return start..bytes.len();
    };
    *at = start + length + 1;
    let ends_with_cr = length > 0 && bytes[start + length - 1] == b'\r';
    start..start + length - usize::from(ends_with_cr)
}

/// `Some(None)` is null.
#[expect(
    clippy::option_option,
    reason = "a part may be incomplete, and a complete one may be null"
)]
fn length_prefixed(bytes: &[u8], at: &mut usize) -> Option<Option<Range<usize>>> {
    const LONGEST: usize = 256 << 20;
    let length = u32::from_be_bytes(bytes.get(*at..*at + 4)?.try_into().ok()?);
    *at += 4;
    if length == u32::MAX {
        return Some(None);
    }
    let part = *at..*at + length as usize;
    *at = part.end;
    (length as usize <= LONGEST && part.end <= bytes.len()).then_some(Some(part))
}
