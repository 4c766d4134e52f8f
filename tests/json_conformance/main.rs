//! JSON conformance: towpath accepts JSON by RFC 8259 and refuses everything else, at every place in a message.
//!
//! Each test puts each case into each place of a message: the whole message, a member that is not requested, a column,
//! the text of a JSON column, and Debezium's schema part. It decodes the case alone, after messages that make a
//! template, and repeated so that the case makes a template. The cases cover the same ground as
//! <https://github.com/nst/JSONTestSuite>, whose files are not used. serde_json is a second opinion.

mod cases;
mod places;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field};
use cases::{Case, Verdict, cases};
use places::{Expected, PLACES, Place, Use};
use towpath::{Decoder, Options, TableSchema};

/// Returns the key of a change in TiCDC's open protocol.
fn open_key() -> Vec<u8> {
    let head = br#"{"ts":450384410667647795,"scm":"shop","tbl":"orders","t":1}"#;
    [
        &1u64.to_be_bytes()[..],
        &(head.len() as u64).to_be_bytes(),
        head,
    ]
    .concat()
}

fn input(messages: &[Vec<u8>]) -> StructArray {
    let values: BinaryArray = messages
        .iter()
        .map(|message| Some(message.as_slice()))
        .collect();
    let keys = BinaryArray::from_iter_values(messages.iter().map(|_| open_key()));
    let field = |name: &str| Field::new(name, DataType::Binary, true).into();
    StructArray::from(vec![
        (field("value"), std::sync::Arc::new(values) as ArrayRef),
        (field("key"), std::sync::Arc::new(keys) as ArrayRef),
    ])
}

fn decoder(place: &Place, templates: bool) -> Decoder {
    let key = place.is_open.then(|| "key".to_owned());
    Decoder::new(Options {
        dialect: place.dialect.into(),
        schema: Some(place.schema()),
        key,
        templates,
        ..Options::default()
    })
    .unwrap()
}

/// Returns the text in column `v`, or in the member or element with the case.
fn value(after: &StructArray, row: usize) -> Option<String> {
    let of_texts = |texts: &ArrayRef, at: usize| {
        texts
            .is_valid(at)
            .then(|| texts.as_string::<i32>().value(at).to_owned())
    };
    let column = &after["v"];
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Struct(_) => of_texts(&column.as_struct()["a"], row),
        DataType::List(_) => {
            let elements = column.as_list::<i32>().value(row);
            if elements.is_empty() {
                None
            } else {
                of_texts(&elements, 0)
            }
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            let at = (0..entries.len())
                .find(|at| entries["key"].as_string::<i32>().value(*at) == "a")?;
            of_texts(&entries["value"], at)
        }
        _ => of_texts(column, row),
    }
}

/// Compares a row with the expected one. A refused case has an error, and loses no other readable value.
fn check(batch: &RecordBatch, row: usize, expected: &Expected) -> Result<(), String> {
    let (op, after, error) = (
        batch["op"].as_string::<i32>().value(row),
        batch["after"].as_struct(),
        batch["error"].as_struct(),
    );
    let message = error
        .is_valid(row)
        .then(|| error["message"].as_string::<i32>().value(row));
    let has_neighbours = || {
        after.is_valid(row)
            && after["id"].as_primitive::<Int64Type>().value(row) == 1
            && after["w"].is_valid(row)
            && after["w"].as_string::<i32>().value(row) == "x"
    };
    match (expected, message) {
        (Expected::Read(_), Some(message)) => Err(format!("an error: {message}")),
        (Expected::Read(_), None) if op != "insert" || !has_neighbours() => {
            Err(format!("{op} without its other columns"))
        }
        (Expected::Read(text), None) => match value(after, row) {
            found if found == *text => Ok(()),
            found => Err(format!("the value {found:?}")),
        },
        (Expected::Refused, None) => {
            Err(format!("no error, and the value {:?}", value(after, row)))
        }
        (Expected::Refused, Some(_)) if op == "error" && after.is_null(row) => Ok(()),
        (Expected::Refused, Some(_))
            if op == "insert" && has_neighbours() && after["v"].is_null(row) =>
        {
            let column = error["column"].as_string::<i32>();
            if column.is_valid(row) && column.value(row) == "v" {
                Ok(())
            } else {
                Err("an error of another column".into())
            }
        }
        (Expected::Refused, Some(message)) => Err(format!(
            "{op} with an error, and with lost or kept values: {message}"
        )),
    }
}

