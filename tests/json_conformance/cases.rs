//! Cases: values that are JSON by RFC 8259, values that are not, and values that a reader may accept or refuse.

/// RFC 8259's verdict on a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// JSON, which every reader accepts.
    Json,
    /// Not JSON, which is refused everywhere.
    NotJson,
    /// Left to the reader by the RFC. `skipped`: towpath accepts it in a member that is not requested. `read`: towpath
    /// accepts it in a value that it converts. `docs/errors.md` lists these.
    Free { skipped: bool, read: bool },
}

use Verdict::{Free, Json, NotJson};

/// Limits of the reader only, or texts that are not characters: accepted everywhere, or refused everywhere.
const ACCEPTED: Verdict = Free {
    skipped: true,
    read: true,
};
const REFUSED: Verdict = Free {
    skipped: false,
    read: false,
};
/// Grammatical, but without a text: an error only if the text is needed.
const WITHOUT_TEXT: Verdict = Free {
    skipped: true,
    read: false,
};

/// A value and its verdict.
pub struct Case {
    pub name: &'static str,
    pub json: Vec<u8>,
    pub verdict: Verdict,
}

impl Case {
    /// Returns why serde_json, the second opinion, may differ. Each reason is a choice of towpath or of serde_json.
    pub fn why_serde_differs(&self) -> Option<&'static str> {
        match self.name {
            AT_THE_LIMIT => Some("serde_json stops one level earlier"),
            "arrays beyond the limit" | "arrays of 500 levels" | "objects beyond the limit" => {
                Some("serde_json skips any depth")
            }
            SURROGATE_IN_ARRAY | SURROGATE_IN_OBJECT => {
                Some("serde_json reads the texts in arrays and objects too")
            }
            _ => None,
        }
    }
}

/// Arrays with the maximum depth. They are one level too deep within an object that is read as a whole.
pub const AT_THE_LIMIT: &str = "arrays at the limit of 128 levels";
const SURROGATE_IN_ARRAY: &str = "a lone surrogate within an array, which is its own text";
const SURROGATE_IN_OBJECT: &str =
    "a lone surrogate in a name within an object, which is its own text";

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    let tables = [
        VALUES, NUMBERS, STRINGS, ARRAYS, OBJECTS, TRUNCATED, FOREIGN, FREE,
    ];
    let literal = tables
        .into_iter()
        .flatten()
        .map(|(name, json, verdict)| Case {
            name,
            json: json.to_vec(),
            verdict: *verdict,
        });
    literal.chain(generated()).collect()
}

type Row = (&'static str, &'static [u8], Verdict);

