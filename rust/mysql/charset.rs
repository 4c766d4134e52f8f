//! Decoding of text in MySQL's character sets.

use std::borrow::Cow;

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, IBM866, ISO_8859_2, KOI8_R, SHIFT_JIS, UTF_16BE,
    UTF_16LE, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1256, WINDOWS_1257,
};

use crate::wire::utf8 as wire;

/// Returns whether a character set is UTF-8.
#[inline]
pub(crate) fn is_utf8(charset: &[u8]) -> bool {
    matches!(charset, b"utf8mb4" | b"utf8" | b"utf8mb3")
}

/// Decodes bytes of a character set. `None` if the bytes are not text at all. Fails with the reason if they cannot be
/// decoded.
#[inline]
pub(crate) fn decode<'a>(charset: &[u8], bytes: &'a [u8]) -> Result<Option<Cow<'a, str>>, String> {
    match charset {
        charset if is_utf8(charset) => utf8(bytes).map(Some),
        b"" | b"binary" => Ok(None),
        other => decode_non_utf8(&String::from_utf8_lossy(other), bytes).map(Some),
    }
}

#[inline]
fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    wire::utf8(bytes)
        .map(Cow::Borrowed)
        .ok_or_else(|| invalid("UTF-8"))
}

fn decode_non_utf8<'a>(charset: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, String> {
    match charset {
        "ascii" if bytes.is_ascii() => utf8(bytes),
        "ascii" => Err(invalid(charset)),
        // MySQL and Unicode's own table map two characters differently from GBK.
        "gb2312" => decode_with(GBK, charset, bytes).map(|text| {
            text.replace('\u{B7}', "\u{30FB}")
                .replace('\u{2014}', "\u{2015}")
                .into()
        }),
        "big5" if !is_unambiguous_big5(bytes) => Err(ambiguous(charset)),
        "gb18030" => decode_with(GB18030, charset, bytes).and_then(|text| {
            if text.contains(is_moved) {
                Err(ambiguous(charset))
            } else {
                Ok(text)
            }
        }),
        other => decode_with(
            encoding(other).ok_or_else(|| format!("unsupported character set {charset:?}"))?,
            charset,
            bytes,
        ),
    }
}

/// Returns the `encoding_rs` encoding identical to a MySQL character set. It leaves out sets that map some characters
/// differently (sjis, ujis, koi8u and others): a wrong character would be a silent wrong value.
fn encoding(charset: &str) -> Option<&'static Encoding> {
    Some(match charset {
        // Both map the five bytes that cp1252 leaves undefined to control characters.
        "latin1" => WINDOWS_1252,
        "gbk" => GBK,
        "big5" => BIG5,
        "utf16" | "ucs2" => UTF_16BE,
        "utf16le" => UTF_16LE,
        "latin2" => ISO_8859_2,
        "cp1250" => WINDOWS_1250,
        "cp1251" => WINDOWS_1251,
        "cp1256" => WINDOWS_1256,
        "cp1257" => WINDOWS_1257,
        "cp866" => IBM866,
        "koi8r" => KOI8_R,
        "euckr" => EUC_KR,
        "cp932" => SHIFT_JIS,
        "eucjpms" => EUC_JP,
        _ => return None,
    })
}

fn decode_with<'a>(
    encoding: &'static Encoding,
    charset: &str,
    bytes: &'a [u8],
) -> Result<Cow<'a, str>, String> {
    encoding
        .decode_without_bom_handling_and_without_replacement(bytes)
        .ok_or_else(|| invalid(charset))
}