/// The usual value, from which a template is made.
const GOOD: &[u8] = b"\"g\"";

/// A place with its decoders, and the row of its usual message.
struct Bench {
    place: &'static Place,
    /// The fast path, which compares messages with an earlier one.
    with_templates: Decoder,
    without: Decoder,
    good: RecordBatch,
}

impl Bench {
    fn new(place: &'static Place) -> Self {
        let [with_templates, without] = [true, false].map(|templates| decoder(place, templates));
        let good = without.decode(&input(&[place.message(GOOD)])).unwrap();
        let text = if place.value == Use::Text {
            "\"g\""
        } else {
            "g"
        };
        check(&good, 0, &Expected::Read(Some(text.into()))).unwrap();
        Bench {
            place,
            with_templates,
            without,
            good,
        }
    }

    /// Checks all cases one after the other, with the ordinary reader.
    fn check_all(&self, cases: &[Case]) -> Vec<String> {
        let messages: Vec<_> = cases
            .iter()
            .map(|case| self.place.message(&case.json))
            .collect();
        let batch = self.without.decode(&input(&messages)).unwrap();
        assert_eq!(
            batch.num_rows(),
            messages.len(),
            "{} {}",
            self.place.dialect,
            self.place.name
        );
        let outcome = |(row, case): (usize, &Case)| {
            check(&batch, row, &self.place.expected(case))
                .err()
                .map(|what| self.tell(case, what))
        };
        cases.iter().enumerate().filter_map(outcome).collect()
    }

    /// Checks a case after messages that make a template, and repeated so that it makes one.
    fn check_among_others(&self, case: &Case) -> Result<(), String> {
        let (message, good) = (self.place.message(&case.json), self.place.message(GOOD));
        let messages = [vec![good.clone(); 3], vec![message; 3], vec![good]].concat();
        let batch = self.with_templates.decode(&input(&messages)).unwrap();
        if batch.num_rows() != messages.len() {
            return Err(format!(
                "{} rows of {} messages",
                batch.num_rows(),
                messages.len()
            ));
        }
        let expected = self.place.expected(case);
        (3..6).try_for_each(|row| check(&batch, row, &expected))?;
        match [0, 1, 2, 6]
            .into_iter()
            .find(|row| batch.slice(*row, 1) != self.good)
        {
            Some(row) => Err(format!("another row of its neighbour {row}")),
            None => Ok(()),
        }
    }

    fn tell(&self, case: &Case, what: String) -> String {
        format!(
            "{} {}: {}: {what}",
            self.place.dialect, self.place.name, case.name
        )
    }
}

#[test]
fn values_are_accepted_or_refused_wherever_they_are() {
    let cases = cases();
    let mut wrong = Vec::new();
    for bench in PLACES.iter().map(Bench::new) {
        wrong.extend(bench.check_all(&cases));
        let among_others = |case| {
            bench
                .check_among_others(case)
                .err()
                .map(|what| bench.tell(case, format!("among others, {what}")))
        };
        wrong.extend(cases.iter().filter_map(among_others));
        let has_no_template = matches!(
            bench.place.dialect,
            "ticdc-open" | "ticdc-simple" | "dms-json" | "dataworks-json"
        );
        // An object may be the value of a union in Avro's JSON. Only the ordinary reader finds out.
        let may_be_avro = bench.place.dialect == "debezium-json"
            && bench.place.name == "member of a nested JSON column";
        let has_template = !has_no_template && !may_be_avro;
        let templated = bench.with_templates.metrics().templated;
        assert_eq!(
            templated > cases.len() as u64,
            has_template,
            "{} {}: {templated}",
            bench.place.dialect,
            bench.place.name
        );
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        PLACES.len() * cases.len(),
        wrong.join("\n")
    );
}