/// Single values, and white space around them.
const VALUES: &[Row] = &[
    ("null", b"null", Json),
    ("true", b"true", Json),
    ("false", b"false", Json),
    ("an integer", b"17", Json),
    ("a negative fraction", b"-0.25", Json),
    ("a text", b"\"harbour\"", Json),
    ("an empty text", b"\"\"", Json),
    ("blanks around a value", b"  17  ", Json),
    ("a line feed behind a value", b"17\n", Json),
    ("all four kinds of white space", b"\t\r\n 17 \n\r\t", Json),
    ("nothing", b"", NotJson),
    ("only a blank", b" ", NotJson),
    ("a word in capitals", b"NULL", NotJson),
    ("a word with a capital", b"False", NotJson),
    ("a word cut by one letter", b"tru", NotJson),
    ("a word cut to its first letter", b"n", NotJson),
    ("a word with a letter more", b"nulls", NotJson),
    ("two words in one", b"truefalse", NotJson),
    ("a word that is misspelled", b"flase", NotJson),
    ("undefined", b"undefined", NotJson),
    ("an identifier", b"harbour", NotJson),
    ("an identifier beyond ASCII", "håfen".as_bytes(), NotJson),
    ("an escape outside of a text", b"\\u0031", NotJson),
    ("an escaped line feed before a text", b"\\n\"a\"", NotJson),
    ("a text, then a word", b"\"a\" b", NotJson),
    ("a number, then a bracket", b"17]", NotJson),
    ("a number, then a brace", b"17}", NotJson),
    ("a colon", b":", NotJson),
    ("a comma", b",", NotJson),
    ("an asterisk", b"*", NotJson),
    ("a word in angle brackets", b"<null>", NotJson),
    ("angle brackets", b"<>", NotJson),
    ("a form feed before a value", b"\x0c17", NotJson),
    ("a vertical tab behind a value", b"17\x0b", NotJson),
    ("a form feed in an array", b"[\x0c]", NotJson),
    (
        "a no-break space before a value",
        "\u{a0}17".as_bytes(),
        NotJson,
    ),
    (
        "a word joiner before a value",
        "\u{2060}17".as_bytes(),
        NotJson,
    ),
    (
        "a word joiner in an array",
        "[\u{2060}]".as_bytes(),
        NotJson,
    ),
    (
        "a line separator before a value",
        "\u{2028}17".as_bytes(),
        NotJson,
    ),
    ("U+0000 before a value", b"\x0017", NotJson),
    ("U+0000 behind a value", b"17\x00", NotJson),
    ("U+0000 in an array", b"[1,\x002]", NotJson),
    ("U+0000 in a word", b"nu\x00ll", NotJson),
    ("a control character alone", b"\x01", NotJson),
    (
        "a comment of a line behind a value",
        b"17 // seventeen",
        NotJson,
    ),
    ("a comment before a value", b"/* seventeen */ 17", NotJson),
    ("a number sign behind a value", b"17#", NotJson),
];

