//! FlatMessages of canal and TiCDC. The rows of a statement are one message.

use super::{Binlog, Image, Statement, by_column, list, members, quoted, shown_object};

/// `data` and `old`.
fn images(statement: &Statement<'_>) -> (String, String) {
    let object = |image: &Image| shown_object(statement.table, image, |_, cell| cell.to_owned());
    let data: Vec<String> = statement
        .rows
        .iter()
        .map(|row| object(row.data()))
        .collect();
    let old: Vec<String> = statement
        .rows
        .iter()
        .filter_map(|row| row.old())
        .map(object)
        .collect();
    (
        list(&data),
        if old.is_empty() {
            "null".to_owned()
        } else {
            list(&old)
        },
    )
}

pub(super) fn canal(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    let Statement {
        index, table, kind, ..
    } = statement;
    let (data, old) = images(&statement);
    let mysql_types = by_column(table, |column| quoted(column.mysql_type));
    let jdbc_types = by_column(table, |column| column.jdbc_type);
    let (second, batch, lag, name) = (
        1_763_000_000 + index / 50,
        1 + index / 3,
        binlog.lag(),
        &table.name,
    );
    let message = format!(
        r#"{{"data":{data},"database":"shop","es":{second}000,"gtid":"","id":{batch},"isDdl":false,"#
    ) + &format!(
        r#""mysqlType":{mysql_types},"old":{old},"pkNames":["id"],"sql":"","sqlType":{jdbc_types},"#
    ) + &format!(r#""table":"{name}","ts":{second}{lag},"type":"{kind}"}}"#);
    vec![message.into_bytes()]
}

/// Members of the envelope after which [`with_spaces`] puts white space.
const SPACED: [&str; 4] = [r#""gtid":"#, r#""isDdl":"#, r#""pkNames":"#, r#""sql":"#];

/// Writes every message with different white space, so that no two look alike to a reader that compares them.
pub(super) fn spaced(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let index = binlog.statements;
    canal(binlog)
        .into_iter()
        .map(|message| with_spaces(message, index))
        .collect()
}

/// Writes every tenth message with different white space.
pub(super) fn tenth_spaced(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    if binlog.statements % 10 == 9 {
        spaced(binlog)
    } else {
        canal(binlog)
    }
}

/// Puts one to four spaces after each of four colons: 256 variants in irregular order. These members follow `data`, so
/// a reader notices the difference late.
fn with_spaces(message: Vec<u8>, index: u64) -> Vec<u8> {
    let turn = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    let mut text = String::from_utf8(message).expect("messages are text");
    for (place, member) in SPACED.iter().enumerate() {
        let spaces = " ".repeat(1 + (turn >> (2 * place)) as usize % 4);
        text = text.replacen(member, &format!("{member}{spaces}"), 1);
    }
    text.into_bytes()
}

pub(super) fn ticdc(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    let Statement {
        index, table, kind, ..
    } = statement;
    let (data, old) = images(&statement);
    // A Go map has a random order.
    let mut mysql_types: Vec<_> = table
        .columns
        .iter()
        .map(|column| (column.name.as_str(), quoted(column.mysql_type)))
        .collect();
    binlog.random.shuffle(&mut mysql_types);
    let (mysql_types, jdbc_types) = (
        members(&mysql_types),
        by_column(table, |column| column.jdbc_type),
    );
    let (es, name) = (1_763_000_000_000 + index * 7, &table.name);
    let ts = es + binlog.lag();
    let commit = 450_387_397_223_645_303 + index * 1_835_008;
    let message = format!(
        r#"{{"id":0,"database":"shop","table":"{name}","pkNames":["id"],"isDdl":false,"type":"{kind}","es":{es},"#
    ) + &format!(
        r#""ts":{ts},"sql":"","sqlType":{jdbc_types},"mysqlType":{mysql_types},"old":{old},"data":{data},"#
    ) + &format!(r#""_tidb":{{"commitTs":{commit}}}}}"#);
    vec![message.into_bytes()]
}
