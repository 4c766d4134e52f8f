//! First words of statements, for operations that no member of a message names.

/// Returns the first word of a statement, after white space and comments. Applications and their drivers put comments
/// before a statement, and the binlog keeps them.
pub(crate) fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    while let Some(behind) = skipped(rest) {
        rest = behind;
    }
    let mut words = rest.split(|c: char| !c.is_ascii_alphabetic());
    words.next().unwrap_or_default()
}

/// Returns the rest after the white space or the comment at the start of a statement; `None` if it starts with neither.
fn skipped(sql: &str) -> Option<&str> {
    let trimmed = sql.trim_ascii_start();
    if trimmed.len() < sql.len() {
        return Some(trimmed);
    }
    // A server executes the content if its version is at least the number.
    if let Some(executed) = sql.strip_prefix("/*!").or_else(|| sql.strip_prefix("/*M!")) {
        return Some(executed.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    if let Some(comment) = sql.strip_prefix("/*") {
        return Some(behind(comment, "*/"));
    }
    // The end of such executed content.
    if let Some(rest) = sql.strip_prefix("*/") {
        return Some(rest);
    }
    if let Some(comment) = sql.strip_prefix('#') {
        return Some(behind(comment, "\n"));
    }
    let comment = sql.strip_prefix("--")?;
    match comment.bytes().next() {
        // Without white space after them, the dashes are two minus signs.
        Some(byte) if !byte.is_ascii_whitespace() && !byte.is_ascii_control() => None,
        _ => Some(behind(comment, "\n")),
    }
}

fn behind<'a>(sql: &'a str, end: &str) -> &'a str {
    sql.split_once(end).map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::first_word;

    #[test]
    fn words_behind_comments() {
        let leading = [
            "",
            " \r\n\t",
            "/* app */",
            "/**/ /*+ hint */",
            "-- x\n",
            "--\n",
            "--\tx\r\n",
            "# c\n",
            "/*!50000 ",
            "/*!050000",
            "/*!",
            "/*M!100100 ",
        ];
        let trailing = [
            " TABLE t",
            "`t`",
            "/**/TABLE t",
            "\nTABLE t",
            "-- x\nTABLE t",
            " TABLE t*/",
            "",
        ];
        for first in leading {
            for second in leading {
                for behind in trailing {
                    let sql = format!("{first}{second}Truncate{behind}");
                    assert_eq!(first_word(&sql), "Truncate", "{sql}");
                }
            }
        }
    }

    #[test]
    fn statements_without_a_first_word() {
        for sql in [
            "",
            " ",
            "/* TRUNCATE",
            "/*",
            "# TRUNCATE",
            "-- TRUNCATE",
            "--TRUNCATE",
            "1 TRUNCATE",
            "`truncate`",
            "é",
            "/*!50000",
        ] {
            assert_eq!(first_word(sql), "", "{sql}");
        }
        assert_eq!(first_word("/*!50000 */ ALTER"), "ALTER");
    }
}