/// Numbers keep their digits.
const NUMBERS: &[Row] = &[
    ("zero", b"0", Json),
    ("zero with a sign", b"-0", Json),
    ("zero as a fraction with a sign", b"-0.0", Json),
    ("a negative integer", b"-482", Json),
    ("the largest 64-bit integer", b"9223372036854775807", Json),
    ("the smallest 64-bit integer", b"-9223372036854775808", Json),
    ("a fraction", b"482.75", Json),
    ("a fraction that ends in zeros", b"1.500", Json),
    ("an exponent of zero", b"0e0", Json),
    ("an exponent with a plus", b"0e+3", Json),
    ("an exponent in capitals", b"4E7", Json),
    ("an exponent in capitals with a plus", b"4E+7", Json),
    ("an exponent in capitals with a minus", b"4E-7", Json),
    ("an exponent with leading zeros", b"4e007", Json),
    ("a fraction with an exponent", b"48.275e2", Json),
    ("a fraction with a negative exponent", b"-48.275e-2", Json),
    (
        "a number next to zero",
        b"-0.00000000000000000000000000000000000000000000000000000000000000000000000000000001",
        Json,
    ),
    ("a number near the largest double", b"1.7e308", Json),
    ("a plus sign", b"+4", NotJson),
    ("two plus signs", b"++4", NotJson),
    ("two minus signs", b"--4", NotJson),
    ("a plus and a minus", b"+-4", NotJson),
    ("a minus alone", b"-", NotJson),
    ("a minus and a blank", b"- 4", NotJson),
    ("a minus and a letter", b"-x", NotJson),
    ("a minus and a point", b"-.5", NotJson),
    ("a leading zero", b"04", NotJson),
    ("a leading zero behind a minus", b"-04", NotJson),
    ("two zeros", b"00", NotJson),
    ("a zero and a blank and a digit", b"0 4", NotJson),
    ("a leading zero before a fraction", b"00.5", NotJson),
    ("a point without a whole", b".5", NotJson),
    ("a point without a fraction", b"5.", NotJson),
    ("a minus, and a point without a fraction", b"-5.", NotJson),
    ("a point, then an exponent", b"5.e3", NotJson),
    ("a point, then an exponent with a plus", b"5.e+3", NotJson),
    ("a point, then an exponent with a minus", b"5.e-3", NotJson),
    (
        "a point before an exponent, without a whole",
        b".5e3",
        NotJson,
    ),
    ("a zero, a point and an exponent", b"0.e3", NotJson),
    ("two points", b"4.8.2", NotJson),
    ("two points in a row", b"4..8", NotJson),
    ("an exponent without digits", b"4e", NotJson),
    ("an exponent in capitals without digits", b"4E", NotJson),
    ("a zero with an exponent without digits", b"0e", NotJson),
    ("an exponent with a sign and no digits", b"4e+", NotJson),
    (
        "an exponent in capitals with a sign and no digits",
        b"0E-",
        NotJson,
    ),
    (
        "a fraction with an exponent without digits",
        b"4.8e",
        NotJson,
    ),
    ("a fraction with a sign and no digits", b"4.8e-", NotJson),
    ("two exponents", b"4e8e2", NotJson),
    ("two letters of an exponent", b"4eE8", NotJson),
    ("an exponent with two signs", b"4e+-8", NotJson),
    ("an exponent with a fraction", b"4e8.2", NotJson),
    ("a letter in an exponent", b"4ea", NotJson),
    ("digits with a separator", b"4_820", NotJson),
    ("digits with a comma", b"4'820", NotJson),
    ("digits with a blank", b"4 820", NotJson),
    ("a letter behind digits", b"482L", NotJson),
    ("a word behind digits", b"482px", NotJson),
    ("a hexadecimal number", b"0x1F", NotJson),
    ("a hexadecimal prefix", b"0x", NotJson),
    ("a binary number", b"0b11", NotJson),
    ("an octal number", b"0o17", NotJson),
    ("not a number", b"NaN", NotJson),
    ("not a number with a sign", b"-NaN", NotJson),
    ("infinity", b"Infinity", NotJson),
    ("negative infinity", b"-Infinity", NotJson),
    ("infinity, short, with a plus", b"+Inf", NotJson),
    ("infinity, short", b"Inf", NotJson),
    ("a sum", b"4+8", NotJson),
    ("a full-width digit", "４".as_bytes(), NotJson),
    ("an Arabic digit", "٤".as_bytes(), NotJson),
    ("a byte that is not UTF-8 in an integer", b"4\xe58", NotJson),
    ("a byte that is not UTF-8 behind digits", b"48\xe5", NotJson),
    (
        "a byte that is not UTF-8 in an exponent",
        b"4e1\xe5",
        NotJson,
    ),
    (
        "a byte that is not UTF-8 behind the letter of an exponent",
        b"4e\xe5",
        NotJson,
    ),
];

