//! Parser of DDL text for the table's columns: `id bigint, total decimal(10,2), tags array<string>`. Types that Spark
//! does not have are MySQL's: `int(10) unsigned`, `datetime(6)`, `enum('a','b')`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::arrow_types::type_for;
use crate::mysql::types::{DeclaredType, TypeFamily};

/// Parses the columns of a DDL text in Spark's syntax. If Spark has no such type, it is MySQL's, and maps like in
/// `infer_schema`.
pub(crate) fn parse(text: &str) -> Result<Vec<FieldRef>, String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let fields = parser
        .fields(None)
        .map_err(|error| other_form(text).map_or(error, str::to_owned))?;
    if fields.is_empty() {
        Err("schema: expected at least one column".into())
    } else {
        Ok(fields)
    }
}

/// Returns the error for a text that is not a list of columns, with advice on what to pass.
#[cold]
fn other_form(text: &str) -> Option<&'static str> {
    const STATEMENT: &str = "schema: expected columns, not a CREATE TABLE statement; pass its columns without keys, indexes and defaults: id bigint, total decimal(10,2)";
    const FILE: &str = "schema: expected columns such as id bigint, total decimal(10,2), not a file name; the command line reads a file with --schema @NAME";
    let text = text.trim();
    let is_statement = text
        .get(..6)
        .is_some_and(|word| word.eq_ignore_ascii_case("create"));
    let is_file = !text.contains([' ', '\n'])
        && (text.contains('/')
            || text
                .rsplit_once('.')
                .is_some_and(|(name, _)| !name.is_empty()));
    if is_statement {
        Some(STATEMENT)
    } else if is_file {
        Some(FILE)
    } else {
        None
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// Maximum nesting depth of types.
pub(crate) const MAX_DEPTH: usize = 32;

#[allow(
    clippy::string_slice,
    reason = "`at` and the ends of names and words are beside characters that were found"
)]
impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(self.error(&format!("expected '{c}'")))
        }
    }

    fn error(&mut self, what: &str) -> String {
        let found = self.peek().map_or("the end".into(), |c| format!("{c:?}"));
        format!(
            "schema: {what} at character {}, found {found}",
            self.text[..self.at].chars().count()
        )
    }

    /// Parses a name, in backticks or plain.
    fn name(&mut self) -> Result<String, String> {
        if !self.eat('`') {
            let name = self.word();
            return if name.is_empty() {
                Err(self.error("expected a column's name"))
            } else {
                Ok(name.to_owned())
            };
        }
        let mut name = String::new();
        loop {
            let rest = self.rest();
            let end = rest
                .find('`')
                .ok_or_else(|| self.error("expected a closing backtick"))?;
            name.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.rest().starts_with('`') {
                return Ok(name);
            }
            name.push('`');
            self.at += 1;
        }
    }

    fn word(&mut self) -> &'t str {
        self.peek();
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips a keyword if it comes next, case-insensitively.
    fn eat_keyword(&mut self, word: &str) -> bool {
        let before = self.at;
        let found = self.word().eq_ignore_ascii_case(word);
        if !found {
            self.at = before;
        }
        found
    }

    /// Parses columns up to `close`, or to the end.
    fn fields(&mut self, close: Option<char>) -> Result<Vec<FieldRef>, String> {
        let mut fields = Vec::new();
        while self.peek() != close {
            let name = self.name()?;
            self.eat(':');
            fields.push(Arc::new(Field::new(name, self.data_type()?, true)));
            self.attributes()?;
            if !self.eat(',') {
                break;
            }
        }
        if self.peek() == close {
            Ok(fields)
        } else {
            Err(self.error("expected ',' or the end of the columns"))
        }
    }

    /// Skips NULL, NOT NULL and COMMENT, which do not affect decoding.
    fn attributes(&mut self) -> Result<(), String> {
        if self.eat_keyword("not") && !self.eat_keyword("null") {
            return Err(self.error("expected NULL after NOT"));
        }
        self.eat_keyword("null");
        if self.eat_keyword("comment") {
            self.quoted()?;
        }
        Ok(())
    }

    /// Skips a quoted text. A quote in it is doubled or follows a backslash.
    fn quoted(&mut self) -> Result<(), String> {
        let quote = self
            .peek()
            .filter(|c| matches!(c, '\'' | '"'))
            .ok_or_else(|| self.error("expected a quoted string"))?;
        while self.rest().starts_with(quote) {
            self.at += 1;
            let mut is_escaped = false;
            let end = self.rest().find(|c| {
                let is_end = c == quote && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            let Some(end) = end else {
                return Err(self.error("expected the end of the quoted string"));
            };
            self.at += end + 1;
        }
        Ok(())
    }

    fn data_type(&mut self) -> Result<DataType, String> {
        self.peek();
        let start = self.at;
        let data_type = self.spark_type()?;
        // Spark's types have only these parentheses, and no attributes.
        if let Some(data_type) = data_type
            && self.peek() != Some('(')
            && !MODIFIERS.iter().any(|word| self.eat_keyword(word))
        {
            return Ok(data_type);
        }
        self.at = start;
        self.mysql_type()
    }

    /// Parses a MySQL type with the same code as the types in messages.
    fn mysql_type(&mut self) -> Result<DataType, String> {
        let start = self.at;
        let word = self.word();
        while MODIFIERS.iter().any(|word| self.eat_keyword(word)) {}
        if self.eat('(') {
            while !self.eat(')') {
                match self.peek() {
                    Some('\'' | '"') => self.quoted()?,
                    _ if self.word().is_empty() => {
                        return Err(self.error("expected a number or a quoted string"));
                    }
                    _ => {}
                }
                self.eat(',');
            }
        }
        while MODIFIERS.iter().any(|word| self.eat_keyword(word)) {}
        let mut declared = DeclaredType::parse(&self.text[start..self.at]);
        if declared.family == TypeFamily::Unknown {
            self.at = start;
            return Err(format!(
                "{}; {ALLOWED}",
                self.error(&format!("unknown type {word:?}"))
            ));
        }
        if declared.family == TypeFamily::Bit && declared.arguments.is_empty() {
            declared.arguments.push(1);
        }
        Ok(type_for(&declared))
    }

    /// Parses a Spark type; `None` if Spark has no type with this name.
    fn spark_type(&mut self) -> Result<Option<DataType>, String> {
        let word = self.word().to_ascii_lowercase();
        Ok(Some(match word.as_str() {
            "boolean" | "bool" => DataType::Boolean,
            "tinyint" | "byte" => DataType::Int8,
            "smallint" | "short" => DataType::Int16,
            "int" | "integer" => DataType::Int32,
            "bigint" | "long" => DataType::Int64,
            "float" | "real" => DataType::Float32,
            "double" => DataType::Float64,
            "decimal" | "dec" | "numeric" | "fixed" => {
                let decimal = self.decimal()?;
                while NUMERIC.iter().any(|word| self.eat_keyword(word)) {}
                decimal
            }
            // A variant is delivered as its JSON text.
            "string" | "text" | "variant" => DataType::Utf8,
            "char" | "character" | "varchar" => self.numbers().map(|_| DataType::Utf8)?,
            "binary" => DataType::Binary,
            "date" => DataType::Date32,
            "timestamp" | "timestamp_ltz" => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            // Nanoseconds, like Spark's TIME.
            "time" => self
                .numbers()
                .map(|_| DataType::Time64(TimeUnit::Nanosecond))?,
            "interval" => self.interval()?,
            "array" => self.in_angle_brackets(|p| {
                Ok(DataType::List(Arc::new(Field::new(
                    "element",
                    p.data_type()?,
                    true,
                ))))
            })?,
            "map" => self.in_angle_brackets(Self::map)?,
            "struct" => self
                .in_angle_brackets(|p| Ok(DataType::Struct(Fields::from(p.fields(Some('>'))?))))?,
            _ => return Ok(None),
        }))
    }

    fn in_angle_brackets(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<DataType, String>,
    ) -> Result<DataType, String> {
        self.expect('<')?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(&format!("types are nested deeper than {MAX_DEPTH} levels")));
        }
        let data_type = inner(self)?;
        self.depth -= 1;
        self.expect('>')?;
        Ok(data_type)
    }

    fn map(&mut self) -> Result<DataType, String> {
        let key = self.data_type()?;
        self.expect(',')?;
        let value = self.data_type()?;
        let entries = Fields::from(vec![
            Field::new("key", key, false),
            Field::new("value", value, true),
        ]);
        Ok(DataType::Map(
            Arc::new(Field::new("entries", DataType::Struct(entries), false)),
            false,
        ))
    }

    fn decimal(&mut self) -> Result<DataType, String> {
        let numbers = self.numbers()?;
        let (precision, scale) = match *numbers {
            [] => (10, 0),
            [precision] => (precision, 0),
            [precision, scale] => (precision, scale),
            _ => return Err(self.error("expected a precision and a scale")),
        };
        // Spark allows 38 digits, MySQL 65. Decimal256 holds 65.
        Ok(if precision <= 38 {
            DataType::Decimal128(precision, scale as i8)
        } else {
            DataType::Decimal256(precision, scale as i8)
        })
    }

    fn numbers(&mut self) -> Result<Vec<u8>, String> {
        let mut numbers = Vec::new();
        if self.eat('(') {
            while !self.eat(')') {
                let number = self
                    .word()
                    .parse::<u16>()
                    .map_err(|_| self.error("expected a number"))?;
                numbers.push(u8::try_from(number).unwrap_or(u8::MAX));
                self.eat(',');
            }
        }
        Ok(numbers)
    }

    fn interval(&mut self) -> Result<DataType, String> {
        if self.eat_keyword("day") && self.eat_keyword("to") && self.eat_keyword("second") {
            return Ok(DataType::Duration(TimeUnit::Microsecond));
        }
        Err(self.error("expected 'interval day to second'"))
    }
}

