//! Compares an operation and its schemas in two documents, and collects every difference. The callers, `published` and
//! `compat`, decide what a difference means.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::document::{Document, Operation, media_types, members, path_names};
use crate::meaning::{CONSTRAINTS, DEPTH_MAX, Variant, component, kinds, meaning_of, same};

/// The direction of a value: the client sends it in a request, or receives it in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

/// Location of a difference.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The full path inside the operation: `response 200.items[].id`.
    pub(crate) path: String,
    /// A short form of the location: the path from the innermost component, such as `Item (response).id`, or else from
    /// the operation.
    pub(crate) near: String,
    /// Who writes the value.
    pub(crate) side: Side,
    depth: usize,
}

impl Place {
    fn below(&self, suffix: &str) -> Self {
        Self {
            path: format!("{}{suffix}", self.path),
            near: format!("{}{suffix}", self.near),
            side: self.side,
            depth: self.depth + 1,
        }
    }

    fn in_component(mut self, name: Option<&String>) -> Self {
        let side = if self.side == Side::Request {
            "request"
        } else {
            "response"
        };
        if let Some(name) = name {
            self.near = format!("{name} ({side})");
        }
        self
    }
}

/// A part that one document has and the other lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The parameter at the location.
    Parameter,
    /// The body of the request.
    Body,
    /// The response at the location, with its status.
    Response(String),
    /// A header of the response at the location.
    Header(String),
    /// A media type of the body at the location.
    MediaType(String),
    /// A member of the object at the location, by name. The flag says whether the document that lacks the member
    /// forbids unlisted members.
    Property(String, bool),
    /// The schema of the values of the map at the location.
    Values,
    /// An alternative of the union at the location, by name. The flag says whether the older document has no
    /// alternative of the same type.
    Variant(String, bool),
}

/// The part of a document that a description belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The schema at the location.
    Schema,
    /// The parameter, body or response whose schema is at the location.
    Carrier,
}

/// What differs between the older document (or the contract) and the newer document (or ours).
#[derive(Debug, Clone)]
pub(crate) enum What {
    Lost(Part),
    /// Only the newer document has the part. The flag says whether the part is required.
    Gained(Part, bool),
    /// The part became required (true) or optional (false).
    Required(Part, bool),
    /// The value became nullable (true) or stopped being nullable (false).
    Nullable(bool),
    /// The types before and after; `None` means any type.
    Kind(Option<String>, Option<String>),
    /// The allowed values before and after; `None` means any value.
    Enumeration(Option<Vec<Value>>, Option<Vec<Value>>),
    /// A keyword, with its values before and after the change.
    Constraint(&'static str, Option<Value>, Option<Value>),
    Default(Value, Value),
    /// Unlisted members became forbidden (true) or allowed (false).
    Closed(bool),
    /// There are fewer alternatives than before, and their content differs too. The numbers are those before and after.
    FewerVariants(usize, usize),
    /// Text and examples.
    Prose(Of),
}

/// One difference.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) place: Place,
    pub(crate) what: What,
}

/// Two documents, and the settings of the comparison.
pub(crate) struct Walk<'a> {
    pub(crate) old: Document<'a>,
    pub(crate) new: Document<'a>,
    /// Whether a difference counts when the most similar alternatives of two unions are searched.
    pub(crate) counts: fn(&Difference) -> bool,
    /// Whether one alternative of the newer document may match several alternatives of the older one.
    pub(crate) is_shared: bool,
    /// Names of header parameters in the older document that another check compares.
    pub(crate) headers_elsewhere: &'static [&'static str],
}

type Found = Vec<Difference>;

fn say(found: &mut Found, place: &Place, what: What) {
    let place = place.clone();
    found.push(Difference { place, what });
}

impl<'a> Walk<'a> {
    /// All differences between two operations, except those of identifiers, tags, texts and credentials.
    pub(crate) fn operation(&self, old: &Operation<'a>, new: &Operation<'a>) -> Found {
        let mut found = Found::new();
        let place = |path: &str, side| Place {
            path: path.to_owned(),
            near: old.name(),
            side,
            depth: 0,
        };
        self.parameters(old, new, &|path| place(path, Side::Request), &mut found);
        let at = place("request", Side::Request);
        let body = |document: &Document<'a>, operation: &Operation<'a>| {
            let body = operation.body.get("requestBody")?;
            Some(document.resolve(body).into_owned())
        };
        match (body(&self.old, old), body(&self.new, new)) {
            (Some(_), None) => say(&mut found, &at, What::Lost(Part::Body)),
            (None, Some(body)) => say(&mut found, &at, What::Gained(Part::Body, body["required"] == true)),
            (Some(before), Some(after)) => {
                required(&mut found, &at, Part::Body, &before, &after);
                self.content(&before, &after, &at, &mut found);
            }
            (None, None) => {}
        }
        let (before, after) = (&old.body["responses"], &new.body["responses"]);
        self.responses(before, after, &|path| place(path, Side::Response), &mut found);
        found
    }

