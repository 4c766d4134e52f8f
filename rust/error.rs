//! Errors and their places.
//!
//! A [`Fault`] is created close to the bytes, with only local knowledge: a kind, a description, an offset. It becomes
//! an [`Error`] where the message, the dialect and the field are known. The success path pays for neither.

use std::borrow::Cow;
use std::fmt;

use crate::named::named_enum;

named_enum! {
    /// The kinds of error, by the names of `error.kind`.
    #[derive(Hash)]
    pub enum Kind {
        /// The bytes violate the wire format (broken JSON).
        Syntax = "syntax",
        /// The bytes are not UTF-8, or the text cannot be decoded (a lone surrogate, Latin-1 above U+00FF).
        Encoding = "encoding",
        /// The message is well-formed but not a valid envelope of its dialect.
        Envelope = "envelope",
        /// The type of a value does not match the column's.
        Type = "type",
        /// A value of the column's type is out of range.
        Range = "range",
        /// A column is missing from the message (`missing="error"`).
        Missing = "missing",
        /// Nesting beyond the limit.
        Depth = "depth",
        /// A value or a batch that exceeds the capacity of an Arrow array.
        Size = "size",
        /// Compressed bytes that cannot be expanded, or expand beyond the limit.
        Compression = "compression",
    }
}

/// An error of a message or of one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: Kind,
    /// Dialect, field, what was found and what was expected: `canal-json: after.total: "12,50" is not a decimal(10,2)`.
    pub message: String,
    /// The dialect that read the message.
    pub dialect: &'static str,
    /// The table's column, if the error concerns one.
    pub column: Option<String>,
    /// Byte offset in the (expanded) message, if known.
    pub byte: Option<usize>,
    /// Row in the input batch.
    pub row: usize,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error before its context is known. Boxed to keep `Result` small.
#[derive(Debug)]
pub(crate) struct Fault(Box<FaultParts>);

#[derive(Debug)]
pub(crate) struct FaultParts {
    pub kind: Kind,
    pub what: String,
    pub field: String,
    pub byte: Option<usize>,
}

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    #[cold]
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Fault(Box::new(FaultParts {
            kind,
            what: what.into(),
            field: String::new(),
            byte: None,
        }))
    }

    /// Sets the byte offset, unless one closer to the cause is set.
    pub fn at(mut self, byte: usize) -> Self {
        self.0.byte.get_or_insert(byte);
        self
    }

    /// Shifts the offset: from the part of the message that was read, which begins at `start`, to the whole message.
    pub fn shifted(mut self, start: usize) -> Self {
        self.0.byte = self.0.byte.map(|byte| byte + start);
        self
    }

    /// Clears the offset, for a fault outside the message's value.
    pub fn without_byte(mut self) -> Self {
        self.0.byte = None;
        self
    }

    /// Prepends a step to the field's path while the error propagates.
    pub fn within(mut self, step: &str) -> Self {
        let rest = std::mem::take(&mut self.0.field);
        self.0.field = if rest.is_empty() {
            step.to_owned()
        } else {
            format!("{step}.{rest}")
        };
        self
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Adds a reason to the text.
    pub fn because(mut self, reason: String) -> Self {
        self.0.what = format!("{}; {reason}", self.0.what);
        self
    }

    pub fn into_parts(self) -> FaultParts {
        *self.0
    }

    /// Converts to the error of the message in `row`.
    pub fn into_error(self, dialect: &'static str, column: Option<String>, row: usize) -> Error {
        let FaultParts {
            kind,
            what,
            field,
            byte,
        } = *self.0;
        let (field, what) = (shortened(&field, MAX_FIELD), shortened(&what, MAX_TEXT));
        let message = if field.is_empty() {
            format!("{dialect}: {what}")
        } else {
            format!("{dialect}: {field}: {what}")
        };
        Error {
            kind,
            message,
            dialect,
            column,
            byte,
            row,
        }
    }
}

/// Limits of an error's texts, in characters. Names and values in a message may be as long as the message.
const MAX_FIELD: usize = 200;
pub(crate) const MAX_TEXT: usize = 1000;

/// Truncates a text of an error.
pub(crate) fn shortened(text: &str, max_chars: usize) -> Cow<'_, str> {
    match truncated(text, max_chars) {
        None => Cow::Borrowed(text),
        Some(start) => Cow::Owned(format!("{start}... ({} bytes)", text.len())),
    }
}

/// Quotes a text for an error, and truncates it.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match truncated(text, MAX_CHARS) {
        None => format!("{text:?}"),
        Some(start) => format!("{start:?}... ({} bytes)", text.len()),
    }
}

/// Returns the first characters of a text, if the text is longer.
#[allow(clippy::string_slice, reason = "the end is a character's start")]
fn truncated(text: &str, max_chars: usize) -> Option<&str> {
    text.char_indices()
        .nth(max_chars)
        .map(|(end, _)| &text[..end])
}
