//! CloudCanal's own JSON. The rows of a statement are one message, and both images are whole.

use super::{Binlog, Image, Statement, by_column, list, quoted, row_object};

pub(super) fn write(binlog: &mut Binlog<'_>) -> Vec<Vec<u8>> {
    let statement = binlog.statement();
    let Statement {
        index, table, kind, ..
    } = statement;
    let object = |image: &Image| row_object(table, image, |_, cell| cell.to_owned());
    let before: Vec<String> = statement
        .rows
        .iter()
        .filter_map(|row| row.old())
        .map(object)
        .collect();
    let data: Vec<String> = statement
        .rows
        .iter()
        .map(|row| object(row.data()))
        .collect();
    let (before, data) = (list(&before), list(&data));
    let mysql_types = by_column(table, |column| quoted(column.mysql_type));
    let jdbc_types = by_column(table, |column| column.jdbc_type);
    let (second, lag, name) = (1_763_000_000 + index / 50, binlog.lag(), &table.name);
    let message = format!(
        r#"{{"action":"{kind}","before":{before},"bid":0,"data":{data},"db":"shop","dbValType":{mysql_types},"#
    ) + &format!(
        r#""isDdl":false,"entryType":"ROWDATA","execTs":{second}000,"jdbcType":{jdbc_types},"pks":["id"],"#
    ) + &format!(
        r#""schema":"shop","sendTs":{second}{lag},"sql":"","table":"{name}"}}"#
    );
    vec![message.into_bytes()]
}