    fn parameters(&self, old: &Operation<'a>, new: &Operation<'a>, place: &dyn Fn(&str) -> Place, found: &mut Found) {
        let (before, after) = (self.old.parameters(old), self.new.parameters(new));
        let renamed: BTreeMap<&str, &str> = path_names(old.path).into_iter().zip(path_names(new.path)).collect();
        for ((kind, name), parameter) in &before {
            if kind == "header" && self.headers_elsewhere.contains(&name.as_str()) {
                continue;
            }
            let at = place(&format!(
                "{kind} parameter {}",
                parameter["name"].as_str().unwrap_or(name)
            ));
            let new_name = match renamed.get(name.as_str()) {
                Some(other) if kind == "path" => (*other).to_owned(),
                _ => name.clone(),
            };
            let Some(other) = after.get(&(kind.clone(), new_name)) else {
                say(found, &at, What::Lost(Part::Parameter));
                continue;
            };
            if kind != "path" {
                required(found, &at, Part::Parameter, parameter, other);
            }
            prose(found, &at, Of::Carrier, parameter, other);
            self.schema(&parameter["schema"], &other["schema"], &within(&at), found);
        }
        for ((kind, name), parameter) in &after {
            let from_template = kind == "path" && renamed.values().any(|new| new == name);
            if !from_template && !before.contains_key(&(kind.clone(), name.clone())) {
                let at = place(&format!("{kind} parameter {name}"));
                say(found, &at, What::Gained(Part::Parameter, parameter["required"] == true));
            }
        }
    }

    fn responses(&self, old: &Value, new: &Value, place: &dyn Fn(&str) -> Place, found: &mut Found) {
        for (status, before) in members(old) {
            let at = place(&format!("response {status}"));
            let range = format!("{}XX", &status[..1]);
            let after = [status.as_str(), &range, "default"]
                .into_iter()
                .find_map(|name| new.get(name));
            let Some(after) = after else {
                say(found, &at, What::Lost(Part::Response(status.clone())));
                continue;
            };
            let (before, after) = (self.old.resolve(before), self.new.resolve(after));
            let headers = |response: &Value| -> BTreeMap<String, String> {
                let names = members(&response["headers"]).map(|(name, _)| name);
                names.map(|name| (name.to_lowercase(), name.clone())).collect()
            };
            let (with, without) = (headers(&before), headers(&after));
            for (_, name) in with.iter().filter(|(key, _)| !without.contains_key(*key)) {
                say(found, &at, What::Lost(Part::Header(name.clone())));
            }
            for (_, name) in without.iter().filter(|(key, _)| !with.contains_key(*key)) {
                say(found, &at, What::Gained(Part::Header(name.clone()), false));
            }
            prose(found, &at, Of::Carrier, &before, &after);
            self.content(&before, &after, &at, found);
        }
        for (status, _) in members(new).filter(|(status, _)| old.get(status).is_none()) {
            let at = place(&format!("response {status}"));
            say(found, &at, What::Gained(Part::Response(status.clone()), false));
        }
    }

    /// A media type without a schema says nothing about the body and is skipped. The contract has such entries where
    /// the reference shows only examples.
    fn content(&self, old: &Value, new: &Value, at: &Place, found: &mut Found) {
        let (before, after) = (media_types(&old["content"]), media_types(&new["content"]));
        for (name, media) in before.iter().filter(|(_, media)| media.get("schema").is_some()) {
            match after.get(name) {
                Some(other) => {
                    prose(found, at, Of::Carrier, media, other);
                    self.schema(&media["schema"], &other["schema"], &within(at), found);
                }
                None => say(found, at, What::Lost(Part::MediaType(name.clone()))),
            }
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            say(found, at, What::Gained(Part::MediaType(name.clone()), false));
        }
    }

    fn schema(&self, old: &Value, new: &Value, at: &Place, found: &mut Found) {
        if at.depth > DEPTH_MAX {
            return;
        }
        let at = &at.clone().in_component(component(new).as_ref());
        let (before, after) = (meaning_of(&self.old, old), meaning_of(&self.new, new));
        if before.nullable != after.nullable {
            say(found, at, What::Nullable(after.nullable));
        }
        let (old, new) = (self.old.resolve(old), self.new.resolve(new));
        if old["default"] != new["default"] {
            say(found, at, What::Default(old["default"].clone(), new["default"].clone()));
        }
        prose(found, at, Of::Schema, &old, &new);
        match (before.variants.as_slice(), after.variants.as_slice()) {
            ([], []) => {}
            ([], _) => say(found, at, What::Kind(None, Some(kinds(&after.variants)))),
            (_, []) => say(found, at, What::Kind(Some(kinds(&before.variants)), None)),
            (before, after) => self.variants(before, after, at, found),
        }
    }