const STRINGS: &[Row] = &[
    ("a text beyond ASCII", "\"Zürich 東京\"".as_bytes(), Json),
    (
        "characters of one to four bytes",
        "\"aé東🚢\"".as_bytes(),
        Json,
    ),
    (
        "escapes of two, three and four bytes",
        br#""\u0061\u00e9\u6771\ud83d\udea2""#,
        Json,
    ),
    (
        "two surrogate pairs",
        br#""\ud83d\udea2\ud83c\udf0a""#,
        Json,
    ),
    ("a surrogate pair in capitals", br#""\uD83D\uDEA2""#, Json),
    ("the last surrogate pair", br#""\udbff\udfff""#, Json),
    ("every short escape", br#""\"\\\/\b\f\n\r\t""#, Json),
    ("an escaped backslash before a u", br#""\\u0031""#, Json),
    ("an escaped backslash before a letter", br#""\\n""#, Json),
    ("an escaped backslash before the end", br#""C:\\""#, Json),
    ("an escaped quote", br#""say \"ahoy\"""#, Json),
    ("an escaped quote by its number", br#""\u0022""#, Json),
    ("an escaped backslash by its number", br#""\u005C""#, Json),
    ("U+0000 by its number", br#""a\u0000b""#, Json),
    ("a control character by its number", br#""\u001F""#, Json),
    ("a line feed by its number", br#""a\u000Ab""#, Json),
    ("a no-break space by its number", br#""a\u00A0b""#, Json),
    ("a noncharacter by its number", br#""\uFFFF""#, Json),
    ("comments", br#""a/*b*/c//d#e""#, Json),
    ("a blank", b"\" \"", Json),
    ("the delete character", b"\"a\x7fb\"", Json),
    (
        "a control character of Latin-1",
        "\"a\u{85}b\"".as_bytes(),
        Json,
    ),
    ("the line separator", "\"a\u{2028}b\"".as_bytes(), Json),
    ("the paragraph separator", "\"a\u{2029}b\"".as_bytes(), Json),
    ("a space of no width", "\"a\u{200b}b\"".as_bytes(), Json),
    ("an invisible plus", "\"a\u{2064}b\"".as_bytes(), Json),
    (
        "a byte order mark within a text",
        "\"\u{feff}a\"".as_bytes(),
        Json,
    ),
    ("the noncharacter U+FFFE", "\"\u{fffe}\"".as_bytes(), Json),
    ("the noncharacter U+FFFF", "\"\u{ffff}\"".as_bytes(), Json),
    ("the noncharacter U+FDD0", "\"\u{fdd0}\"".as_bytes(), Json),
    ("the noncharacter U+1FFFE", "\"\u{1fffe}\"".as_bytes(), Json),
    (
        "the noncharacter U+10FFFE",
        "\"\u{10fffe}\"".as_bytes(),
        Json,
    ),
    ("the last code point", "\"\u{10ffff}\"".as_bytes(), Json),
    (
        "a code point that is not assigned",
        "\"\u{1bfff}\"".as_bytes(),
        Json,
    ),
    (
        "combining characters",
        "\"e\u{301}\u{323}\"".as_bytes(),
        Json,
    ),
    ("a quote", b"\"", NotJson),
    ("a quote that stands alone", b"'", NotJson),
    ("apostrophes for quotes", b"'ahoy'", NotJson),
    ("typographic quotes", "“ahoy”".as_bytes(), NotJson),
    ("a text without quotes, with an escape", br"a\n", NotJson),
    (
        "a letter beyond ASCII without quotes",
        "é".as_bytes(),
        NotJson,
    ),
    ("a text that is not closed", b"\"ahoy", NotJson),
    (
        "a text that ends in an escaped quote",
        br#""ahoy\""#,
        NotJson,
    ),
    ("a text that ends in a backslash", br#""ahoy\"#, NotJson),
    ("three quotes", b"\"\"\"", NotJson),
    ("two texts in a row", b"\"a\" \"b\"", NotJson),
    ("an escape that JSON lacks", br#""\x61""#, NotJson),
    ("an escaped apostrophe", br#""\'""#, NotJson),
    ("an escaped letter", br#""\a""#, NotJson),
    ("an escaped zero", br#""\0""#, NotJson),
    ("octal digits behind a backslash", br#""\012""#, NotJson),
    ("an escape with a capital U", br#""\U00e9""#, NotJson),
    ("an escape in braces", br#""\u{e9}""#, NotJson),
    ("an escape without digits", br#""\u""#, NotJson),
    ("an escape with one digit", br#""\u0""#, NotJson),
    ("an escape with three digits", br#""\u00e""#, NotJson),
    (
        "an escape with a digit that is none",
        br#""\u00eg""#,
        NotJson,
    ),
    ("an escape with a sign", br#""\u+0e9""#, NotJson),
    ("an escape with a blank", br#""\u 0e9""#, NotJson),
    (
        "an escaped character beyond ASCII",
        "\"\\é\"".as_bytes(),
        NotJson,
    ),
    ("an escaped emoji", "\"\\🚢\"".as_bytes(), NotJson),
    ("an escaped line feed", b"\"a\\\nb\"", NotJson),
    ("an escaped tab", b"\"a\\\tb\"", NotJson),
    ("an escaped U+0000", b"\"a\\\x00b\"", NotJson),
    (
        "a surrogate and the beginning of an escape",
        br#""\ud83d\""#,
        NotJson,
    ),
    (
        "a surrogate and an escape without digits",
        br#""\ud83d\u""#,
        NotJson,
    ),
    (
        "a surrogate and an escape with one digit",
        br#""\ud83d\ud""#,
        NotJson,
    ),
    (
        "a surrogate and an escape with three digits",
        br#""\ud83d\ude2""#,
        NotJson,
    ),
    (
        "a surrogate and an escape that JSON lacks",
        br#""\ud83d\x""#,
        NotJson,
    ),
    ("a line feed in a text", b"\"a\nb\"", NotJson),
    ("a carriage return in a text", b"\"a\rb\"", NotJson),
    ("a tab in a text", b"\"a\tb\"", NotJson),
    ("U+0000 in a text", b"\"a\x00b\"", NotJson),
    ("U+001F in a text", b"\"a\x1fb\"", NotJson),
    (
        "a control character behind 40 others",
        b"\"0123456789012345678901234567890123456789\x02\"",
        NotJson,
    ),
    (
        "a byte that is not UTF-8 in an escape",
        b"\"\\u00e\xe5\"",
        NotJson,
    ),
    (
        "a byte that is not UTF-8 behind a backslash",
        b"\"\\\xe5\"",
        NotJson,
    ),
    (
        "a byte that is not UTF-8 behind an escape",
        b"\"\\n\xe5\"",
        NotJson,
    ),
];

const ARRAYS: &[Row] = &[
    ("an empty array", b"[]", Json),
    ("an array of an array", b"[[]]", Json),
    ("an array of an empty text", b"[\"\"]", Json),
    (
        "an array of each type",
        br#"[null,true,-4.5,"a",[],{}]"#,
        Json,
    ),
    ("several nulls", b"[4,null,null,null,8]", Json),
    ("an array with white space", b" [ 4 ,\n\t8\r\n] ", Json),
    ("an empty array with white space", b"[ \n ]", Json),
    ("arrays with blanks between them", b"[[] ,[ ]]", Json),
    ("a comma behind the last element", b"[4,]", NotJson),
    ("two commas behind the last element", b"[4,,]", NotJson),
    ("two commas between elements", b"[4,,8]", NotJson),
    ("a comma before the first element", b"[,4]", NotJson),
    ("a comma alone in an array", b"[,]", NotJson),
    ("a blank between elements", b"[4 8]", NotJson),
    ("words without a comma", b"[4 true]", NotJson),
    ("arrays without a comma", b"[[4][8]]", NotJson),
    ("texts without a comma", br#"["a""b"]"#, NotJson),
    ("a colon between elements", br#"["a":4]"#, NotJson),
    ("a semicolon between elements", b"[4;8]", NotJson),
    ("an asterisk in an array", b"[*]", NotJson),
    ("a minus in an array", b"[-]", NotJson),
    ("a bracket closed twice", b"[4]]", NotJson),
    ("a comma behind an array", b"[4],", NotJson),
    ("an array, then a word", b"[4]a", NotJson),
    ("two arrays", b"[][]", NotJson),
    ("a bracket that closes nothing", b"]", NotJson),
    ("a bracket that is not closed", b"[", NotJson),
    ("two brackets that are not closed", b"[[", NotJson),
    ("an element without the end of its array", b"[4", NotJson),
    ("an element and a comma without the end", b"[4,", NotJson),
    (
        "an empty text without the end of its array",
        b"[\"\"",
        NotJson,
    ),
    (
        "lines without the end of their array",
        b"[\"a\",\n4\n,8",
        NotJson,
    ),
    ("an object without the end of its array", b"[{}", NotJson),
    ("an array closed by a brace", b"[4}", NotJson),
    ("a brace in an array", b"[{]", NotJson),
    ("a byte that is not UTF-8 in an array", b"[\xff]", NotJson),
    (
        "a byte that is not UTF-8 behind a word",
        b"[a\xe5]",
        NotJson,
    ),
    ("a cut word in an array", b"[nul]", NotJson),
    ("a cut word at the end of an array", b"[true,fals]", NotJson),
    ("a comment in an array", b"[4, /* eight */ 8]", NotJson),
];

const OBJECTS: &[Row] = &[
    ("an empty object", b"{}", Json),
    ("an object", br#"{"port":"Bergen"}"#, Json),
    (
        "an object of two members",
        br#"{"port":"Bergen","berths":12}"#,
        Json,
    ),
    (
        "an object in lines",
        b"{\n\t\"port\" : \"Bergen\"\r\n}",
        Json,
    ),
    ("a member with an empty name", br#"{"":4}"#, Json),
    (
        "a name with U+0000 by its number",
        br#"{"po\u0000rt":4}"#,
        Json,
    ),
    ("a name that is escaped", br#"{"\u0070ort":4}"#, Json),
    ("names beyond ASCII", "{\"港\":\"é\"}".as_bytes(), Json),
    ("a name that occurs twice", br#"{"port":1,"port":2}"#, Json),
    (
        "a member that occurs twice",
        br#"{"port":1,"port":1}"#,
        Json,
    ),
    ("objects in objects", br#"{"a":{"b":{"c":[{}]}}}"#, Json),
    (
        "extreme numbers",
        br#"{"least":-1.0e+28,"most":1.0e+28}"#,
        Json,
    ),
    ("a comma behind the last member", br#"{"a":4,}"#, NotJson),
    (
        "several commas behind the last member",
        br#"{"a":4,,,}"#,
        NotJson,
    ),
    ("two commas between members", br#"{"a":4,,"b":8}"#, NotJson),
    ("a comma before the first member", br#"{,"a":4}"#, NotJson),
    ("a comma alone in an object", b"{,}", NotJson),
    ("members without a comma", br#"{"a":4 "b":8}"#, NotJson),
    ("a semicolon between members", br#"{"a":4;"b":8}"#, NotJson),
    ("a name without a colon", br#"{"a" 4}"#, NotJson),
    ("a name without a value", br#"{"a":}"#, NotJson),
    ("a name alone", br#"{"a"}"#, NotJson),
    ("a name and a comma", br#"{"a",4}"#, NotJson),
    ("a name and a colon without the end", br#"{"a":"#, NotJson),
    ("a value without a name", br#"{:4}"#, NotJson),
    ("two colons", br#"{"a"::4}"#, NotJson),
    ("an equals sign", br#"{"a"=4}"#, NotJson),
    ("a name without quotes", b"{a:4}", NotJson),
    ("a name in apostrophes", b"{'a':4}", NotJson),
    ("a name that is a number", b"{4:8}", NotJson),
    ("a name that is a huge number", b"{9999E9999:8}", NotJson),
    ("a name that is null", b"{null:null,null:null}", NotJson),
    ("a name that is an array", b"{[]:4}", NotJson),
    ("a name that begins with a bracket", b"{[\"a\":4}", NotJson),
    ("a name that is an emoji", "{🚢:4}".as_bytes(), NotJson),
    ("a value that is a word", br#"{"a":b}"#, NotJson),
    ("a value that is not closed", br#"{"a":"b}"#, NotJson),
    ("an object that is not closed", br#"{"a":4"#, NotJson),
    ("a brace that is not closed", b"{", NotJson),
    (
        "a comma without the end of its object",
        br#"{"a":4,"#,
        NotJson,
    ),
    (
        "a comma in place of the closing brace",
        br#"{"a":true,"#,
        NotJson,
    ),
    ("a text without the end of its object", br#"{"a"#, NotJson),
    ("a bracket without the end of its object", b"{[", NotJson),
    ("an object closed by a bracket", br#"{"a":4]"#, NotJson),
    ("a brace closed by a bracket", b"{]", NotJson),
    ("a brace closed twice", b"{}}", NotJson),
    ("an object, then a word", br#"{"a":4}b"#, NotJson),
    ("an object, then a number sign", br#"{"a":4}#"#, NotJson),
    ("an object, then a comment", br#"{"a":4}/**/"#, NotJson),
    (
        "an object, then the beginning of a comment",
        br#"{"a":4}/**//"#,
        NotJson,
    ),
    ("an object, then a slash", br#"{"a":4}/"#, NotJson),
    (
        "an object, then a comment of a line",
        br#"{"a":4}//"#,
        NotJson,
    ),
    ("a comment in an object", br#"{"a":/*b*/4}"#, NotJson),
    (
        "a byte that is not UTF-8 in a name",
        b"{\"\xb9\":4,}",
        NotJson,
    ),
    (
        "a byte that is not UTF-8 behind a name",
        b"{\"a\"\xb9:4}",
        NotJson,
    ),
];

/// Structures that end early in other ways than above.
const TRUNCATED: &[Row] = &[
    (
        "an array of an object that is not closed",
        b"[{\"a\":[",
        NotJson,
    ),
    ("an open object and text", b"{\"a\":\"b", NotJson),
    ("an open array and apostrophe", b"['", NotJson),
    ("an open array and letter", b"[\"a", NotJson),
    ("an open array and text", b"[\"a\"", NotJson),
    ("an open array and comma", b"[,", NotJson),
    ("an open array, brace and text", b"[{\"a\"", NotJson),
    ("an open object and apostrophes", b"{'a'", NotJson),
    ("a cut surrogate pair", br#"["\ud83d\ude"#, NotJson),
    ("an escape at the end", br#"["\"#, NotJson),
    (
        "a byte order mark of which a byte is missing",
        b"\xef\xbb17",
        NotJson,
    ),
];

/// Other encodings and languages.
const FOREIGN: &[Row] = &[
    ("a byte that is not UTF-8", b"\xe9", NotJson),
    ("a byte order mark of UTF-16", b"\xff\xfe", NotJson),
    ("YAML", b"port: Bergen", NotJson),
    ("XML", b"<port>Bergen</port>", NotJson),
    ("a regular expression", b"/a/", NotJson),
    ("a function", b"fetch({\"a\":4})", NotJson),
    ("a template text", b"`ahoy`", NotJson),
];

/// Values that RFC 8259 leaves to a reader.
const FREE: &[Row] = &[
    ("an exponent beyond a double", b"4e1000", ACCEPTED),
    ("a negative number beyond a double", b"-4e1000", ACCEPTED),
    (
        "an exponent beyond 64 bits",
        b"4e99999999999999999999",
        ACCEPTED,
    ),
    ("an exponent that makes it zero", b"4e-1000", ACCEPTED),
    (
        "a fraction that makes it zero, beyond 64 bits",
        b"-4.8e-99999999999999999999",
        ACCEPTED,
    ),
    (
        "an integer beyond 64 bits",
        b"18446744073709551616",
        ACCEPTED,
    ),
    (
        "a negative integer beyond 64 bits",
        b"-9223372036854775809",
        ACCEPTED,
    ),
    (
        "an integer of 60 digits",
        b"123456789012345678901234567890123456789012345678901234567890",
        ACCEPTED,
    ),
    (
        "a fraction of 40 digits",
        b"0.1234567890123456789012345678901234567890",
        ACCEPTED,
    ),
    ("a high surrogate alone", br#""\ud83d""#, WITHOUT_TEXT),
    ("a low surrogate alone", br#""\udea2""#, WITHOUT_TEXT),
    (
        "a high surrogate before a letter",
        br#""\ud83da""#,
        WITHOUT_TEXT,
    ),
    (
        "a high surrogate before an escape",
        br#""\ud83d\n""#,
        WITHOUT_TEXT,
    ),
    (
        "a high surrogate before another character",
        br#""\ud83d\u0061""#,
        WITHOUT_TEXT,
    ),
    ("two high surrogates", br#""\ud83d\ud83d""#, WITHOUT_TEXT),
    (
        "two high surrogates and a low one",
        br#""\ud83d\ud83d\udea2""#,
        WITHOUT_TEXT,
    ),
    (
        "surrogates in the wrong order",
        br#""\udea2\ud83d""#,
        WITHOUT_TEXT,
    ),
    (SURROGATE_IN_ARRAY, br#"["\ud83d"]"#, ACCEPTED),
    (SURROGATE_IN_OBJECT, br#"{"\udea2":4}"#, ACCEPTED),
    ("a byte of Latin-1", b"\"caf\xe9\"", REFUSED),
    ("a continuation byte alone", b"\"a\x81b\"", REFUSED),
    ("a character cut by its end", b"\"a\xe6\x9d\"", REFUSED),
    ("an overlong slash of two bytes", b"\"\xc0\xaf\"", REFUSED),
    (
        "an overlong slash of three bytes",
        b"\"\xe0\x80\xaf\"",
        REFUSED,
    ),
    (
        "an overlong character of six bytes",
        b"\"\xfc\x83\xbf\xbf\xbf\xbf\"",
        REFUSED,
    ),
    ("an overlong U+0000", b"\"\xc0\x80\"", REFUSED),
    ("a surrogate in UTF-8", b"\"\xed\xa0\x80\"", REFUSED),
    (
        "a code point beyond the last",
        b"\"\xf4\x90\x80\x80\"",
        REFUSED,
    ),
    ("bytes that never are UTF-8", b"\"\xfe\xff\"", REFUSED),
    (
        "UTF-16 with its byte order mark",
        b"\xff\xfe[\0\"\0a\0\"\0]\0",
        REFUSED,
    ),
    ("UTF-16 of the other order", b"\0[\0\"\0a\0\"\0]", REFUSED),
    (
        "UTF-16 without a byte order mark",
        b"[\0\"\0a\0\"\0]\0",
        REFUSED,
    ),
];

fn generated() -> Vec<Case> {
    let nested = |open: &str, close: &str, levels: usize| {
        [open.repeat(levels), close.repeat(levels)]
            .concat()
            .into_bytes()
    };
    let case = |name, json, verdict| Case {
        name,
        json,
        verdict,
    };
    vec![
        case(
            "a long text",
            format!("\"{}\"", "Bergen, Oslo; ".repeat(30)).into_bytes(),
            Json,
        ),
        case(
            "a long name",
            format!("{{\"{}\":4}}", "Bergen".repeat(50)).into_bytes(),
            Json,
        ),
        case(
            "many elements",
            format!("[{}4]", "4,".repeat(500)).into_bytes(),
            Json,
        ),
        case("arrays of 100 levels", nested("[", "]", 100), Json),
        case(AT_THE_LIMIT, nested("[", "]", 128), ACCEPTED),
        case("arrays beyond the limit", nested("[", "]", 130), REFUSED),
        case("arrays of 500 levels", nested("[", "]", 500), REFUSED),
        case(
            "objects beyond the limit",
            nested("{\"a\":[", "]}", 65),
            REFUSED,
        ),
        case("10,000 opening brackets", nested("[", "", 10_000), NotJson),
        case(
            "5,000 opening objects and arrays",
            nested("[{\"\":", "", 5_000),
            NotJson,
        ),
        case("10,000 closing brackets", nested("", "]", 10_000), NotJson),
    ]
}
