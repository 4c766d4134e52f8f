//! Batches on which both readers once differed, in their shortest form.

use towpath::Options;

use crate::batches::Message;
use crate::compare::{compare, report};
use crate::settings::Feeding;

/// Checks under the default options of this dialect.
fn agree(dialect: &str, messages: &[String]) {
    let options = Options {
        dialect: dialect.into(),
        ..Options::default()
    };
    let of = |text: &String| Message {
        key: None,
        value: Some(text.clone().into_bytes()),
    };
    // Repeat the messages, so that any of them can become a template of the others.
    let messages: Vec<Message> = messages.iter().chain(messages).map(of).collect();
    if compare(&options, &messages, Feeding::Binary).is_err() {
        let check = |options: &Options, messages: &[Message], feeding| {
            compare(options, messages, feeding).map(drop)
        };
        panic!("{}", report(&options, &messages, Feeding::Binary, check));
    }
}

/// The row before the change in the order of the template, and the row after it in another order.
#[test]
fn old_rows_that_stand_first_have_the_order_of_the_rows_behind_them() {
    let update = |types: &str, old: &str, data: &str| {
        let begin = r#"{"id":0,"database":"shop","table":"orders","pkNames":null,"isDdl":false,"type":"UPDATE","es":1763000000007,"#;
        let middle = format!(
            r#""ts":1763000000037,"sql":"","sqlType":{{"id":-5,"total":-5}},"mysqlType":{{{types}}},"#
        );
        format!(
            r#"{begin}{middle}"old":[{{{old}}}],"data":[{{{data}}}],"_tidb":{{"commitTs":450387397223645303}}}}"#
        )
    };
    let values = [r#""id":"0","total":"0""#, r#""total":"0","id":"0""#];
    let types = [
        r#""id":"bigint","total":"bigint""#,
        r#""total":"bigint","id":"bigint""#,
    ];
    let pairs = [0, 1, 2, 3].map(|at| (values[at % 2], values[at / 2]));
    for (old, data) in pairs {
        for (other_old, other_data) in pairs {
            agree(
                "canal-json",
                &[
                    update(types[1], old, data),
                    update(types[0], other_old, other_data),
                ],
            );
        }
    }
}

/// A column that is declared twice, and the types in two orders.
#[test]
fn types_that_are_declared_twice_have_their_order() {
    let change = |kind: &str, types: &str| {
        let row = r#"{"note":"0","note_2":"0","id":"0","note_20":"0"}"#;
        let before = if kind == "UPDATE" {
            format!("[{row}]")
        } else {
            "[]".to_owned()
        };
        let rest = r#""isDdl":false,"entryType":"ROWDATA","jdbcType":null,"pks":[],"schema":"shop","sql":"","table":"orders"}"#;
        format!(
            r#"{{"action":"{kind}","before":{before},"bid":0,"data":[{row}],"db":"shop","dbValType":{{{types}}},{rest}"#
        )
    };
    let one = r#""note":"bigint","note_2":"bigint","id":"bigint","id":"bigint","note_20":"bigint""#;
    let other =
        r#""note_20":"bigint","note_2":"bigint","id":"bigint","id":"bigint","note":"bigint""#;
    for kind in ["UPDATE", "DELETE"] {
        agree(
            "cloudcanal-json",
            &[change(kind, one), change("DELETE", other)],
        );
        agree(
            "cloudcanal-json",
            &[change(kind, other), change("DELETE", one)],
        );
    }
}

/// The operation is a delete, but only the row after the change exists.
#[test]
fn deletes_without_a_row_before_are_errors() {
    let change = |op: &str, before: &str, after: &str| {
        format!(
            r#"{{"op":"{op}","ts_ms":1763000000000,"after":{after},"before":{before},"source":{{"db":"shop","table":"orders"}}}}"#
        )
    };
    let row = r#"{"id":1}"#;
    for empty in ["{}", "null"] {
        let right = [
            change("c", empty, row),
            change("d", row, empty),
            change("u", row, row),
        ];
        let wrong = [
            change("d", empty, row),
            change("c", row, empty),
            change("u", row, empty),
            change("c", row, row),
            change("d", row, row),
        ];
        agree(
            "debezium-json",
            &right
                .iter()
                .flat_map(|right| {
                    wrong
                        .iter()
                        .flat_map(move |wrong| [right.clone(), wrong.clone()])
                })
                .collect::<Vec<_>>(),
        );
    }
}

/// Each punctuation mark between members in place of each other one: `"data":[}"id":"0"}]` and its kin.
#[test]
fn signs_in_wrong_places_are_errors() {
    let begin = r#"{"data":[{"id":"0","total":"1"}],"database":"shop","es":1763000000007,"id":0,"isDdl":false,"#;
    let end = r#""mysqlType":{"id":"bigint","total":"bigint"},"old":null,"pkNames":["id"],"sql":"","sqlType":{"id":-5,"total":-5},"#;
    let message = format!(r#"{begin}{end}"table":"orders","ts":1763000000037,"type":"INSERT"}}"#);
    let signs = ['{', '}', '[', ']', ',', ':', '"'];
    for (at, _) in message.match_indices(signs) {
        for sign in signs {
            let mut damaged = message.clone();
            damaged.replace_range(at..=at, &sign.to_string());
            agree(
                "canal-json",
                &[message.clone(), message.clone(), message.clone(), damaged],
            );
        }
    }
}

/// A row with a duplicate name, and a template of rows with this name once. The later value counts.
#[test]
fn names_that_a_row_has_twice_have_the_later_value() {
    let begin = r#"{"database":"shop","es":1763000000007,"id":0,"isDdl":false,"mysqlType":{"id":"bigint","total":"bigint"},"old":null,"#;
    let message = |row: &str| {
        format!(
            r#"{begin}"pkNames":["id"],"table":"orders","ts":1763000000037,"type":"INSERT","data":[{{{row}}}]}}"#
        )
    };
    let [id, total] = [r#""id":"0""#, r#""total":"1""#];
    for twice in [
        r#""id":"0","id":"2","total":"1""#,
        r#""total":"1","id":"0","total":"2""#,
        r#""id":"0","total":"1","id":"2""#,
    ] {
        let once = message(&format!("{id},{total}"));
        agree(
            "canal-json",
            &[once.clone(), once.clone(), once, message(twice)],
        );
    }
}

/// A column that is declared in two spellings, and the types in other orders.
#[test]
fn types_in_two_spellings_have_the_later_type() {
    let insert = |types: &str| {
        format!(
            r#"{{"data":[{{"id":"1","total":"2"}}],"database":"shop","table":"orders","pkNames":null,"isDdl":false,"type":"INSERT","es":1763000000007,"ts":1763000000037,"mysqlType":{{{types}}}}}"#
        )
    };
    let types = [
        r#""id":"int","`id`":"bigint","total":"int""#,
        r#""total":"int","`id`":"bigint","id":"int""#,
        r#""`id`":"bigint","total":"int","id":"int""#,
    ];
    for one in types {
        for other in types {
            agree("canal-json", &[insert(one), insert(one), insert(other)]);
        }
    }
}
