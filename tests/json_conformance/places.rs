//! Places in a message for a value, and the expected row.

use towpath::TableSchema;

use crate::cases::{AT_THE_LIMIT, Case, Verdict};

/// towpath's use of the value.
#[derive(Clone, Copy, PartialEq)]
pub enum Use {
    /// Not requested. Its syntax is checked.
    Skipped,
    /// Not requested, within Debezium's schema part, which counts as a level.
    SkippedInSchema,
    /// A parameter in the schema part, which serde_json reads.
    Parameter,
    /// The value of column `v`, a string.
    Column,
    /// The member `a` of an object, which is the value of column `v`.
    Member,
    /// The text of column `v`, in quotes. In a string column, the text is not read as JSON: not every producer
    /// guarantees that a column is of type JSON, and the text itself is the value.
    Text,
    /// The member `a` of an object, which is the text of column `v`.
    TextOfMember,
    /// The only element of an array, which is the text of column `v`.
    TextOfElement,
}

/// A message with a place for a value.
pub struct Place {
    pub name: &'static str,
    pub dialect: &'static str,
    pub schema: &'static str,
    before: &'static str,
    after: &'static str,
    pub value: Use,
    /// True if the message is one change of TiCDC's open protocol, with its length before it.
    pub is_open: bool,
}

/// Columns of a table whose column `v` has the value.
const STRING: &str = "id bigint, v string, w string";
const STRUCT: &str = "id bigint, v struct<a: string, b: string>, w string";
const MAP: &str = "id bigint, v map<string, string>, w string";
const ARRAY: &str = "id bigint, v array<string>, w string";

const CANAL_ROW: &str = r#"{"data":[{"id":"1","v":"#;
const CANAL_END: &str = r#","w":"x"}],"database":"shop","es":1763000000000,"id":1,"isDdl":false,"mysqlType":{"id":"bigint","v":"json","w":"varchar(9)"},"old":null,"pkNames":["id"],"sql":"","sqlType":{"id":-5,"v":12,"w":12},"table":"orders","ts":1763000000001,"type":"INSERT"}"#;
const DEBEZIUM_END: &str = r#","w":"x"},"source":{"connector":"mysql","ts_ms":1763000000000,"db":"shop","table":"orders"},"op":"c","ts_ms":1763000000001}"#;

const DEBEZIUM_INNER_END: &str = r#"},"w":"x"},"source":{"connector":"mysql","ts_ms":1763000000000,"db":"shop","table":"orders"},"op":"c","ts_ms":1763000000001}"#;

const fn place(
    name: &'static str,
    dialect: &'static str,
    value: Use,
    before: &'static str,
    after: &'static str,
) -> Place {
    Place {
        name,
        dialect,
        schema: STRING,
        before,
        after,
        value,
        is_open: false,
    }
}

