//! Schema of a table, from BOOTSTRAP and DDL messages.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::error::{Fault, Kind, Result};
use crate::event::{Cells, Envelope, Events};
use crate::value::Value;
use crate::wire::json::{Cursor, quoted};

/// Description of a table, in the form of the JSON encoding.
#[derive(Deserialize, Serialize)]
pub(super) struct Description {
    #[serde(default, rename = "schema")]
    pub database: String,
    #[serde(default)]
    pub table: String,
    #[serde(default, rename = "tableID")]
    pub table_id: i64,
    #[serde(default)]
    pub version: i64,
    pub columns: Option<Vec<Column>>,
    pub indexes: Option<Vec<Index>>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct Column {
    pub name: String,
    #[serde(rename = "dataType")]
    pub data_type: DataType,
    #[serde(default)]
    pub nullable: bool,
    #[serde(default)]
    pub default: serde_json::Value,
}

#[derive(Deserialize, Serialize)]
pub(super) struct DataType {
    #[serde(rename = "mysqlType")]
    pub name: String,
    #[serde(default)]
    pub charset: String,
    #[serde(default)]
    pub collate: String,
    /// Precision of a decimal; -1 if the type has no precision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub length: i64,
    /// Scale of a decimal; number of fraction digits of a time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decimal: i64,
    /// Members of an enum or set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub unsigned: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub zerofill: bool,
}

#[derive(Deserialize, Serialize)]
pub(super) struct Index {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub unique: bool,
    #[serde(default)]
    pub primary: bool,
    #[serde(default)]
    pub nullable: bool,
    pub columns: Option<Vec<String>>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl DataType {
    /// Returns the type in DDL's spelling. TiCDC gives every type a length, but DDL only some types.
    fn spelling(&self) -> String {
        let mut text = self.name.clone();
        // Writing to a string cannot fail.
        let _ = match self.name.as_str() {
            "enum" | "set" => write!(
                text,
                "({})",
                self.elements
                    .iter()
                    .map(|element| literal(element))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
            "decimal" if self.length > 0 => write!(text, "({},{})", self.length, self.decimal),
            "datetime" | "timestamp" | "time" if self.decimal > 0 => {
                write!(text, "({})", self.decimal)
            }
            "char" | "varchar" | "binary" | "varbinary" | "bit" | "tinyint" | "vector"
                if self.length >= 0 =>
            {
                write!(text, "({})", self.length)
            }
            _ => Ok(()),
        };
        text.push_str(if self.unsigned { " unsigned" } else { "" });
        text.push_str(if self.zerofill { " zerofill" } else { "" });
        text
    }
}

/// Returns a string literal of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Parts of a table's schema that determine the values of its rows.
pub(crate) struct TableSchema {
    database: String,
    table: String,
    version: i64,
    /// The columns' types, as the JSON object that other dialects' messages have.
    types: String,
    primary_key: Vec<String>,
    /// The columns of type bit and set.
    masks: Vec<String>,
}

impl TableSchema {
    pub fn parse(json: &str) -> Result<Self> {
        let Description {
            database,
            table,
            version,
            columns,
            indexes,
            ..
        } = serde_json::from_str(json).map_err(|error| {
            let what = format!("is not a TiCDC table schema: {error}");
            Fault::new(Kind::Envelope, what)
        })?;
        let columns = columns.unwrap_or_default();
        let types = columns.iter().map(|column| {
            format!(
                "{}:{}",
                quoted(&column.name),
                quoted(&column.data_type.spelling())
            )
        });
        let types = format!("{{{}}}", types.collect::<Vec<_>>().join(","));
        let masks = columns
            .iter()
            .filter(|column| matches!(&*column.data_type.name, "bit" | "set"));
        let masks = masks.map(|column| column.name.clone()).collect();
        let primary = indexes
            .unwrap_or_default()
            .into_iter()
            .find(|index| index.primary);
        let primary_key = primary.and_then(|index| index.columns).unwrap_or_default();
        Ok(TableSchema {
            database,
            table,
            version,
            types,
            primary_key,
            masks,
        })
    }

    /// Returns the names of database and table. A message about a database has no table.
    pub fn names(&self) -> [Option<&str>; 2] {
        [&self.database, &self.table]
            .map(|name| Some(name.as_str()).filter(|name| !name.is_empty()))
    }

    /// Declares the types and the primary key of a message's columns.
    pub fn declare(&self, envelope: &mut Envelope<'_>, events: &mut Events<'_>) {
        if events.needs.types {
            let mut cursor = Cursor::new(&self.types, true);
            // The version selects the block. This crate wrote the text, so it is valid.
            envelope.types = events
                .types
                .read(&mut cursor, &mut events.keys, self.version as usize)
                .ok();
        }
        let first = events.names.len();
        for name in &self.primary_key {
            let name = events.keys.intern_plain(name);
            events.names.push(name);
        }
        envelope.primary_key = Some(first..events.names.len()).filter(|names| !names.is_empty());
    }

    /// Makes negative numbers of bits and sets positive. The Avro encoding writes their 64 bits as a signed integer.
    #[allow(clippy::indexing_slicing, reason = "the range is of these cells")]
    pub fn restore_masks(&self, cells: Cells, events: &mut Events<'_>) {
        for (key, value) in &mut events.cells[cells] {
            let Value::Number(digits) = *value else {
                continue;
            };
            if !digits.starts_with('-')
                || !self.masks.iter().any(|name| name == events.keys.name(*key))
            {
                continue;
            }
            if let Ok(mask) = digits.parse::<i64>() {
                *value = Value::Number(events.arena.alloc_str(&(mask as u64).to_string()));
            }
        }
    }
}

/// The table schemas that the user gave.
#[derive(Default)]
pub(crate) struct TableSchemas(Vec<TableSchema>);

impl TableSchemas {
    /// Parses table schemas, each a JSON text.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let schemas = texts.iter().enumerate().map(|(at, text)| {
            TableSchema::parse(text).map_err(|fault| format!("[{at}] {}", fault.into_parts().what))
        });
        schemas.collect::<Result<_, _>>().map(TableSchemas)
    }

