//! Rules for the parameters of a request: set, default, drop, rename. Each is a splice of the client's own bytes.
//!
//! A rule names a member of the request, or one inside an object by a dotted path (`reasoning.effort`). What no rule names leaves
//! byte for byte and in its order. Within one name the order is: rename, then set, default or drop.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::chat::{ChatRequest, max_output_of};
use super::patch::Patches;
use super::scan::{self, Member, Span};
use super::text::{decode_lossy, encode_string};

/// Names that no rule may touch: what is asked for and how it is answered is decided elsewhere.
pub const RESERVED_PARAMS: [&str; 5] = ["messages", "model", "stream", "stream_options", "input"];

/// The deepest path of a rule.
const MAX_DEPTH: usize = 8;

/// Rules for the parameters of requests to one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamRules {
    members: BTreeMap<String, Rule>,
    /// Old names to new ones, of members of the request itself.
    renamed: BTreeMap<String, String>,
}

/// What is done with one member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// It gets this value, as JSON text, whether it is there or not.
    Set(String),
    /// It gets this value where it is not there.
    Default(String),
    /// It is taken out.
    Drop,
    /// Something inside it is changed.
    Inside(BTreeMap<String, Rule>),
}

/// Why a rule cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// It names something that rules may not touch.
    #[error("no rule may touch `{0}`: it is not a parameter of the model")]
    Reserved(String),
    /// Two rules name the same member, or a member and something inside it.
    #[error("`{0}` is in another rule already: what holds would depend on their order")]
    Twice(String),
    /// An empty name, or a path that is too deep.
    #[error("`{0}` is no name of a member: write \"name\" or \"outer.inner\", at most 8 deep")]
    Path(String),
    /// The value is no JSON.
    #[error("the value of `{0}` cannot be written as JSON")]
    Value(String),
    /// A rename of something inside an object.
    #[error("`{0}`: only members of the request itself can be renamed, not what is inside them")]
    Nested(String),
}

