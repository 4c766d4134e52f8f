//! Form of fuzz inputs: choices, one byte each, then messages.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StructArray};
use arrow_schema::{DataType, Field};

use super::captures::Message;

/// Number of bytes before the messages. They choose options.
const CHOICES: usize = 4;
/// Separates messages. None of its bytes occurs in UTF-8.
const NEXT_MESSAGE: [u8; 4] = [0xF8, 0xF9, 0xFA, 0xFB];
/// Separates the key of a message from its value.
const NEXT_PART: [u8; 4] = [0xFB, 0xFA, 0xF9, 0xF8];
/// Maximum number of messages in an input, which keeps executions fast.
const MAX_MESSAGES: usize = 6;

/// A parsed fuzz input.
pub struct Input {
    pub choices: Choices,
    pub messages: Vec<Message>,
}

/// The leading bytes of an input.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choices([u8; CHOICES]);

impl Choices {
    /// Chooses one of `names` with the byte at `place`. Choices that share a byte have different divisors.
    pub fn pick<T: Clone>(self, place: usize, divisor: u8, names: &[T]) -> T {
        names[usize::from(self.0[place] / divisor) % names.len()].clone()
    }

    pub fn without_last(self) -> Self {
        let Choices([first, second, third, _]) = self;
        Choices([first, second, third, 0])
    }

    pub fn bit(self, place: usize, bit: u8) -> bool {
        self.0[place] >> bit & 1 == 1
    }
}

impl Input {
    pub fn parse(data: &[u8]) -> Input {
        let (choices, rest) = split_choices(data);
        let messages = split(rest, &NEXT_MESSAGE)
            .into_iter()
            .take(MAX_MESSAGES)
            .map(message)
            .collect();
        Input { choices, messages }
    }
}

/// Returns the choices and the bytes after them.
pub fn split_choices(data: &[u8]) -> (Choices, &[u8]) {
    let (head, rest) = data.split_at(data.len().min(CHOICES));
    let mut choices = [0; CHOICES];
    choices[..head.len()].copy_from_slice(head);
    (Choices(choices), rest)
}

/// Writes an input for [`Input::parse`].
pub fn compose(choices: [u8; CHOICES], messages: &[Message]) -> Vec<u8> {
    let bytes = |message: &Message| match (&message.key, &message.value) {
        (None, value) => value.clone().unwrap_or_default(),
        (Some(key), value) => [key, &NEXT_PART[..], value.as_deref().unwrap_or_default()].concat(),
    };
    let messages: Vec<Vec<u8>> = messages.iter().map(bytes).collect();
    [&choices[..], &messages.join(&NEXT_MESSAGE[..])].concat()
}

fn message(bytes: &[u8]) -> Message {
    let value = |bytes: &[u8]| (!bytes.is_empty()).then(|| bytes.to_vec());
    match split(bytes, &NEXT_PART)[..] {
        [key, rest, ..] => Message {
            key: Some(key.to_vec()),
            value: value(rest),
        },
        _ => Message {
            key: None,
            value: value(bytes),
        },
    }
}

fn split<'d>(bytes: &'d [u8], separator: &[u8; 4]) -> Vec<&'d [u8]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, window) in bytes.windows(separator.len()).enumerate() {
        if at >= start && window == separator {
            parts.push(&bytes[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&bytes[start..]);
    parts
}

/// Returns messages like Kafka's records: columns `key` and `value`.
pub fn records(messages: &[Message]) -> StructArray {
    let column = |of: fn(&Message) -> Option<&[u8]>| {
        Arc::new(messages.iter().map(of).collect::<BinaryArray>()) as ArrayRef
    };
    let columns = [
        ("key", column(|message| message.key.as_deref())),
        ("value", column(|message| message.value.as_deref())),
    ];
    StructArray::from(
        columns
            .map(|(name, array)| (Arc::new(Field::new(name, DataType::Binary, true)), array))
            .to_vec(),
    )
}
