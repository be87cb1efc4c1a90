//! What changed between two versions of our own document, and whether it breaks a client of the older version.
//!
//! A request that accepts less than before breaks clients. So does a response that promises less or contains something
//! new. If a component changes, the change is reported once for requests and once for responses that use the component.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::document::{Document, Operation, members};
use crate::walk::{Difference, Of, Part, Side, Walk, What};

/// Constraints that are tighter if their number is smaller. The next list has the constraints that are tighter if their
/// number is larger.
const UPPER_BOUNDS: [&str; 5] = ["maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties"];
const LOWER_BOUNDS: [&str; 5] = ["minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties"];

/// How a change affects a client of the older document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A correct client may stop working, or its generated code changes its names.
    Breaking,
    /// The API changed, and old clients continue to work.
    Compatible,
    /// Only descriptions and examples changed.
    Cosmetic,
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Breaking => "breaking",
            Self::Compatible => "compatible",
            Self::Cosmetic => "cosmetic",
        })
    }
}

/// One change; breaking changes sort first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The effect on clients.
    pub class: Class,
    /// The changed operation, or the changed component with its direction.
    pub at: String,
    /// What changed there.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<10} {}: {}", self.class, self.at, self.what)
    }
}

/// All changes from `old` to `new`.
pub fn compare(old: &Value, new: &Value) -> BTreeSet<Change> {
    let (old, new) = (Document::new(old), Document::new(new));
    let walk = Walk {
        old,
        new,
        counts: |difference| changes(difference).iter().any(|(class, _)| *class != Class::Cosmetic),
        is_shared: false,
        headers_elsewhere: &[],
    };
    let mut found = BTreeSet::new();
    let mut say = |class, at: &str, what: String| {
        let at = at.to_owned();
        found.insert(Change { class, at, what });
    };
    let (before, after) = (old.operations(), new.operations());
    for operation in &before {
        let name = operation.name();
        let Some(other) = after.iter().find(|candidate| candidate.name() == name) else {
            say(Class::Breaking, &name, "operation removed".to_owned());
            continue;
        };
        for (class, what) in described(&walk, operation, other) {
            say(class, &name, what);
        }
        let differences = walk.operation(operation, other);
        let (of_answers, others): (Vec<_>, Vec<_>) = differences.into_iter().partition(|one| status(one).is_some());
        for (class, what) in answers(&of_answers) {
            say(class, &name, what);
        }
        for difference in others {
            for (class, what) in changes(&difference) {
                say(class, &difference.place.near, what);
            }
        }
    }
    for operation in after
        .iter()
        .filter(|new| before.iter().all(|old| old.name() != new.name()))
    {
        say(Class::Compatible, &operation.name(), "operation added".to_owned());
    }
    found
}

/// Writes changes as a section of a changelog: first the breaking changes, then the compatible ones. Of changed texts
/// and examples, it writes only the number.
pub fn changelog(changes: &[Change]) -> String {
    let of = |class| changes.iter().filter(move |change| change.class == class);
    let mut text = String::new();
    for (title, class) in [("Breaks clients", Class::Breaking), ("Compatible", Class::Compatible)] {
        // If the same change occurs in several places, it becomes one line.
        let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for change in of(class) {
            places.entry(&change.what).or_default().insert(&change.at);
        }
        if !places.is_empty() {
            text.push_str(&format!("### {title}\n\n"));
        }
        for (what, places) in places {
            let places: Vec<String> = places.into_iter().map(|place| format!("`{place}`")).collect();
            text.push_str(&format!("- {}: {what}\n", places.join(", ")));
        }
        if !text.is_empty() && !text.ends_with("\n\n") {
            text.push('\n');
        }
    }
    let cosmetic = of(Class::Cosmetic).count();
    if cosmetic > 0 {
        text.push_str(&format!("Texts and examples that changed: {cosmetic}.\n"));
    }
    text
}

