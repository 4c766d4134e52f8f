//! Labels of digits. A label of a producer that writes labels is a number of a producer that writes numbers.

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray};
use towpath::{Decoder, Mode, Options, TableSchema};

/// Returns the value of the column `x` with this type, printed as type `asked`. `None` for an error.
fn value(dialect: &str, declared: &str, text: &str, asked: &str) -> Option<String> {
    let message = match dialect {
        "river-json" => format!(
            r#"{{"binlog":"1@f","db":"shop","table":"t","event":"i","columns":[{{"n":"x","t":"{declared}","v":"{text}","null":false}}]}}"#
        ),
        "cloudcanal-json" => format!(
            r#"{{"action":"INSERT","data":[{{"x":"{text}"}}],"dbValType":{{"x":"{declared}"}}}}"#
        ),
        _ => format!(
            r#"{{"type":"INSERT","data":[{{"x":"{text}"}}],"mysqlType":{{"x":"{declared}"}}}}"#
        ),
    };
    let schema = Some(TableSchema::Ddl(format!("x {asked}")));
    let options = Options {
        dialect: dialect.into(),
        schema,
        mode: Mode::Permissive,
        ..Options::default()
    };
    // Decode several messages, so that templates are tried.
    let batch = Decoder::new(options)
        .unwrap()
        .decode(&BinaryArray::from(vec![message.as_bytes(); 4]))
        .unwrap();
    let column = arrow_cast(&batch["after"].as_struct()["x"]);
    assert!(column.iter().all(|value| *value == column[0]), "{column:?}");
    column[0].clone()
}

fn arrow_cast(column: &dyn Array) -> Vec<Option<String>> {
    match column.as_string_opt::<i32>() {
        Some(texts) => texts.iter().map(|text| text.map(str::to_owned)).collect(),
        None => column
            .as_primitive::<arrow_array::types::Int64Type>()
            .iter()
            .map(|number| number.map(|number| number.to_string()))
            .collect(),
    }
}

#[test]
fn a_declared_label_is_the_label() {
    // Type, text, label and its number in dialects with labels, label in dialects with numbers.
    let cases = [
        ("enum('0','1')", "1", "1", "2", "0"),
        ("enum('0','1')", "0", "0", "1", ""),
        ("enum('a','2','b')", "2", "2", "2", "2"),
        ("set('0','1','2')", "1,2", "1,2", "6", "1,2"),
        ("set('0','1','2')", "1", "1", "2", "0"),
        ("set('0','1','2')", "2", "2", "4", "1"),
        // The text is not a label, so it is a number in every dialect.
        ("enum('a','b')", "1", "a", "1", "a"),
        ("set('a','b')", "3", "a,b", "3", "a,b"),
        ("enum('a','b')", "b", "b", "2", "b"),
    ];
    for (declared, text, label, number, of_number) in cases {
        for dialect in ["cloudcanal-json", "river-json", "cloudcanal-canal-json"] {
            assert_eq!(
                value(dialect, declared, text, "string").as_deref(),
                Some(label),
                "{dialect} {declared} {text}"
            );
            assert_eq!(
                value(dialect, declared, text, "bigint").as_deref(),
                Some(number),
                "{dialect} {declared} {text}"
            );
        }
        assert_eq!(
            value("canal-json", declared, text, "string").as_deref(),
            Some(of_number),
            "{declared} {text}"
        );
    }
}

#[test]
fn labels_and_types_are_of_columns_in_any_case() {
    let message: &[u8] = br#"{"type":"INSERT","data":[{"STATUS":"2","flags":"3"}]}"#;
    let options = Options {
        schema: Some(TableSchema::Ddl("status string, Flags string".into())),
        labels: vec![("Status".into(), vec!["new".into(), "paid".into()])],
        column_types: vec![
            ("STATUS".into(), "enum('x')".into()),
            ("fLAGS".into(), "set('a','b')".into()),
        ],
        case_sensitive: false,
        dialect: "canal-json".into(),
        ..Options::default()
    };
    let batch = Decoder::new(options.clone())
        .unwrap()
        .decode(&BinaryArray::from(vec![message]))
        .unwrap();
    let after = batch["after"].as_struct();
    assert_eq!(
        [&after["status"], &after["Flags"]].map(|column| arrow_cast(column)[0].clone()),
        [Some("paid".into()), Some("a,b".into())]
    );
    let refused = Decoder::new(Options {
        case_sensitive: true,
        ..options
    })
    .err();
    assert_eq!(
        refused.as_deref(),
        Some("labels: \"Status\" is not a column of the schema")
    );
}