/// No case is an envelope by itself. JSON is not a syntax error, and other text never becomes another kind of row.
#[test]
fn values_alone_are_errors() {
    let mut wrong = Vec::new();
    let cases = cases();
    let messages: Vec<_> = cases.iter().map(|case| case.json.clone()).collect();
    for dialect in [
        "canal-json",
        "debezium-json",
        "maxwell-json",
        "cloudcanal-json",
        "river-json",
        "ticdc-simple",
        "dms-json",
        "dataworks-json",
    ] {
        let batch = Decoder::new(Options {
            dialect: dialect.into(),
            ..Options::default()
        })
        .unwrap()
        .decode(&input(&messages))
        .unwrap();
        assert_eq!(batch.num_rows(), cases.len());
        let (ops, error) = (batch["op"].as_string::<i32>(), batch["error"].as_struct());
        for (row, case) in cases.iter().enumerate() {
            let kind = error
                .is_valid(row)
                .then(|| error["kind"].as_string::<i32>().value(row));
            let is_right = match (case.verdict, kind) {
                // A message without bytes is a tombstone.
                (_, None) => case.json.is_empty(),
                (Verdict::Json, Some(kind)) => kind == "envelope",
                (_, Some(_)) => ops.value(row) == "error",
            };
            if !is_right {
                wrong.push(format!(
                    "{dialect}: {}: {kind:?}: {}",
                    case.name,
                    error["message"].as_string::<i32>().value(row)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Texts that precede and follow a message.
const AROUND: &[(&str, &[u8], &[u8], bool)] = &[
    ("white space", b" \t\r\n", b" \t\r\n", true),
    ("a line feed behind", b"", b"\n", true),
    ("a byte order mark", b"\xef\xbb\xbf", b"", true),
    (
        "a byte order mark and white space",
        b"\xef\xbb\xbf \n",
        b"",
        true,
    ),
    (
        "two byte order marks",
        b"\xef\xbb\xbf\xef\xbb\xbf",
        b"",
        false,
    ),
    (
        "white space and a byte order mark",
        b" \xef\xbb\xbf",
        b"",
        false,
    ),
    ("a byte order mark behind", b"", b"\xef\xbb\xbf", false),
    ("a cut byte order mark", b"\xef\xbb", b"", false),
    ("a byte order mark of UTF-16", b"\xff\xfe", b"", false),
    ("U+0000 before", b"\x00", b"", false),
    ("U+0000 behind", b"", b"\x00", false),
    ("a form feed before", b"\x0c", b"", false),
    ("a form feed behind", b"", b"\x0c", false),
    ("a vertical tab behind", b"", b"\x0b", false),
    ("a no-break space behind", b"", b"\xc2\xa0", false),
    ("a word joiner before", b"\xe2\x81\xa0", b"", false),
    ("a next line character behind", b"", b"\xc2\x85", false),
    ("a brace behind", b"", b"}", false),
    ("a bracket behind", b"", b"]", false),
    ("a bracket before", b"[", b"", false),
    ("a comma behind", b"", b",", false),
    ("a comma before", b",", b"", false),
    ("a word behind", b"", b"x", false),
    ("null behind", b"", b"null", false),
    ("a number behind", b"", b" 4", false),
    ("a text behind", b"", b"\"\"", false),
    ("a number sign behind", b"", b"#", false),
    ("a comment behind", b"", b"/* */", false),
    ("a comment before", b"/* */", b"", false),
    ("a comment of a line behind", b"", b"// x", false),
    (
        "the beginning of a message behind",
        b"",
        b"\n{\"data\":",
        false,
    ),
    ("a byte that is not UTF-8 behind", b"", b"\xff", false),
    ("parentheses", b"(", b")", false),
    ("quotes", b"\"", b"\"", false),
    ("the prefix of a script", b")]}'\n", b"", false),
    // Several messages in one value are documented.
    ("an array of messages", b"[", b"]", true),
    (
        "an array of messages with white space",
        b" [ ",
        b" ] ",
        true,
    ),
    ("an array that ends in a comma", b"[", b",]", false),
    ("an array that ends in null", b"[", b",null]", false),
    ("an array of an array of messages", b"[[", b"]]", false),
];

/// Returns whether only towpath accepts a case: serde_json reads no byte order mark.
fn is_choice(name: &str) -> bool {
    name.starts_with("a byte order mark") && !name.ends_with("behind") && !name.ends_with("UTF-16")
}

#[test]
fn bytes_around_a_message_are_accepted_or_refused() {
    for place in PLACES
        .iter()
        .filter(|place| !place.is_open && place.value == Use::Column)
    {
        let decoders = [true, false].map(|templates| decoder(place, templates));
        let good = place.message(GOOD);
        for (name, before, behind, is_accepted) in AROUND {
            let message = [before, &good[..], behind].concat();
            let expected = if *is_accepted {
                Expected::Read(Some("g".into()))
            } else {
                Expected::Refused
            };
            for decoder in &decoders {
                let batch = decoder
                    .decode(&input(
                        &[
                            vec![good.clone(); 5],
                            vec![message.clone()],
                            vec![good.clone()],
                        ]
                        .concat(),
                    ))
                    .unwrap();
                assert_eq!(batch.num_rows(), 7, "{} {name}", place.dialect);
                let outcome = check(&batch, 5, &expected).and(check(
                    &batch,
                    6,
                    &Expected::Read(Some("g".into())),
                ));
                assert_eq!(outcome, Ok(()), "{} {name}", place.dialect);
            }
            if !is_choice(name) {
                let strict = serde_json::from_slice::<serde_json::Value>(&message).is_ok();
                let is_envelope = !matches!(
                    *name,
                    "quotes" | "an array of an array of messages" | "an array that ends in null"
                );
                assert_eq!(strict && is_envelope, *is_accepted, "{name}");
            }
        }
    }
}

/// serde_json is a second opinion on this table, because towpath reads row images with its own parser.
#[test]
fn serde_json_says_the_same() {
    for case in cases() {
        let read = serde_json::from_slice::<serde_json::Value>(&case.json).is_ok();
        let skipped = serde_json::from_slice::<&serde_json::value::RawValue>(&case.json).is_ok();
        let said = match case.verdict {
            Verdict::Json => (true, true),
            Verdict::NotJson => (false, false),
            Verdict::Free { skipped, read } => (skipped, read),
        };
        if case.why_serde_differs().is_none() {
            assert_eq!((skipped, read), said, "{}", case.name);
        }
    }
}

/// Two rows with one name, or with the same bytes, would make the table say less than it seems to.
#[test]
fn cases_differ() {
    let cases = cases();
    for (at, case) in cases.iter().enumerate() {
        let other = cases[..at]
            .iter()
            .find(|other| other.name == case.name || other.json == case.json);
        assert!(
            other.is_none(),
            "{} and {}",
            case.name,
            other.map_or("", |other| other.name)
        );
    }
}

/// Numbers that the RFC leaves to the reader keep their digits. The column's type decides about them.
#[test]
fn numbers_beyond_a_double_are_errors_of_their_column_only() {
    let cases: [(&str, &str, Result<&str, &str>); 10] = [
        ("4e1000", "double", Err("range")),
        ("-4e1000", "double", Err("range")),
        ("4e1000", "decimal(38,0)", Err("range")),
        ("4e99999999999999999999", "decimal(38,0)", Err("range")),
        ("4e1000", "bigint", Err("type")),
        ("4e-1000", "double", Ok("0.0")),
        ("4e-1000", "decimal(38,10)", Err("range")),
        ("18446744073709551616", "bigint", Err("range")),
        (
            "18446744073709551616",
            "decimal(20,0)",
            Ok("18446744073709551616"),
        ),
        (
            "0.1234567890123456789012345678901234567890",
            "double",
            Ok("0.12345678901234568"),
        ),
    ];
    let place = PLACES
        .iter()
        .find(|place| place.dialect == "maxwell-json" && place.value == Use::Column)
        .unwrap();
    for (number, column_type, expected) in cases {
        let schema = Some(TableSchema::Ddl(format!("id bigint, v {column_type}")));
        let options = Options {
            dialect: place.dialect.into(),
            schema,
            ..Options::default()
        };
        let batch = Decoder::new(options)
            .unwrap()
            .decode(&input(&[place.message(number.as_bytes())]))
            .unwrap();
        let (column, error) = (&batch["after"].as_struct()["v"], batch["error"].as_struct());
        let found = match column.data_type() {
            _ if error.is_valid(0) => Err(error["kind"].as_string::<i32>().value(0)),
            DataType::Float64 => Ok(format!(
                "{:?}",
                column.as_primitive::<Float64Type>().value(0)
            )),
            _ => Ok(column.as_primitive::<Decimal128Type>().value(0).to_string()),
        };
        assert_eq!(
            found.as_deref().map_err(|kind| *kind),
            expected,
            "{number} as {column_type}"
        );
    }
}
