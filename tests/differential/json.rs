//! JSON as producers write it: a tree until the last moment, so that it can be damaged in its structure too.

/// A value, or what stands in place of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// These characters, whether they are JSON or not.
    Raw(String),
    Array(Vec<Json>),
    /// Names with their quotes, as they stand.
    Object(Vec<(String, Json)>),
}

/// Which characters a producer writes as escapes beside those that JSON demands.
#[derive(Clone, Copy, Debug, Default)]
pub enum Escapes {
    #[default]
    Least,
    /// `<`, `>`, `&` and `'`, as Go and Gson do.
    Html,
    /// A slash, as PHP and some Java libraries do.
    Slash,
    /// Everything beyond ASCII, in surrogate pairs where it takes two.
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

/// Where a producer puts white space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Spacing {
    #[default]
    None,
    /// Behind colons and commas, as Python does.
    Python,
    /// Each member in a line of its own.
    Lines,
    /// Only before and behind the whole message.
    Around,
}

impl Spacing {
    pub const ALL: [Spacing; 4] = [
        Spacing::None,
        Spacing::Python,
        Spacing::Lines,
        Spacing::Around,
    ];

    /// Behind an opening bracket and before a closing one, behind a comma, behind a colon.
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

/// An object of members whose names need no escapes.
pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(
        members
            .into_iter()
            .map(|(name, value)| (format!("\"{name}\""), value))
            .collect(),
    )
}

/// A JSON string.
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

/// `\u4e2d`, or a surrogate pair.
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

    /// How many objects and arrays there are, this one included.
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

    /// The object or array with this number, the outermost first.
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

    /// The arrays that are members of the object.
    pub fn arrays(&mut self) -> Vec<&mut Json> {
        self.inner()
            .into_iter()
            .filter(|inner| matches!(inner, Json::Array(_)))
            .collect()
    }

    /// Which member is the object of this name.
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
