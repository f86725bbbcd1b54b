//! Writes JSON text in one go, out of new members and of literals that are carried over as they are.

use crate::wire::text::encode_string;

/// Writes an object behind what stands in `out`.
pub(super) fn object(out: &mut String, fill: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    fill(&mut Object { out, filled: false });
    out.push('}');
}

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut String,
    filled: bool,
}

impl Object<'_> {
    /// A member with a value that is JSON text already. Names are our own: they need no escapes.
    pub(super) fn raw(&mut self, key: &str, literal: &str) {
        self.key(key);
        self.out.push_str(literal);
    }

    /// The same, where there is a value.
    pub(super) fn raw_if(&mut self, key: &str, literal: Option<&str>) {
        if let Some(literal) = literal {
            self.raw(key, literal);
        }
    }

    /// A member with a text.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.raw(key, &encode_string(text));
    }

    /// A member with a text that is escaped already, without its quotes.
    pub(super) fn escaped(&mut self, key: &str, inner: &str) {
        self.key(key);
        self.out.push('"');
        self.out.push_str(inner);
        self.out.push('"');
    }

    /// A member with a number.
    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.raw(key, &number.to_string());
    }

    /// A member with an object.
    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        object(self.out, fill);
    }

    /// A member with an array.
    pub(super) fn array(&mut self, key: &str, fill: impl FnOnce(&mut Array<'_>)) {
        self.key(key);
        self.out.push('[');
        fill(&mut Array { out: self.out, filled: false });
        self.out.push(']');
    }

    fn key(&mut self, key: &str) {
        if std::mem::replace(&mut self.filled, true) {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
    }
}

/// An array that is being written.
pub(super) struct Array<'a> {
    out: &'a mut String,
    filled: bool,
}

impl<'a> Array<'a> {
    /// The elements behind what stands in `out`, which are put between brackets later.
    pub(super) fn behind(out: &'a mut String) -> Self {
        Self { filled: !out.is_empty(), out }
    }

    /// An element that is JSON text already; or several, with commas between.
    pub(super) fn raw(&mut self, literal: &str) {
        self.comma();
        self.out.push_str(literal);
    }

    /// An element that is an object.
    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        self.comma();
        object(self.out, fill);
    }

    fn comma(&mut self) {
        if std::mem::replace(&mut self.filled, true) {
            self.out.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_parted_by_commas() {
        let mut out = String::new();
        object(&mut out, |o| {
            o.raw("a", "1.10");
            o.text("b", "x\"y");
            o.escaped("c", r"\ud800");
            o.array("d", |a| {
                a.raw("1,2");
                a.object(|o| o.number("e", 3));
            });
            o.object("f", |_| {});
            o.raw_if("g", None);
        });
        assert_eq!(out, r#"{"a":1.10,"b":"x\"y","c":"\ud800","d":[1,2,{"e":3}],"f":{}}"#);
        let mut out = String::from("1");
        Array::behind(&mut out).raw("2");
        assert_eq!(out, "1,2");
    }
}