    /// Returns the schema of a message's table. Another version would read the row wrongly, so it is an error. A table
    /// that the user did not name has no schema.
    pub fn find(&self, envelope: &Envelope<'_>, version: i64) -> Result<Option<&TableSchema>> {
        let names = [envelope.database.as_deref(), envelope.table.as_deref()];
        let mut of_table = self
            .0
            .iter()
            .filter(|schema| schema.names() == names)
            .peekable();
        let is_given = of_table.peek().is_some();
        match of_table.find(|schema| schema.version == version) {
            None if is_given => Err(Fault::new(
                Kind::Envelope,
                format!("table_schemas has no version {version} of this table"),
            )),
            found => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelling(json: &str) -> String {
        serde_json::from_str::<DataType>(json).unwrap().spelling()
    }

    #[test]
    fn types_are_spelled_as_in_ddl() {
        let cases = [
            (
                r#"{"mysqlType":"bigint","length":20,"unsigned":true}"#,
                "bigint unsigned",
            ),
            (
                r#"{"mysqlType":"int","length":8,"unsigned":true,"zerofill":true}"#,
                "int unsigned zerofill",
            ),
            (r#"{"mysqlType":"tinyint","length":1}"#, "tinyint(1)"),
            (r#"{"mysqlType":"decimal","length":20}"#, "decimal(20,0)"),
            (
                r#"{"mysqlType":"decimal","length":12,"decimal":6}"#,
                "decimal(12,6)",
            ),
            (r#"{"mysqlType":"float","length":12}"#, "float"),
            (
                r#"{"mysqlType":"datetime","length":26,"decimal":6}"#,
                "datetime(6)",
            ),
            (r#"{"mysqlType":"timestamp","length":19}"#, "timestamp"),
            (r#"{"mysqlType":"blob","length":65535}"#, "blob"),
            (r#"{"mysqlType":"varchar","length":0}"#, "varchar(0)"),
            (r#"{"mysqlType":"bit","length":10}"#, "bit(10)"),
            (r#"{"mysqlType":"vector","length":-1}"#, "vector"),
            (
                r#"{"mysqlType":"set","elements":["it's","a\\b","x,y"]}"#,
                r"set('it''s','a\\b','x,y')",
            ),
        ];
        cases
            .iter()
            .for_each(|(json, ddl)| assert_eq!(spelling(json), *ddl));
    }
}