/// Returns whether all Big5 tables map every character of the text to the same code point. They do for the ideographs
/// and most symbols, but not for the symbols that Big5's first table assigned twice, nor for the additions of ETEN and
/// HKSCS.
fn is_unambiguous_big5(bytes: &[u8]) -> bool {
    const ASSIGNED_TWICE: [u16; 18] = [
        0xA145, 0xA14E, 0xA15A, 0xA1C2, 0xA1C3, 0xA1C5, 0xA1E3, 0xA1F2, 0xA1F3, 0xA1FE, 0xA240,
        0xA241, 0xA242, 0xA244, 0xA246, 0xA247, 0xA2CC, 0xA2CE,
    ];
    let mut bytes = bytes.iter();
    while let Some(lead) = bytes.by_ref().find(|byte| !byte.is_ascii()) {
        let pair = u16::from_be_bytes([*lead, *bytes.next().unwrap_or(&0)]);
        let is_unambiguous = matches!(pair, 0xA140..=0xA3BF | 0xA440..=0xC67E | 0xC940..=0xF9DC)
            && !ASSIGNED_TWICE.contains(&pair);
        // The decoder rejects an incomplete pair.
        if !is_unambiguous && pair & 0xFF != 0 {
            return false;
        }
    }
    true
}

/// Returns whether GB18030 moved a character out of the private use area between its editions.
fn is_moved(c: char) -> bool {
    matches!(c, '\u{1E3F}' | '\u{9FB4}'..='\u{9FBB}' | '\u{E000}'..='\u{F8FF}' | '\u{FE10}'..='\u{FE19}')
}

#[cold]
fn ambiguous(charset: &str) -> String {
    format!("the text has a {charset} character whose mapping to Unicode is ambiguous")
}

#[cold]
fn invalid(charset: &str) -> String {
    format!("the bytes are not valid {charset}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_are_decoded_by_mysql_name() {
        // Python's codecs decode the same characters, except gb2312's first two: they follow MySQL's own table,
        // tab_gb2312_uni0.
        let cases: [(&str, &[u8], &str); 10] = [
            ("utf8mb4", "é中😀".as_bytes(), "é中😀"),
            ("latin1", b"caf\xe9 \x80\x81\xff", "café €\u{81}ÿ"),
            ("gbk", b"\xb6\xa9\xb5\xa5\xa1\xa4", "订单·"),
            ("gb2312", b"\xa1\xa4\xa1\xaa\xb6\xa9", "\u{30FB}\u{2015}订"),
            ("gb18030", b"\xa8\xba\xd6\xd0\x94\x39\xfc\x36", "ê中😀"),
            ("big5", b"\xa4\xa4\xa4\xe5", "中文"),
            ("utf16", b"\x4e\x2d\xd8\x3d\xde\x00", "中😀"),
            ("utf16le", b"\x2d\x4e", "中"),
            ("cp1251", b"\xcf\xf0\xe8", "При"),
            ("ascii", b"plain", "plain"),
        ];
        for (charset, bytes, text) in cases {
            assert_eq!(
                decode(charset.as_bytes(), bytes).unwrap().as_deref(),
                Some(text),
                "{charset}"
            );
        }
        assert_eq!(decode(b"", b"\xff"), Ok(None));
        assert_eq!(decode(b"binary", b"\xff"), Ok(None));
    }

    #[test]
    fn undecodable_bytes_are_errors() {
        for (charset, bytes) in [
            ("ascii", &b"\xe9"[..]),
            ("gbk", b"\xb6"),
            ("gb2312", b"\xff\xff"),
            ("big5", b"\xa4"),
            ("utf16", b"\xd8\x3d"),
        ] {
            assert_eq!(
                decode(charset.as_bytes(), bytes),
                Err(format!("the bytes are not valid {charset}"))
            );
        }
        assert_eq!(
            decode(b"utf8mb4", b"\xff"),
            Err("the bytes are not valid UTF-8".into())
        );
        for (charset, bytes) in [
            ("big5", b"\xa4\xa4\xa1\x45"),
            ("big5", b"a\xc6\xa1z"),
            ("gb18030", b"ab\xa6\xd9"),
        ] {
            assert_eq!(decode(charset.as_bytes(), bytes), Err(ambiguous(charset)));
        }
        assert_eq!(
            decode(b"swe7", b"plain"),
            Err("unsupported character set \"swe7\"".into())
        );
    }
}