impl ParamRules {
    /// Whether nothing is ever changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.renamed.is_empty()
    }

    /// Has a member replaced by `json`, or added.
    ///
    /// # Errors
    /// See [`ParamError`].
    pub fn set(&mut self, path: &str, json: &str) -> Result<(), ParamError> {
        scan::validate(json).map_err(|_| ParamError::Value(path.to_owned()))?;
        self.add(path, Rule::Set(json.to_owned()))
    }

    /// Has a member added where it is not there.
    ///
    /// # Errors
    /// See [`ParamError`].
    pub fn default_to(&mut self, path: &str, json: &str) -> Result<(), ParamError> {
        scan::validate(json).map_err(|_| ParamError::Value(path.to_owned()))?;
        self.add(path, Rule::Default(json.to_owned()))
    }

    /// Has a member taken out.
    ///
    /// # Errors
    /// See [`ParamError`].
    pub fn drop_member(&mut self, path: &str) -> Result<(), ParamError> {
        self.add(path, Rule::Drop)
    }

    /// Has a member go by another name. Where the client sends both, its word under the new name holds.
    ///
    /// # Errors
    /// See [`ParamError`].
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), ParamError> {
        for name in [from, to] {
            if name.contains('.') {
                return Err(ParamError::Nested(name.to_owned()));
            }
            parse(name)?;
        }
        // A default may stand behind a rename; nothing else may speak of either name.
        let speaks = |name: &str| self.renamed.contains_key(name) || self.renamed.values().any(|to| to == name);
        let ruled = |name: &str| self.members.get(name).is_some_and(|rule| !matches!(rule, Rule::Default(_)));
        if from == to || speaks(from) || speaks(to) || self.members.contains_key(from) {
            return Err(ParamError::Twice(from.to_owned()));
        }
        if ruled(to) {
            return Err(ParamError::Twice(to.to_owned()));
        }
        self.renamed.insert(from.to_owned(), to.to_owned());
        Ok(())
    }

    fn add(&mut self, path: &str, rule: Rule) -> Result<(), ParamError> {
        let names = parse(path)?;
        let twice = || ParamError::Twice(path.to_owned());
        let head = names[0];
        let is_default = matches!(rule, Rule::Default(_)) && names.len() == 1;
        if self.renamed.contains_key(head) || (!is_default && self.renamed.values().any(|to| to == head)) {
            return Err(twice());
        }
        let (last, outer) = names.split_last().ok_or_else(twice)?;
        let mut level = &mut self.members;
        for name in outer {
            match level.entry((*name).to_owned()).or_insert_with(|| Rule::Inside(BTreeMap::new())) {
                Rule::Inside(inside) => level = inside,
                _ => return Err(twice()),
            }
        }
        if level.contains_key(*last) {
            return Err(twice());
        }
        level.insert((*last).to_owned(), rule);
        Ok(())
    }

    /// Returns the changes to a request whose JSON object is `text`; none when no rule applies.
    #[must_use]
    pub fn patches(&self, text: &str) -> Patches {
        let mut patches = Patches::default();
        self.patch(text, Span::new(0, text.len()), scan::members(text, Span::new(0, text.len())), &mut patches);
        patches
    }

    /// Returns the most output tokens that a request asks for once the rules were applied.
    #[must_use]
    pub fn max_output(&self, request: &ChatRequest) -> Option<u64> {
        max_output_of(|name| self.number(request, name))
    }

    /// Returns the number that a member of a request has once the rules were applied; `None` when it is absent or none.
    #[must_use]
    pub fn number(&self, request: &ChatRequest, name: &str) -> Option<u64> {
        let stays = request.get(name).filter(|_| !self.renamed.contains_key(name));
        let arrives = || self.renamed.iter().find(|(_, to)| *to == name).and_then(|(from, _)| request.get(from));
        let own = stays.or_else(arrives);
        let value = match self.members.get(name) {
            None => own,
            Some(Rule::Default(json)) => own.or(Some(json)),
            Some(Rule::Set(json)) => Some(json.as_str()),
            Some(Rule::Drop | Rule::Inside(_)) => None,
        };
        value?.parse().ok()
    }

    fn patch(&self, text: &str, object: Span, members: impl Iterator<Item = Member>, patches: &mut Patches) {
        let members: Vec<(Cow<'_, str>, Member)> = members.map(|member| (name_of(text, member), member)).collect();
        let has = |name: &str| members.iter().any(|(own, _)| own == name);
        let mut edit = Edit::new(text, object, &members, patches);
        for (at, (name, member)) in members.iter().enumerate() {
            match self.renamed.get(&**name) {
                Some(to) if has(to) => edit.remove(at),
                Some(to) => edit.rename(member, to),
                None => {}
            }
            edit.change(at, self.members.get(&**name));
        }
        let arrives = |name: &str| self.renamed.iter().any(|(from, to)| to == name && has(from));
        for (name, rule) in &self.members {
            if !has(name) && !arrives(name) {
                edit.append(name, rule);
            }
        }
        edit.finish();
    }
}

/// The changes to one object.
struct Edit<'a> {
    text: &'a str,
    object: Span,
    members: &'a [(Cow<'a, str>, Member)],
    /// Which members go.
    gone: Vec<bool>,
    appended: String,
    patches: &'a mut Patches,
}