    /// Matches each alternative of the older document with an alternative of the newer document: the one that has the
    /// same name, or else the most similar one.
    fn variants(&self, before: &[Variant], after: &[Variant], at: &Place, found: &mut Found) {
        let mut own = Found::new();
        let mut used = BTreeSet::new();
        for (index, old) in before.iter().enumerate() {
            let place = match before.len() {
                1 => at.clone(),
                _ => at.below(&format!("|{index}")).in_component(old.name.as_ref()),
            };
            let fit = |(candidate, new): (usize, &Variant)| {
                let differences = self.variant(old, new, &place);
                let count = differences
                    .iter()
                    .filter(|difference| (self.counts)(difference))
                    .count();
                let is_namesake = old.name.is_some() && old.name == new.name;
                ((!is_namesake, count, used.contains(&candidate)), candidate, differences)
            };
            let best = after.iter().enumerate().map(fit).min_by_key(|(score, ..)| *score);
            let Some((_, candidate, differences)) = best else {
                continue;
            };
            let is_first = used.insert(candidate);
            if is_first || self.is_shared {
                own.extend(differences);
            }
            if !is_first {
                say(&mut own, at, What::Lost(Part::Variant(name_of(old), false)));
            }
        }
        if after.len() < before.len() && own.iter().any(|difference| (self.counts)(difference)) {
            say(&mut own, at, What::FewerVariants(before.len(), after.len()));
        }
        let known: BTreeSet<_> = before.iter().map(|variant| &variant.kind).collect();
        for (_, new) in after.iter().enumerate().filter(|(index, _)| !used.contains(index)) {
            let is_new_kind = after.len() > before.len() && !known.contains(&new.kind);
            let name = if is_new_kind {
                new.kind.clone()
            } else {
                new.name.clone()
            };
            let part = Part::Variant(name.unwrap_or_else(|| name_of(new)), is_new_kind);
            say(&mut own, at, What::Gained(part, false));
        }
        found.append(&mut own);
    }

    fn variant(&self, old: &Variant, new: &Variant, at: &Place) -> Found {
        let mut found = Found::new();
        if old.kind != new.kind {
            say(&mut found, at, What::Kind(old.kind.clone(), new.kind.clone()));
            let is_number = |kind: &Option<String>| matches!(kind.as_deref(), Some("number" | "integer"));
            if !(is_number(&old.kind) && is_number(&new.kind)) {
                return found;
            }
        }
        if old.allowed != new.allowed {
            say(
                &mut found,
                at,
                What::Enumeration(old.allowed.clone(), new.allowed.clone()),
            );
        }
        for keyword in CONSTRAINTS {
            let (before, after) = (old.constraints.get(keyword), new.constraints.get(keyword));
            let is_same = match (before, after) {
                (Some(before), Some(after)) => same(before, after),
                _ => before == after,
            };
            if !is_same {
                say(
                    &mut found,
                    at,
                    What::Constraint(keyword, before.cloned(), after.cloned()),
                );
            }
        }
        self.object(old, new, at, &mut found);
        if let (Some(before), after) = (&old.items, &new.items) {
            self.schema(
                before,
                after.as_ref().unwrap_or(&Value::Null),
                &at.below("[]"),
                &mut found,
            );
        }
        found
    }

    fn object(&self, old: &Variant, new: &Variant, at: &Place, found: &mut Found) {
        for (name, property) in &old.properties {
            let part = Part::Property(name.clone(), new.is_closed());
            let place = at.below(&format!(".{name}"));
            match (new.properties.get(name), new.map_values()) {
                (Some(other), _) => {
                    let is_required = new.required.contains(name);
                    if old.required.contains(name) != is_required {
                        say(found, at, What::Required(part, is_required));
                    }
                    self.schema(property, other, &place, found);
                }
                (None, Some(values)) => self.schema(property, values, &place, found),
                (None, None) => say(found, at, What::Lost(part)),
            }
        }
        for name in new.properties.keys().filter(|name| !old.properties.contains_key(*name)) {
            let part = Part::Property(name.clone(), old.is_closed());
            say(found, at, What::Gained(part, new.required.contains(name)));
        }
        if old.is_closed() != new.is_closed() {
            say(found, at, What::Closed(new.is_closed()));
        }
        match (old.map_values(), new.map_values()) {
            (Some(before), Some(after)) => self.schema(before, after, &at.below(".*"), found),
            (Some(_), None) if new.properties.is_empty() || new.is_closed() => {
                say(found, at, What::Lost(Part::Values));
            }
            _ => {}
        }
    }
}

/// The location of a schema inside its operation. If the location is named by component, the caller adds the operation
/// to it.
fn within(at: &Place) -> Place {
    Place {
        near: format!("{} {}", at.near, at.path),
        ..at.clone()
    }
}

fn name_of(variant: &Variant) -> String {
    let name = variant.name.as_ref().or(variant.kind.as_ref());
    name.map_or_else(|| "anything".to_owned(), Clone::clone)
}

fn required(found: &mut Found, at: &Place, part: Part, old: &Value, new: &Value) {
    let (before, after) = (old["required"] == true, new["required"] == true);
    if before != after {
        say(found, at, What::Required(part, after));
    }
}

fn prose(found: &mut Found, at: &Place, of: Of, old: &Value, new: &Value) {
    let texts = ["description", "title", "example", "examples"];
    if texts.iter().any(|text| old[text] != new[text]) {
        say(found, at, What::Prose(of));
    }
}