const fn typed(
    name: &'static str,
    dialect: &'static str,
    schema: &'static str,
    value: Use,
    ends: [&'static str; 2],
) -> Place {
    Place {
        schema,
        ..place(name, dialect, value, ends[0], ends[1])
    }
}

/// Unknown members, columns, JSON columns and declarations of every JSON dialect.
pub const PLACES: &[Place] = &[
    place(
        "unknown member",
        "canal-json",
        Use::Skipped,
        r#"{"data":[{"id":"1","v":"g","w":"x"}],"database":"shop","es":1763000000000,"extra":"#,
        r#","id":1,"isDdl":false,"mysqlType":{"id":"bigint","v":"varchar(9)","w":"varchar(9)"},"old":null,"table":"orders","type":"INSERT"}"#,
    ),
    place(
        "unknown member",
        "debezium-json",
        Use::Skipped,
        r#"{"before":null,"extra":"#,
        r#","after":{"id":1,"v":"g","w":"x"},"source":{"ts_ms":1763000000000,"db":"shop","table":"orders"},"op":"c","ts_ms":1763000000001}"#,
    ),
    place(
        "unknown member of the source",
        "debezium-json",
        Use::Skipped,
        r#"{"before":null,"after":{"id":1,"v":"g","w":"x"},"source":{"ts_ms":1763000000000,"extra":"#,
        r#","db":"shop","table":"orders"},"op":"c","ts_ms":1763000000001}"#,
    ),
    place(
        "unknown member",
        "maxwell-json",
        Use::Skipped,
        r#"{"database":"shop","table":"orders","type":"insert","ts":1763000000,"extra":"#,
        r#","data":{"id":1,"v":"g","w":"x"}}"#,
    ),
    place(
        "unknown member",
        "cloudcanal-json",
        Use::Skipped,
        r#"{"action":"INSERT","before":[],"bid":1,"data":[{"id":"1","v":"g","w":"x"}],"db":"shop","dbValType":{"id":"bigint"},"extra":"#,
        r#","isDdl":false,"entryType":"ROWDATA","execTs":1763000000000,"schema":"shop","sql":"","table":"orders"}"#,
    ),
    place(
        "unknown member",
        "river-json",
        Use::Skipped,
        r#"{"binlog":"4@mysql-bin.000070","time":1763000000000,"db":"shop","table":"orders","event":"i","extra":"#,
        r#","columns":[{"n":"id","t":"bigint","v":"1","null":false},{"n":"v","t":"text","v":"g","null":false},{"n":"w","t":"text","v":"x","null":false}],"keys":["id"]}"#,
    ),
    place(
        "unknown member",
        "ticdc-simple",
        Use::Skipped,
        r#"{"version":1,"database":"shop","table":"orders","tableID":1,"type":"INSERT","commitTs":447984099186180098,"extra":"#,
        r#","data":{"id":"1","v":"g","w":"x"}}"#,
    ),
    place(
        "unknown member",
        "dms-json",
        Use::Skipped,
        r#"{"data":{"id":1,"v":"g","w":"x"},"extra":"#,
        r#","metadata":{"timestamp":"2025-05-06T07:08:09Z","record-type":"data","operation":"insert","schema-name":"shop","table-name":"orders"}}"#,
    ),
    place(
        "unknown member",
        "dataworks-json",
        Use::Skipped,
        r#"{"schema":{"dataColumn":[{"name":"id","type":"LONG"}],"primaryKey":["id"],"source":{"dbName":"shop","tableName":"orders"}},"extra":"#,
        r#","payload":{"before":null,"after":{"dataColumn":{"id":1,"v":"g","w":"x"}},"sequenceId":"1","timestamp":{},"op":"INSERT","ddl":null}}"#,
    ),
    Place {
        is_open: true,
        ..place(
            "unknown member",
            "ticdc-open",
            Use::Skipped,
            r#"{"extra":"#,
            r#","u":{"id":{"t":8,"h":true,"f":11,"v":1},"v":{"t":15,"f":64,"v":"g"},"w":{"t":15,"f":64,"v":"x"}}}"#,
        )
    },
    place("column", "canal-json", Use::Column, CANAL_ROW, CANAL_END),
    place(
        "column",
        "debezium-json",
        Use::Column,
        r#"{"before":null,"after":{"id":1,"v":"#,
        DEBEZIUM_END,
    ),
    place(
        "column of a row without an envelope",
        "debezium-json",
        Use::Column,
        r#"{"id":1,"v":"#,
        r#","w":"x","__deleted":"false","__op":"c","__source_ts_ms":1763000000000,"__db":"shop","__table":"orders"}"#,
    ),
    place(
        "column",
        "maxwell-json",
        Use::Column,
        r#"{"database":"shop","table":"orders","type":"insert","ts":1763000000,"data":{"id":1,"v":"#,
        r#","w":"x"}}"#,
    ),
    place(
        "column",
        "cloudcanal-json",
        Use::Column,
        r#"{"action":"INSERT","before":[],"bid":1,"data":[{"id":"1","v":"#,
        r#","w":"x"}],"db":"shop","dbValType":{"id":"bigint","v":"text","w":"text"},"isDdl":false,"entryType":"ROWDATA","schema":"shop","table":"orders"}"#,
    ),
    place(
        "column",
        "river-json",
        Use::Column,
        r#"{"binlog":"4@mysql-bin.000070","time":1763000000000,"db":"shop","table":"orders","event":"i","columns":[{"n":"id","t":"bigint","v":"1","null":false},{"n":"v","t":"text","v":"#,
        r#"},{"n":"w","t":"text","v":"x","null":false}],"keys":["id"]}"#,
    ),
    place(
        "column",
        "ticdc-simple",
        Use::Column,
        r#"{"version":1,"database":"shop","table":"orders","tableID":1,"type":"INSERT","commitTs":447984099186180098,"data":{"id":"1","v":"#,
        r#","w":"x"}}"#,
    ),
    place(
        "column",
        "dms-json",
        Use::Column,
        r#"{"data":{"id":1,"v":"#,
        r#","w":"x"},"metadata":{"timestamp":"2025-05-06T07:08:09Z","record-type":"data","operation":"insert","schema-name":"shop","table-name":"orders"}}"#,
    ),
    place(
        "column",
        "dataworks-json",
        Use::Column,
        r#"{"schema":{"dataColumn":[{"name":"id","type":"LONG"},{"name":"v","type":"STRING"}],"source":{"dbName":"shop","tableName":"orders"}},"payload":{"before":null,"after":{"dataColumn":{"id":1,"v":"#,
        r#","w":"x"}},"sequenceId":"1","timestamp":{},"op":"INSERT","ddl":null}}"#,
    ),
    Place {
        is_open: true,
        ..place(
            "column",
            "ticdc-open",
            Use::Column,
            r#"{"u":{"id":{"t":8,"h":true,"f":11,"v":1},"v":{"t":15,"f":64,"v":"#,
            r#"},"w":{"t":15,"f":64,"v":"x"}}}"#,
        )
    },
    typed(
        "member of a nested JSON column",
        "maxwell-json",
        STRUCT,
        Use::Member,
        [
            r#"{"database":"shop","table":"orders","type":"insert","ts":1763000000,"data":{"id":1,"v":{"b":"y","a":"#,
            r#"},"w":"x"}}"#,
        ],
    ),
    typed(
        "member of a nested JSON column",
        "debezium-json",
        STRUCT,
        Use::Member,
        [
            r#"{"before":null,"after":{"id":1,"v":{"b":"y","a":"#,
            DEBEZIUM_INNER_END,
        ],
    ),
    place(
        "JSON column as string",
        "canal-json",
        Use::Text,
        CANAL_ROW,
        CANAL_END,
    ),
    typed(
        "JSON column as struct",
        "canal-json",
        STRUCT,
        Use::TextOfMember,
        [CANAL_ROW, CANAL_END],
    ),
    typed(
        "JSON column as map",
        "canal-json",
        MAP,
        Use::TextOfMember,
        [CANAL_ROW, CANAL_END],
    ),
    typed(
        "JSON column as array",
        "canal-json",
        ARRAY,
        Use::TextOfElement,
        [CANAL_ROW, CANAL_END],
    ),
    typed(
        "JSON column as struct",
        "debezium-json",
        STRUCT,
        Use::TextOfMember,
        [r#"{"before":null,"after":{"id":1,"v":"#, DEBEZIUM_END],
    ),
    place(
        "default of a column in the schema part",
        "debezium-json",
        Use::SkippedInSchema,
        r#"{"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},{"type":"string","optional":true,"default":"#,
        r#","field":"v"},{"type":"string","optional":true,"field":"w"}],"optional":true,"field":"after"}],"optional":false,"name":"server.shop.orders.Envelope"},"payload":{"before":null,"after":{"id":1,"v":"g","w":"x"},"source":{"db":"shop","table":"orders"},"op":"c","ts_ms":1763000000001}}"#,
    ),
    place(
        "parameter of a column in the schema part",
        "debezium-json",
        Use::Parameter,
        r#"{"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},{"type":"string","optional":true,"parameters":{"extra":"#,
        r#"},"field":"v"},{"type":"string","optional":true,"field":"w"}],"optional":true,"field":"after"}],"optional":false,"name":"server.shop.orders.Envelope"},"payload":{"before":null,"after":{"id":1,"v":"g","w":"x"},"source":{"db":"shop","table":"orders"},"op":"c","ts_ms":1763000000001}}"#,
    ),
];

/// Expected result for column `v`.
#[derive(Debug, PartialEq)]
pub enum Expected {
    /// Refused: an error row, or a row whose column `v` is null and has an error.
    Refused,
    /// Accepted: the row has no error, and this text in column `v` or within it.
    Read(Option<String>),
}

impl Place {
    pub fn schema(&self) -> TableSchema {
        TableSchema::Ddl(self.schema.into())
    }

    /// Returns the message with a value here.
    pub fn message(&self, json: &[u8]) -> Vec<u8> {
        let value = match self.value {
            Use::Text => quoted(json),
            Use::TextOfMember => quoted(&[b"{\"b\":\"y\",\"a\":", json, b"}"].concat()),
            Use::TextOfElement => quoted(&[b"[", json, b"]"].concat()),
            _ => json.to_vec(),
        };
        let message = [self.before.as_bytes(), &value, self.after.as_bytes()].concat();
        if self.is_open {
            [&(message.len() as u64).to_be_bytes()[..], &message].concat()
        } else {
            message
        }
    }

    pub fn expected(&self, case: &Case) -> Expected {
        if self.value == Use::Text {
            // Bytes that are not UTF-8 cannot be a message's text.
            return std::str::from_utf8(&case.json)
                .map_or(Expected::Refused, |text| Expected::Read(Some(text.into())));
        }
        if self.value == Use::TextOfElement && case.json.trim_ascii().is_empty() {
            // Then the array is empty.
            return Expected::Read(None);
        }
        let accepted = match case.verdict {
            Verdict::Json => true,
            Verdict::NotJson => false,
            Verdict::Free { .. } if case.name == AT_THE_LIMIT => {
                matches!(self.value, Use::Skipped | Use::Column)
            }
            Verdict::Free { skipped, .. }
                if matches!(self.value, Use::Skipped | Use::SkippedInSchema) =>
            {
                skipped
            }
            // serde_json also reads the texts within an array or object, which are not read elsewhere.
            Verdict::Free { .. } if self.value == Use::Parameter => {
                serde_json::from_slice::<serde_json::Value>(&case.json).is_ok()
            }
            Verdict::Free { read, .. } => read,
        };
        match (accepted, self.value) {
            (false, _) => Expected::Refused,
            (true, Use::Skipped | Use::SkippedInSchema | Use::Parameter) => {
                Expected::Read(Some("g".into()))
            }
            (true, _) => Expected::Read(text(case)),
        }
    }
}

/// Returns a JSON string of these bytes. Escapes only what JSON requires.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'"' | b'\\' => vec![b'\\', *byte],
        0..=0x1f => format!("\\u{byte:04x}").into_bytes(),
        _ => vec![*byte],
    };
    [
        b"\"",
        &bytes.iter().flat_map(escape).collect::<Vec<u8>>()[..],
        b"\"",
    ]
    .concat()
}

/// Returns the text of a value from serde_json: a string's content, otherwise the raw JSON.
fn text(case: &Case) -> Option<String> {
    match serde_json::from_slice(&case.json) {
        Ok(serde_json::Value::Null) => None,
        Ok(serde_json::Value::String(text)) => Some(text),
        _ => Some(String::from_utf8_lossy(case.json.trim_ascii()).into_owned()),
    }
}