/// If a difference concerns a response as a whole, its status: the response is new or gone, or its description, headers
/// or media types differ. `None` if only a member of the body differs.
fn status(difference: &Difference) -> Option<&str> {
    use Part::{Header, MediaType, Response};
    let is_whole = matches!(
        &difference.what,
        What::Lost(Response(_) | Header(_) | MediaType(_))
            | What::Gained(Response(_) | Header(_) | MediaType(_), _)
            | What::Prose(Of::Carrier)
    );
    let status = difference.place.path.strip_prefix("response ")?;
    (is_whole && status.len() == 3).then_some(status)
}

/// Changes in the responses of an operation; the same change of several responses or headers is one line.
fn answers(differences: &[Difference]) -> Vec<(Class, String)> {
    let mut statuses: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for difference in differences {
        for (class, text) in changes(difference) {
            let (before, after) = text.split_once(&difference.place.path).unwrap_or((&text, ""));
            let change = (class, before.to_owned(), after.to_owned());
            statuses.entry(change).or_default().extend(status(difference));
        }
    }
    let (mut found, mut headers) = (Vec::new(), BTreeMap::<_, BTreeSet<String>>::new());
    for ((class, before, after), statuses) in statuses {
        let answers = format!("{}{after}", listed("response", statuses));
        match before
            .strip_prefix("header ")
            .and_then(|rest| rest.strip_suffix(" of "))
        {
            Some(name) => drop(headers.entry((class, answers)).or_default().insert(name.to_owned())),
            None => found.push((class, format!("{before}{answers}"))),
        }
    }
    let line = |((class, answers), names)| (class, format!("{} of {answers}", listed("header", names)));
    found.extend(headers.into_iter().map(line));
    found
}

/// `responses 200, 404`.
fn listed<T: AsRef<str>>(word: &str, names: BTreeSet<T>) -> String {
    let ending = if names.len() == 1 { "" } else { "s" };
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    format!("{word}{ending} {}", names.join(", "))
}

/// Changes of an operation outside its parameters and bodies.
fn described(walk: &Walk<'_>, old: &Operation<'_>, new: &Operation<'_>) -> Vec<(Class, String)> {
    let mut found = Vec::new();
    let (before, after) = (old.body, new.body);
    if before["operationId"] != after["operationId"] {
        let what = format!(
            "operationId {} became {}, which renames the method in generated clients",
            before["operationId"], after["operationId"]
        );
        found.push((Class::Breaking, what));
    }
    match (before["deprecated"] == true, after["deprecated"] == true) {
        (false, true) => found.push((Class::Compatible, "deprecated".to_owned())),
        (true, false) => found.push((Class::Compatible, "no longer deprecated".to_owned())),
        _ => {}
    }
    for text in ["tags", "summary", "description"] {
        if before[text] != after[text] {
            found.push((Class::Cosmetic, format!("{text} changed")));
        }
    }
    let alternatives = |document: &Document<'_>, operation: &Operation<'_>| -> BTreeSet<String> {
        let required = document.security(operation).into_iter().flatten();
        let names = |one: &Value| {
            members(one)
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(" and ")
        };
        required.map(names).collect()
    };
    let (before, after) = (alternatives(&walk.old, old), alternatives(&walk.new, new));
    match (before.is_empty(), after.is_empty()) {
        (true, false) => found.push((Class::Breaking, "a credential is now required".to_owned())),
        (false, true) => found.push((Class::Compatible, "no credential is required".to_owned())),
        _ => {
            let lost = before.difference(&after);
            found.extend(lost.map(|name| (Class::Breaking, format!("credential {name} is no longer accepted"))));
            let gained = after.difference(&before);
            found.extend(gained.map(|name| (Class::Compatible, format!("credential {name} is accepted"))));
        }
    }
    found
}

/// The effect on clients if fewer values are allowed than before.
fn narrowed(side: Side) -> Class {
    if side == Side::Request {
        Class::Breaking
    } else {
        Class::Compatible
    }
}

