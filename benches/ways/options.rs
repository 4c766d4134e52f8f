//! towpath's options for each way and shape.

use towpath::{Options, TableSchema};

const WIDE: &str = "id bigint, user_id bigint, order_no string, status tinyint, quantity int, total decimal(10,2), \
    address string, country string, remark string, shipped_on date, placed_at timestamp_ntz, updated_at timestamp";
const NARROW: &str = "id bigint, status tinyint, total decimal(10,2), updated_at timestamp";
const THREE: &str = "id bigint, total decimal(10,2), updated_at timestamp";
const VALUE: &str = "id bigint, total decimal(10,2), body string";
/// Columns of `columns-N`, in turns.
const TURNS: [(&str, &str); 4] = [
    ("id", "bigint"),
    ("total", "decimal(10,2)"),
    ("order_no", "string"),
    ("updated_at", "timestamp"),
];

/// Returns the options of a way; `None` for a peer, which has no options.
pub fn options(shape: &str, dialect: &str, way: &str) -> Option<Options> {
    let typed = typed(shape, dialect);
    Some(match way {
        "towpath typed" | "towpath typed, none falls back" => typed,
        "towpath auto" => self::typed(shape, "auto"),
        "towpath after only" => Options {
            fields: names(&["op", "after", "event_time"]),
            ..typed
        },
        "towpath default fields" => Options {
            fields: None,
            ..typed
        },
        "towpath maps" => Options {
            schema: None,
            ..typed
        },
        "towpath 3 of 12" => Options {
            schema: ddl(THREE),
            ..typed
        },
        "towpath no templates" => Options {
            templates: false,
            ..typed
        },
        _ => return None,
    })
}

/// Returns options for both images, typed. Debezium's messages without a schema part need the connector's settings from
/// the user.
pub fn typed(shape: &str, dialect: &str) -> Options {
    let mut options = Options {
        dialect: dialect.into(),
        schema: ddl(&columns(shape)),
        fields: names(&["op", "before", "after", "event_time"]),
        ..Options::default()
    };
    if matches!(shape, "debezium" | "mixed") && matches!(dialect, "debezium-json" | "auto") {
        options.decimal_handling_mode = Some("precise".into());
        options.time_precision_mode = Some("adaptive_time_microseconds".into());
        options.column_types = vec![("placed_at".into(), "datetime".into())];
    }
    options
}

fn columns(shape: &str) -> String {
    match shape.split_once('-') {
        Some(("columns", count)) => turns(count.parse().expect("a number of columns")),
        Some(("value", _)) => VALUE.to_owned(),
        _ if shape == "narrow" => NARROW.to_owned(),
        _ => WIDE.to_owned(),
    }
}

/// Returns columns in turns. The names contain the index, except the first of each kind.
fn turns(count: usize) -> String {
    let columns = TURNS
        .iter()
        .cycle()
        .take(count)
        .enumerate()
        .map(|(at, (name, kind))| match at {
            0..4 => format!("{name} {kind}"),
            _ => format!("{name}_{at} {kind}"),
        });
    columns.collect::<Vec<_>>().join(", ")
}

fn ddl(text: &str) -> Option<TableSchema> {
    Some(TableSchema::Ddl(text.into()))
}

fn names(fields: &[&str]) -> Option<Vec<String>> {
    Some(fields.iter().map(|name| (*name).to_owned()).collect())
}
