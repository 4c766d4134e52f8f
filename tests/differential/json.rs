//! JSON in producers' spelling. It stays a tree until the end, so that its structure can be damaged too.

/// A value, or a replacement for one.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// Raw characters, which need not be JSON.
    Raw(String),
    Array(Vec<Json>),
    /// Names with their quotes, unescaped.
    Object(Vec<(String, Json)>),
}

/// Characters that a producer escapes, besides the characters that JSON requires.
#[derive(Clone, Copy, Debug, Default)]
pub enum Escapes {
    #[default]
    Least,
    /// `<`, `>`, `&` and `'`, like Go and Gson.
    Html,
    /// A slash, like PHP and some Java libraries.
    Slash,
    /// Everything beyond ASCII, with surrogate pairs if needed.
    Ascii,
}

impl Escapes {
    pub const ALL: [Escapes; 4] = [
        Escapes::Least,
        Escapes::Html,
        Escapes::Slash,
        Escapes::Ascii,
    ];

    fn escapes(self, c: char) -> bool {
        match self {
            Escapes::Least => false,
            Escapes::Html => matches!(c, '<' | '>' | '&' | '\'' | '\u{2028}'),
            Escapes::Slash => c == '/',
            Escapes::Ascii => !c.is_ascii(),
        }
    }
}

/// Places where a producer writes white space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Spacing {
    #[default]
    None,
    /// After colons and commas, like Python.
    Python,
    /// Each member on its own line.
    Lines,
    /// Only before and after the whole message.
    Around,
}

impl Spacing {
    pub const ALL: [Spacing; 4] = [
        Spacing::None,
        Spacing::Python,
        Spacing::Lines,
        Spacing::Around,
    ];

    /// Returns the white space after an opening and before a closing bracket, after a comma, and after a colon.
    fn spaces(self) -> [&'static str; 3] {
        match self {
            Spacing::None | Spacing::Around => ["", "", ""],
            Spacing::Python => ["", " ", " "],
            Spacing::Lines => ["\n", "\r\n\t", " "],
        }
    }
}

pub fn raw(text: impl std::fmt::Display) -> Json {
    Json::Raw(text.to_string())
}

pub fn null() -> Json {
    raw("null")
}

/// Returns an object of members whose names need no escapes.
pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(
        members
            .into_iter()
            .map(|(name, value)| (format!("\"{name}\""), value))
            .collect(),
    )
}

/// Returns a JSON string.
pub fn text(text: &str, escapes: Escapes) -> Json {
    Json::Raw(quoted(text, escapes))
}

pub fn quoted(text: &str, escapes: Escapes) -> String {
    let mut out = String::from("\"");
    text.chars().for_each(|c| push(&mut out, c, escapes));
    out + "\""
}

fn push(out: &mut String, c: char, escapes: Escapes) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '/' if escapes.escapes(c) => out.push_str("\\/"),
        c if c < ' ' || escapes.escapes(c) => out.push_str(&escaped(c)),
        c => out.push(c),
    }
}

/// Returns `\u4e2d`, or a surrogate pair.
pub fn escaped(c: char) -> String {
    c.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

impl Json {
    pub fn render(&self, spacing: Spacing) -> String {
        let mut out = String::new();
        self.write(&mut out, spacing);
        if spacing == Spacing::Around {
            format!("\n  {out} \r\n")
        } else {
            out
        }
    }

    fn write(&self, out: &mut String, spacing: Spacing) {
        let [inside, behind_comma, behind_colon] = spacing.spaces();
        match self {
            Json::Raw(text) => out.push_str(text),
            Json::Array(items) => {
                out.push('[');
                out.push_str(inside);
                for (at, item) in items.iter().enumerate() {
                    separate(out, at, behind_comma);
                    item.write(out, spacing);
                }
                out.push_str(inside);
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                out.push_str(inside);
                for (at, (name, value)) in members.iter().enumerate() {
                    separate(out, at, behind_comma);
                    out.push_str(name);
                    out.push(':');
                    out.push_str(behind_colon);
                    value.write(out, spacing);
                }
                out.push_str(inside);
                out.push('}');
            }
        }
    }

    /// Returns the number of objects and arrays, including this one.
    pub fn containers(&self) -> usize {
        match self {
            Json::Raw(_) => 0,
            Json::Array(items) => 1 + items.iter().map(Json::containers).sum::<usize>(),
            Json::Object(members) => {
                1 + members
                    .iter()
                    .map(|(_, value)| value.containers())
                    .sum::<usize>()
            }
        }
    }

    /// Returns the object or array with this number. The outermost comes first.
    pub fn container(&mut self, number: usize) -> Option<&mut Json> {
        if number == 0 {
            return Some(self);
        }
        let mut left = number - 1;
        for inner in self.inner() {
            let count = inner.containers();
            if left < count {
                return inner.container(left);
            }
            left -= count;
        }
        None
    }

    /// Returns the arrays among the members of the object.
    pub fn arrays(&mut self) -> Vec<&mut Json> {
        self.inner()
            .into_iter()
            .filter(|inner| matches!(inner, Json::Array(_)))
            .collect()
    }

    /// Returns the index of the member with this name.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        let Json::Object(members) = self else {
            return None;
        };
        members.iter().position(|(other, value)| {
            other.trim_matches('"') == name && matches!(value, Json::Object(_))
        })
    }

    fn inner(&mut self) -> Vec<&mut Json> {
        match self {
            Json::Raw(_) => Vec::new(),
            Json::Array(items) => items.iter_mut().collect(),
            Json::Object(members) => members.iter_mut().map(|(_, value)| value).collect(),
        }
    }
}

fn separate(out: &mut String, at: usize, behind_comma: &str) {
    if at > 0 {
        out.push(',');
        out.push_str(behind_comma);
    }
}