/// The effect on clients if more values are allowed than before.
fn widened(side: Side) -> Class {
    if side == Side::Request {
        Class::Compatible
    } else {
        Class::Breaking
    }
}

/// The effects of a difference on clients, each with its text.
fn changes(difference: &Difference) -> Vec<(Class, String)> {
    let side = difference.place.side;
    let (narrowed, widened) = (narrowed(side), widened(side));
    let either = |is_narrowed: bool| if is_narrowed { narrowed } else { widened };
    let path = &difference.place.path;
    let subject = |part: &Part| match part {
        Part::Parameter | Part::Response(_) => path.clone(),
        Part::Body => "request body".to_owned(),
        Part::Header(name) => format!("header {name} of {path}"),
        Part::MediaType(name) => format!("media type {name} of {path}"),
        Part::Property(name, _) => format!("property {name}"),
        Part::Values => "values of the map".to_owned(),
        Part::Variant(name, _) => format!("alternative {name}"),
    };
    let of_status = |status: &str| {
        if status.starts_with('2') {
            Class::Breaking
        } else {
            Class::Compatible
        }
    };
    let one = match &difference.what {
        What::Lost(part) => {
            let class = match part {
                Part::Response(status) => of_status(status),
                Part::Property(_, is_closed) if side == Side::Request && !is_closed => Class::Compatible,
                Part::Variant(..) => narrowed,
                Part::Values => widened,
                _ => Class::Breaking,
            };
            (class, format!("{} removed", subject(part)))
        }
        What::Gained(part, is_required) => {
            let class = match part {
                Part::Response(status) => of_status(status),
                Part::Variant(..) => widened,
                _ if *is_required => narrowed,
                _ => Class::Compatible,
            };
            let kind = if *is_required { "required " } else { "" };
            (class, format!("{kind}{} added", subject(part)))
        }
        What::Required(part, is_required) => {
            let now = if *is_required { "required" } else { "optional" };
            (either(*is_required), format!("{} became {now}", subject(part)))
        }
        What::Nullable(true) => (widened, "may now be null".to_owned()),
        What::Nullable(false) => (narrowed, "may no longer be null".to_owned()),
        What::Kind(before, after) => match (before.as_deref(), after.as_deref()) {
            (Some("integer"), Some("number")) => (widened, "integer became number".to_owned()),
            (Some("number"), Some("integer")) => (narrowed, "number became integer".to_owned()),
            (Some(before), Some(after)) => (Class::Breaking, format!("type {before} became {after}")),
            (before, after) => {
                let (before, after) = (before.unwrap_or("any"), after.unwrap_or("any"));
                (either(before == "any"), format!("type {before} became {after}"))
            }
        },
        What::Enumeration(before, after) => match (before, after) {
            (Some(before), Some(after)) => {
                let lost = before.iter().filter(|value| !after.contains(value));
                let gained = after.iter().filter(|value| !before.contains(value));
                let lost = lost.map(|value| (narrowed, format!("value {value} removed")));
                return lost
                    .chain(gained.map(|value| (widened, format!("value {value} added"))))
                    .collect();
            }
            (None, _) => (narrowed, "became an enumeration".to_owned()),
            (_, None) => (widened, "is no longer an enumeration".to_owned()),
        },
        What::Constraint(keyword, Some(before), Some(after)) => {
            let is_larger = after.as_f64() > before.as_f64();
            let class = match (UPPER_BOUNDS.contains(keyword), LOWER_BOUNDS.contains(keyword)) {
                (true, _) => either(!is_larger),
                (_, true) => either(is_larger),
                _ => Class::Breaking,
            };
            (class, format!("{keyword} {before} became {after}"))
        }
        What::Constraint(keyword, Some(before), None) => (widened, format!("{keyword} {before} removed")),
        What::Constraint(keyword, None, Some(after)) => (narrowed, format!("{keyword} {after} added")),
        What::Default(before, after) => (Class::Breaking, format!("default {before} became {after}")),
        What::Closed(is_closed) => {
            let now = if *is_closed { "refused" } else { "allowed" };
            (either(*is_closed), format!("unknown properties are {now}"))
        }
        What::Prose(Of::Schema) => (Class::Cosmetic, "text or example changed".to_owned()),
        What::Prose(Of::Carrier) => (Class::Cosmetic, format!("text or example of {path} changed")),
        What::FewerVariants(..) | What::Constraint(_, None, None) => return Vec::new(),
    };
    vec![one]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A small document in the forms that our exporter writes.
    fn base() -> Value {
        json!({
            "openapi": "3.0.3",
            "paths": {
                "/v2/orders": {
                    "post": {
                        "operationId": "createOrder",
                        "tags": ["Orders"],
                        "security": [{"ApiKey": []}, {"ClientId": []}],
                        "requestBody": {"required": true, "content": {"application/json": {
                            "schema": {"$ref": "#/components/schemas/OrderBody"}}}},
                        "responses": {
                            "201": {"description": "Created", "headers": {"location": {}}, "content": {
                                "application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                            "404": {"description": "Not found"},
                        },
                    },
                    "get": {
                        "operationId": "searchOrders",
                        "security": [{"ApiKey": []}],
                        "parameters": [
                            {"name": "wallet", "in": "query", "required": false, "schema": {"type": "string"}},
                            {"name": "chain", "in": "query", "schema": {"$ref": "#/components/schemas/Chain"}},
                        ],
                        "responses": {"200": {"content": {"application/json": {"schema": {
                            "type": "array", "maxItems": 100, "items": {"$ref": "#/components/schemas/Order"}}}}}},
                    },
                },
                "/v2/open": {"get": {"operationId": "readOpen", "security": [], "responses": {"200": {}}}},
            },
            "components": {"schemas": {
                "Chain": {"type": "string", "enum": ["BASE", "OPTIMISM"]},
                "OrderBody": {"type": "object", "required": ["amount"], "properties": {
                    "amount": {"type": "string", "pattern": "^[0-9]+$"},
                    "reference": {"type": "string", "maxLength": 255},
                    "count": {"type": "integer", "minimum": 1, "default": 1},
                }},
                "Order": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string", "description": "The id"},
                    "state": {"$ref": "#/components/schemas/State"},
                    "total": {"type": "number"},
                    "note": {"type": "string", "nullable": true},
                    "route": {"anyOf": [{"$ref": "#/components/schemas/Direct"}, {"$ref": "#/components/schemas/Bridge"}]},
                }},
                "State": {"type": "string", "enum": ["open", "paid"]},
                "Direct": {"type": "object", "properties": {"fee": {"type": "string"}}},
                "Bridge": {"type": "object", "properties": {"hops": {"type": "integer"}}},
            }},
        })
    }

    /// The JSON pointer of a short path. The first words `post`, `get` and `open` mean operations; any other first word
    /// means a component.
    fn place(path: &str) -> String {
        match path.split_once('/').unwrap_or((path, "")) {
            ("", _) => path.to_owned(),
            (method @ ("post" | "get"), rest) => format!("/paths/~1v2~1orders/{method}/{rest}"),
            ("open", rest) => format!("/paths/~1v2~1open/get/{rest}"),
            _ => format!("/components/schemas/{path}"),
        }
    }

    /// The document after edits: `= place value` sets, `+ place value` appends, `- place` removes.
    fn edited(edits: &str) -> Value {
        let mut document = base();
        for edit in edits.split(" & ") {
            let mut words = edit.splitn(3, ' ');
            let (kind, path) = (words.next().unwrap(), place(words.next().unwrap()));
            let value = words.next().map(|text| serde_json::from_str(text).unwrap());
            let (parent, name) = path.trim_end_matches('/').rsplit_once('/').unwrap();
            match (
                kind,
                document.pointer_mut(if kind == "+" { &path } else { parent }).unwrap(),
            ) {
                ("+", list) => list.as_array_mut().unwrap().push(value.unwrap()),
                ("-", Value::Array(list)) => drop(list.remove(name.parse().unwrap())),
                ("-", members) => drop(
                    members
                        .as_object_mut()
                        .unwrap()
                        .remove(&name.replace("~1", "/"))
                        .unwrap(),
                ),
                (_, members) => members[name] = value.unwrap(),
            }
        }
        document
    }

    const CASES: &str = r##"
operation removed | breaking | - get
operation added | compatible | = /paths/~1v2~1orders/put {}
operationId changed | breaking | = post/operationId "makeOrder"
operation deprecated | compatible | = post/deprecated true
tag changed | cosmetic | = post/tags ["Other"]
credential refused | breaking | - post/security/1
credential accepted | compatible | + get/security {"Session": []}
credential now needed | breaking | + open/security {"ApiKey": []}
query became required | breaking | = get/parameters/0/required true
query removed | breaking | - get/parameters/0
optional query added | compatible | + get/parameters {"name": "z", "in": "query", "schema": {}}
required query added | breaking | + get/parameters {"name": "z", "in": "query", "required": true, "schema": {}}
request body became optional | compatible | = post/requestBody/required false
request body added | breaking | = get/requestBody {"required": true, "content": {}}
error status removed | compatible | - post/responses/404
error status added | compatible | = post/responses/409 {}
success status removed | breaking | - post/responses/201
success status added | breaking | = post/responses/200 {}
response header removed | breaking | - post/responses/201/headers/location
media type removed | breaking | - post/requestBody/content/application~1json
optional request property added | compatible | = OrderBody/properties/more {"type": "string"}
required request property added | breaking | = OrderBody/properties/more {"type": "string"} & + OrderBody/required "more"
request property ignored | compatible | - OrderBody/properties/count
request closed to unknown properties | breaking | = OrderBody/additionalProperties false
response property removed | breaking | - Order/properties/total
response property added | compatible | = Order/properties/more {"type": "string"}
response property became optional | breaking | = Order/required []
request enum widened | compatible | + Chain/enum "POLYGON"
request enum narrowed | breaking | - Chain/enum/1
response enum widened | breaking | + State/enum "void"
response enum narrowed | compatible | - State/enum/1
type changed | breaking | = Order/properties/total/type "string"
response number became integer | compatible | = Order/properties/total/type "integer"
request string shortened | breaking | = OrderBody/properties/reference/maxLength 100
request string lengthened | compatible | = OrderBody/properties/reference/maxLength 500
pattern changed | breaking | = OrderBody/properties/amount/pattern "^x$"
default changed | breaking | = OrderBody/properties/count/default 2
response became nullable | breaking | = Order/properties/total/nullable true
response no longer null | compatible | - Order/properties/note/nullable
description changed | cosmetic | = Order/properties/id/description "Another text"
response union gained a member | breaking | + Order/properties/route/anyOf {"$ref": "#/components/schemas/State"}
response union lost a member | compatible | - Order/properties/route/anyOf/1
change inside a union member | breaking | - Bridge/properties/hops
more items in a response | breaking | = get/responses/200/content/application~1json/schema/maxItems 200"##;

    #[test]
    fn every_kind_of_change_has_its_class() {
        for case in CASES.trim().lines() {
            let [name, class, edits] = case.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{case}")
            };
            let changes = compare(&base(), &edited(edits));
            let found = changes.first().map(|change| change.class.to_string());
            assert_eq!(found.as_deref(), Some(class), "{name}: {changes:?}");
        }
        assert_eq!(CASES.trim().lines().count(), 44);
    }

    #[test]
    fn equal_documents_have_no_changes() {
        assert!(compare(&base(), &base()).is_empty());
    }

    #[test]
    fn equivalent_schemas_are_no_change() {
        let (bridge, direct) = (
            r##"{"$ref": "#/components/schemas/Bridge"}"##,
            r##"{"$ref": "#/components/schemas/Direct"}"##,
        );
        let turned = edited(&format!("= Order/properties/route/anyOf [{bridge}, {direct}]"));
        assert!(compare(&base(), &turned).is_empty());
        let wrapped =
            r##"= Order/properties/state {"nullable": true, "allOf": [{"$ref": "#/components/schemas/State"}]}"##;
        assert!(compare(&edited(wrapped), &edited("= State/nullable true")).is_empty());
    }

    #[test]
    fn the_same_change_of_several_responses_is_one_line() {
        let edits = [
            r##"= post/responses/404/headers {"a": {}, "b": {}}"##,
            r##"= post/responses/201/headers {"location": {}, "a": {}, "b": {}}"##,
            r##"= post/responses/201/description "New""##,
            r##"= post/responses/404/description "Lost""##,
        ];
        let changes = compare(&base(), &edited(&edits.join(" & ")));
        let printed: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let lines = [
            "compatible POST /v2/orders: headers a, b of responses 201, 404 added",
            "cosmetic   POST /v2/orders: text or example of responses 201, 404 changed",
        ];
        assert_eq!(printed, lines);
    }

    #[test]
    fn a_number_that_became_whole_has_no_other_format() {
        let number = r##"= Order/properties/total {"type": "number", "format": "double"}"##;
        let whole = r##"= Order/properties/total {"type": "integer", "format": "int64"}"##;
        let changes = compare(&edited(number), &edited(whole));
        assert!(
            changes.iter().all(|change| change.class == Class::Compatible),
            "{changes:?}"
        );
        assert_eq!(changes.len(), 2);
    }

    #[test]
    fn a_text_of_a_component_is_one_line_wherever_it_is_used() {
        let changes = compare(
            &base(),
            &edited(r##"= State/description "New" & = Order/properties/id/example "1""##),
        );
        let printed: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let lines = ["Order (response).id", "State (response)"];
        assert_eq!(
            printed,
            lines.map(|at| format!("cosmetic   {at}: text or example changed"))
        );
    }

    #[test]
    fn an_alternative_is_compared_with_its_namesake() {
        // The two alternatives have exchanged their members: each has the members that the other had.
        let turned =
            r##"= Bridge/properties {"fee": {"type": "string"}} & = Direct/properties {"hops": {"type": "integer"}}"##;
        let changes = compare(&base(), &edited(turned));
        let is_of = |name: &str| changes.iter().filter(|change| change.at.starts_with(name)).count();
        assert_eq!((is_of("Bridge"), is_of("Direct")), (2, 2), "{changes:?}");
    }

    #[test]
    fn a_changelog_starts_with_breaking_changes_and_counts_texts() {
        let changes = compare(
            &base(),
            &edited(
                r##"- Order/properties/total & = Order/properties/extra {"type": "string"} & = State/description "New""##,
            ),
        );
        let changes: Vec<Change> = changes.into_iter().collect();
        let wanted = "### Breaks clients\n\n- `Order (response)`: property total removed\n\n\
            ### Compatible\n\n- `Order (response)`: property extra added\n\nTexts and examples that changed: 1.\n";
        assert_eq!(changelog(&changes), wanted);
    }

    #[test]
    fn removed_event_members_break_receivers() {
        let document = |members: Value| {
            crate::turned::turned(&json!({ "webhooks": { "paid": { "post": { "requestBody": { "content": {
                "application/json": { "schema": { "type": "object", "properties": members } } } } } } } }))
        };
        let old = document(json!({ "a": { "type": ["string", "null"] } }));
        let changes = compare(&old, &document(json!({ "b": { "type": "string" } })));
        let printed: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let lines = [
            "breaking   POST paid response 200: property a removed",
            "compatible POST paid response 200: property b added",
        ];
        assert_eq!(printed, lines);
    }

    #[test]
    fn a_change_is_named_with_its_place() {
        let changes = compare(&base(), &edited("- Order/properties/total"));
        let printed: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["breaking   Order (response): property total removed"]);
    }
}
