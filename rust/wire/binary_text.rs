//! Bytes as text: in base64 or in hexadecimal digits.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::error::{Fault, Kind, Result, excerpt};

/// Encoding of bytes as text: Debezium's `binary.handling.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryText {
    /// Base64. Debezium's mode `bytes` is base64 too, because JSON has no bytes.
    Base64,
    /// Base64 with `-` and `_`.
    Base64UrlSafe,
    /// Two hexadecimal digits per byte.
    Hex,
}

impl BinaryText {
    /// The names of the option `binary_handling_mode`.
    pub const NAMES: [(&'static str, BinaryText); 4] = [
        ("bytes", BinaryText::Base64),
        ("base64", BinaryText::Base64),
        ("base64-url-safe", BinaryText::Base64UrlSafe),
        ("hex", BinaryText::Hex),
    ];

    /// Returns the name of the encoding for errors.
    pub fn describe(self) -> &'static str {
        match self {
            BinaryText::Base64 | BinaryText::Base64UrlSafe => "base64 text",
            BinaryText::Hex => "hexadecimal text",
        }
    }

    /// Returns the bytes of a value's text.
    pub fn read(self, text: &str) -> Result<Vec<u8>> {
        self.decode(text).ok_or_else(|| self.refused(text))
    }

    #[cold]
    fn refused(self, text: &str) -> Fault {
        let fault = Fault::new(
            Kind::Type,
            format!("{} is not {}", excerpt(text), self.describe()),
        );
        if is_wkt(text) {
            fault.because("it is a geometry in WKT: request string".to_owned())
        } else {
            fault
        }
    }

    /// Returns the bytes, if the text is valid.
    pub fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            // Accept either alphabet: they are unambiguous, and producers mix them up.
            BinaryText::Base64 | BinaryText::Base64UrlSafe => base64(text),
            // MySQL prints such literals with a prefix.
            BinaryText::Hex => hexadecimal(text.strip_prefix("0x").unwrap_or(text)),
        }
    }
}

/// Returns whether text is a geometry in WKT: `POINT (0 0)`, with or without its SRID in front.
fn is_wkt(text: &str) -> bool {
    const KINDS: [&str; 7] = [
        "POINT",
        "LINESTRING",
        "POLYGON",
        "MULTIPOINT",
        "MULTILINESTRING",
        "MULTIPOLYGON",
        "GEOMETRYCOLLECTION",
    ];
    let text = text
        .rsplit_once(';')
        .filter(|(srid, _)| srid.starts_with("SRID="))
        .map_or(text, |(_, rest)| rest)
        .trim_start();
    let word = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    text.len() > word.len() && KINDS.iter().any(|kind| kind.eq_ignore_ascii_case(word))
}

/// Returns the bytes of base64 text, in either alphabet.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    STANDARD
        .decode(text)
        .or_else(|_| URL_SAFE.decode(text))
        .ok()
}

/// Returns the bytes of hexadecimal digits.
pub(crate) fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let bytes = pairs.iter().map(|[high, low]| {
        let high = char::from(*high).to_digit(16)?;
        Some((high * 16 + char::from(*low).to_digit(16)?) as u8)
    });
    bytes.collect()
}
