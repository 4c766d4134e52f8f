//! What can go wrong, and where.
//!
//! A [`Fault`] is raised close to the bytes and knows only what it sees: a kind, a sentence, an address. It becomes an
//! [`Error`] where the message, the dialect and the field are known. Success pays for neither.

use std::fmt;

use crate::named::named_enum;

named_enum! {
    /// The kinds of error, by the names of `error.kind`.
    #[derive(Hash)]
    pub enum Kind {
        /// The bytes are not what the wire format demands (broken JSON).
        Syntax = "syntax",
        /// The bytes are not UTF-8, or a text cannot be what it must stand for (a lone surrogate, Latin-1 above U+00FF).
        Encoding = "encoding",
        /// The message is well-formed but is not the envelope that its dialect prescribes.
        Envelope = "envelope",
        /// A value is of another type than the column.
        Type = "type",
        /// A value is of the column's type but does not fit into it.
        Range = "range",
        /// A column is not in the message (`missing="error"`).
        Missing = "missing",
        /// Nesting beyond the bound.
        Depth = "depth",
        /// A value or a batch beyond what an Arrow array can hold.
        Size = "size",
        /// Compressed bytes that cannot be expanded, or expand beyond the bound.
        Compression = "compression",
    }
}

/// An error of a message or of one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of error.
    pub kind: Kind,
    /// Dialect, field, what was found and what was expected: `canal-json: after.total: "12,50" is not a decimal(10,2)`.
    pub message: String,
    /// The dialect that read the message.
    pub dialect: &'static str,
    /// The table's column, where it is one.
    pub column: Option<String>,
    /// Offset in the (expanded) message, in bytes, where it is known.
    pub byte: Option<usize>,
    /// Row of the input batch.
    pub row: usize,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error before its surroundings are known. Boxed, so that results stay small on the way up.
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
        Fault(Box::new(FaultParts { kind, what: what.into(), field: String::new(), byte: None }))
    }

    /// Names the byte of the message, unless one nearer to the cause is named already.
    pub fn at(mut self, byte: usize) -> Self {
        self.0.byte.get_or_insert(byte);
        self
    }

    /// The same fault in a message of which the part that was read begins at this byte.
    pub fn shifted(mut self, start: usize) -> Self {
        self.0.byte = self.0.byte.map(|byte| byte + start);
        self
    }

    /// The same fault where its byte is none of the message's value.
    pub fn forget_byte(mut self) -> Self {
        self.0.byte = None;
        self
    }

    /// Prepends a step of the field's path while the error travels up.
    pub fn within(mut self, step: &str) -> Self {
        let rest = std::mem::take(&mut self.0.field);
        self.0.field = if rest.is_empty() { step.to_owned() } else { format!("{step}.{rest}") };
        self
    }

    pub fn into_parts(self) -> FaultParts {
        *self.0
    }

    /// The error of the message in `row`.
    pub fn into_error(self, dialect: &'static str, column: Option<String>, row: usize) -> Error {
        let FaultParts { kind, what, field, byte } = *self.0;
        let message = if field.is_empty() { format!("{dialect}: {what}") } else { format!("{dialect}: {field}: {what}") };
        Error { kind, message, dialect, column, byte, row }
    }
}

/// Shortens a text that is quoted in an error, at a character's boundary.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}... ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
    }
}