impl<'a> Edit<'a> {
    fn new(text: &'a str, object: Span, members: &'a [(Cow<'a, str>, Member)], patches: &'a mut Patches) -> Self {
        Self { text, object, members, gone: vec![false; members.len()], appended: String::new(), patches }
    }

    fn remove(&mut self, at: usize) {
        self.gone[at] = true;
    }

    fn rename(&mut self, member: &Member, to: &str) {
        let quoted = encode_string(to);
        self.patches.replace(member.key, quoted[1..quoted.len() - 1].to_owned());
    }

    fn change(&mut self, at: usize, rule: Option<&Rule>) {
        let value = self.members[at].1.value;
        match rule {
            None | Some(Rule::Default(_)) => {}
            Some(Rule::Drop) => self.remove(at),
            Some(Rule::Set(json)) => self.patches.replace(value, json.as_str()),
            Some(Rule::Inside(rules)) => self.inside(value, rules),
        }
    }

    fn inside(&mut self, value: Span, rules: &BTreeMap<String, Rule>) {
        if value.of(self.text).starts_with('{') {
            let members: Vec<_> =
                scan::members(self.text, value).map(|member| (name_of(self.text, member), member)).collect();
            let mut edit = Edit::new(self.text, value, &members, self.patches);
            for (at, (name, _)) in members.iter().enumerate() {
                edit.change(at, rules.get(&**name));
            }
            for (name, rule) in rules {
                if !members.iter().any(|(own, _)| own == name) {
                    edit.append(name, rule);
                }
            }
            edit.finish();
        } else if sets(rules) {
            // `null` or a word where an object has to be.
            if let Some(object) = built(rules) {
                self.patches.replace(value, object);
            }
        }
    }

    /// Adds a member that is not there, where the rule gives it a value.
    fn append(&mut self, name: &str, rule: &Rule) {
        if let Some(json) = value_of(rule) {
            self.appended.push(',');
            self.appended.push_str(&encode_string(name));
            self.appended.push(':');
            self.appended.push_str(&json);
        }
    }

    /// Takes out what goes, each with one comma, and puts in what comes.
    fn finish(self) {
        let Self { text, object, members, gone, appended, patches } = self;
        let n_first = gone.iter().take_while(|gone| **gone).count();
        let start_of = |at: usize| members[at].1.key.start - 1;
        let end_of = |at: usize| members[at].1.value.end;
        // The first ones go with the commas behind them, all others with the comma before them.
        if n_first > 0 {
            let end = if n_first < members.len() { start_of(n_first) } else { end_of(n_first - 1) };
            patches.remove(Span::new(start_of(0), end));
        }
        for at in (n_first..members.len()).filter(|&at| gone[at]) {
            patches.remove(Span::new(end_of(at - 1), end_of(at)));
        }
        if appended.is_empty() {
            return;
        }
        let none_left = n_first == members.len();
        let appended = if none_left { &appended[1..] } else { &appended };
        let at = match members.len().checked_sub(1) {
            Some(last) => end_of(last),
            // Behind the opening brace.
            None => object.start + object.of(text).find('{').map_or(0, |brace| brace + 1),
        };
        patches.insert(at, appended);
    }
}

/// A member's name, escapes read.
fn name_of(text: &str, member: Member) -> Cow<'_, str> {
    let raw = member.key.of(text);
    if raw.contains('\\') { Cow::Owned(decode_lossy(&format!("\"{raw}\"")).into_owned()) } else { Cow::Borrowed(raw) }
}

/// What a member gets that is not there.
fn value_of(rule: &Rule) -> Option<Cow<'_, str>> {
    match rule {
        Rule::Set(json) | Rule::Default(json) => Some(Cow::Borrowed(json)),
        Rule::Drop => None,
        Rule::Inside(rules) => built(rules).map(Cow::Owned),
    }
}

/// Whether anything inside gets its value in any case.
fn sets(rules: &BTreeMap<String, Rule>) -> bool {
    rules.values().any(|rule| match rule {
        Rule::Set(_) => true,
        Rule::Default(_) | Rule::Drop => false,
        Rule::Inside(rules) => sets(rules),
    })
}

/// The object that the rules make where there is none; `None` when they put nothing in it.
fn built(rules: &BTreeMap<String, Rule>) -> Option<String> {
    let members: Vec<String> =
        rules.iter().filter_map(|(name, rule)| Some(format!("{}:{}", encode_string(name), value_of(rule)?))).collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

/// The names of a path.
fn parse(path: &str) -> Result<Vec<&str>, ParamError> {
    let names: Vec<&str> = path.split('.').collect();
    if names.len() > MAX_DEPTH || names.iter().any(|name| name.trim().is_empty()) {
        return Err(ParamError::Path(path.to_owned()));
    }
    if RESERVED_PARAMS.contains(&names[0]) {
        return Err(ParamError::Reserved(names[0].to_owned()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