const NUMERIC: &[&str] = &["unsigned", "signed", "zerofill"];

/// Words that may precede or follow the parentheses of MySQL's types.
const MODIFIERS: &[&str] = &[
    "unsigned",
    "signed",
    "zerofill",
    "precision",
    "varying",
    "byte",
    "char",
    "varchar",
    "character",
    "varbinary",
];

const ALLOWED: &str = "expected one of boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, char(n), varchar(n), binary, \
    date, timestamp, timestamp_ntz, interval day to second, time, variant, array<>, map<>, struct<>, or a MySQL type such as int(10) unsigned, \
    datetime(6), enum('a','b')";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_parse_in_spark_syntax() {
        let fields = parse("id BIGINT NOT NULL COMMENT 'the key', `a``b` decimal(10, 2),t timestamp_ntz, s struct<x: int, y:array<string>>, m map<string,double>, d interval day to second").unwrap();
        let names: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["id", "a`b", "t", "s", "m", "d"]);
        assert_eq!(fields[1].data_type(), &DataType::Decimal128(10, 2));
        assert_eq!(
            fields[5].data_type(),
            &DataType::Duration(TimeUnit::Microsecond)
        );
    }

    #[test]
    fn types_of_mysql_become_what_holds_their_values() {
        let micros = TimeUnit::Microsecond;
        for (text, expected) in [
            ("int(11)", DataType::Int32),
            ("INT(10) UNSIGNED NOT NULL", DataType::Int64),
            ("int unsigned", DataType::Int64),
            ("tinyint(1)", DataType::Int8),
            ("tinyint unsigned zerofill", DataType::Int16),
            ("mediumint", DataType::Int32),
            ("bigint(20) unsigned", DataType::Decimal128(20, 0)),
            ("decimal(10,2) unsigned", DataType::Decimal128(10, 2)),
            ("fixed", DataType::Decimal128(10, 0)),
            ("float(10,2)", DataType::Float32),
            ("float(53)", DataType::Float64),
            ("double precision unsigned", DataType::Float64),
            ("datetime", DataType::Timestamp(micros, None)),
            ("datetime(6) NULL", DataType::Timestamp(micros, None)),
            (
                "timestamp(3)",
                DataType::Timestamp(micros, Some("UTC".into())),
            ),
            ("time(6)", DataType::Time64(TimeUnit::Nanosecond)),
            ("year(4)", DataType::Int32),
            ("varchar(20) COMMENT 'it''s \\' (x), y'", DataType::Utf8),
            ("character varying(20)", DataType::Utf8),
            ("national varchar(20)", DataType::Utf8),
            ("mediumtext", DataType::Utf8),
            ("long", DataType::Int64),
            ("long varbinary", DataType::Binary),
            ("enum('a','it''s ), \\'x', \"b\")", DataType::Utf8),
            ("set('a', 'b')", DataType::Utf8),
            ("json", DataType::Utf8),
            ("binary(16)", DataType::Binary),
            ("varbinary(16)", DataType::Binary),
            ("longblob", DataType::Binary),
            ("point", DataType::Binary),
            ("bit", DataType::Boolean),
            ("bit(1)", DataType::Boolean),
            ("bit(8)", DataType::Binary),
        ] {
            let fields = parse(&format!("`a` {text}, b array<int(11)>"))
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fields[0].data_type(), &expected, "{text}");
            assert_eq!(fields.len(), 2, "{text}");
        }
    }

    #[test]
    fn errors_name_the_position_and_the_allowed_types() {
        for (text, part) in [
            ("", "at least one column"),
            ("id", "unknown type"),
            ("id money", "expected one of"),
            ("id int(", "a number"),
            ("id enum('a)", "end of the quoted"),
            ("id int(11) unsignd", "','"),
            ("id int total int", "','"),
            ("a array<int", "'>'"),
            ("`a int", "backtick"),
            ("t interval year", "interval"),
            (&format!("a {}", "array<".repeat(100_000)), "deeper than 32"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
