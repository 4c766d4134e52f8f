//! Debezium's envelope from Kafka Connect's JsonConverter, with the connector's default modes. Each row is a message.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{
    Binlog, Column, Image, Row, Statement, Table, instant, list, quoted, row_object, text,
};

pub(super) fn without_schema(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    statement
        .rows
        .iter()
        .enumerate()
        .map(|(at, row)| payload(binlog, &statement, row, at).into_bytes())
        .collect()
}

pub(super) fn with_schema(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    let schema = envelope_schema(statement.table);
    let messages = statement.rows.iter().enumerate().map(|(at, row)| {
        let payload = payload(binlog, &statement, row, at);
        format!(r#"{{"schema":{schema},"payload":{payload}}}"#).into_bytes()
    });
    messages.collect()
}

fn payload(binlog: &mut Binlog<'_>, statement: &Statement<'_>, row: &Row, at: usize) -> String {
    let object = |image: Option<&Image>| {
        image.map_or("null".to_owned(), |image| {
            row_object(statement.table, image, value)
        })
    };
    let (before, after) = (object(row.before.as_ref()), object(row.after.as_ref()));
    let op = match statement.kind {
        "INSERT" => "c",
        "UPDATE" => "u",
        _ => "d",
    };
    let (source, millis, rest) = (
        source(statement, at),
        execution(statement) + binlog.lag(),
        binlog.random.below(1_000_000),
    );
    format!(
        r#"{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":"{op}","#
    ) + &format!(
        r#""ts_ms":{millis},"ts_us":{millis}{:03},"ts_ns":{millis}{rest:06}}}"#,
        rest / 1000
    )
}

/// Returns the time when the server executed the change. MySQL gives whole seconds.
fn execution(statement: &Statement<'_>) -> u64 {
    (1_763_000_000 + statement.index / 50) * 1000
}

fn source(statement: &Statement<'_>, row: usize) -> String {
    let (millis, name, position) = (
        execution(statement),
        &statement.table.name,
        4_000_000 + statement.index * 700,
    );
    format!(
        r#"{{"version":"3.5.0.Final","connector":"mysql","name":"server","ts_ms":{millis},"snapshot":"false","db":"shop","#
    ) + &format!(
        r#""sequence":null,"ts_us":{millis}000,"ts_ns":{millis}000000,"table":"{name}","server_id":21,"gtid":null,"#
    ) + &format!(
        r#""file":"mysql-bin.000070","pos":{position},"row":{row},"thread":136,"query":null}}"#
    )
}

fn value(column: &Column, cell: &str) -> String {
    let Some(text) = text(cell) else {
        return "null".to_owned();
    };
    match column.base_type() {
        "bigint" | "int" | "tinyint" => text,
        "decimal" => quoted(BASE64_STANDARD.encode(shortest(
            text.replace('.', "").parse().expect("decimals are digits"),
        ))),
        "date" => (instant(&format!("{text} 00:00:00")).as_second() / 86_400).to_string(),
        "datetime" => instant(&text).as_millisecond().to_string(),
        "timestamp" => format!("{}Z", cell.replace(' ', "T").trim_end_matches('"')) + "\"",
        _ => cell.to_owned(),
    }
}

/// Returns the two's complement in the fewest possible bytes, big-endian.
fn shortest(unscaled: i64) -> Vec<u8> {
    let bytes = unscaled.to_be_bytes();
    let needless = (0..7)
        .take_while(|at| bytes[*at] == 0 && bytes[at + 1] < 0x80)
        .count();
    bytes[needless..].to_vec()
}

fn envelope_schema(table: &Table) -> String {
    let name = format!("server.shop.{}", table.name);
    let columns: Vec<String> = table.columns.iter().map(column_schema).collect();
    let image = |field: &str| structure(&columns, true, &format!("{name}.Value"), "", field);
    let transaction = [
        required("string", "id"),
        required("int64", "total_order"),
        required("int64", "data_collection_order"),
    ];
    let fields = [
        image("before"),
        image("after"),
        structure(
            &source_schema(),
            false,
            "io.debezium.connector.mysql.Source",
            r#""version":1,"#,
            "source",
        ),
        structure(
            &transaction,
            true,
            "event.block",
            r#""version":1,"#,
            "transaction",
        ),
        required("string", "op"),
        optional("int64", "ts_ms"),
        optional("int64", "ts_us"),
        optional("int64", "ts_ns"),
    ];
    format!(
        r#"{{"type":"struct","fields":{},"optional":false,"name":"{name}.Envelope","version":2}}"#,
        list(&fields)
    )
}

fn source_schema() -> [String; 17] {
    let allowed =
        "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental";
    let meaning = r#""name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":"#
        .to_owned()
        + &format!(r#""{allowed}"}},"default":"false","#);
    [
        required("string", "version"),
        required("string", "connector"),
        required("string", "name"),
        required("int64", "ts_ms"),
        field("string", true, &meaning, "snapshot"),
        required("string", "db"),
        optional("string", "sequence"),
        optional("int64", "ts_us"),
        optional("int64", "ts_ns"),
        optional("string", "table"),
        required("int64", "server_id"),
        optional("string", "gtid"),
        required("string", "file"),
        required("int64", "pos"),
        required("int32", "row"),
        optional("int64", "thread"),
        optional("string", "query"),
    ]
}

/// Returns a column's physical type, with the name of its logical type if it has one.
fn column_schema(column: &Column) -> String {
    let decimal = r#""name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"10"},"#;
    let (kind, meaning) = match column.base_type() {
        "bigint" => ("int64", ""),
        "int" => ("int32", ""),
        "tinyint" => ("int16", ""),
        "decimal" => ("bytes", decimal),
        "date" => ("int32", r#""name":"io.debezium.time.Date","version":1,"#),
        "datetime" => (
            "int64",
            r#""name":"io.debezium.time.Timestamp","version":1,"#,
        ),
        "timestamp" => (
            "string",
            r#""name":"io.debezium.time.ZonedTimestamp","version":1,"#,
        ),
        _ => ("string", ""),
    };
    field(kind, column.name != "id", meaning, &column.name)
}

fn required(kind: &str, name: &str) -> String {
    field(kind, false, "", name)
}

fn optional(kind: &str, name: &str) -> String {
    field(kind, true, "", name)
}

fn field(kind: &str, optional: bool, meaning: &str, name: &str) -> String {
    format!(r#"{{"type":"{kind}","optional":{optional},{meaning}"field":"{name}"}}"#)
}

fn structure(fields: &[String], optional: bool, name: &str, version: &str, field: &str) -> String {
    let fields = list(fields);
    format!(
        r#"{{"type":"struct","fields":{fields},"optional":{optional},"name":"{name}",{version}"field":"{field}"}}"#
    )
}
