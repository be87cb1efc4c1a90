//! The operations and events of the documents, in the order in which an integrator needs them.

use serde_json::Value;

/// Title, path and text of a document.
pub type IndexedDocument = (&'static str, &'static str, &'static str);

/// HTTP methods in display order: creating operations come first.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];

/// Groups of operations in display order, by their case-insensitive names in the documents. Other groups come last.
pub(super) const ORDER: [&str; 14] = [
    "requests",
    "payments",
    "payouts",
    "secure payments",
    "payers",
    "currencies",
    "client ids",
    "destinations",
    "events",
    "webhooks",
    "sessions",
    "api keys",
    "orchestrators",
    "provider callbacks",
];

/// The content of the documents.
#[derive(Debug, Default)]
pub(super) struct DocumentIndex {
    /// Groups of operations.
    pub(super) groups: Vec<Group>,
    /// Events.
    pub(super) events: Vec<IndexedEvent>,
}

/// Operations of one group, of all documents.
#[derive(Debug)]
pub(super) struct Group {
    /// Name.
    pub(super) name: String,
    /// Description from the first document that has it.
    pub(super) about: String,
    /// Its operations.
    pub(super) operations: Vec<IndexedOperation>,
}

/// An operation.
#[derive(Debug)]
pub(super) struct IndexedOperation {
    /// operationId.
    pub(super) id: String,
    /// Address of the document that contains it.
    pub(super) document: &'static str,
    /// Method in lower case.
    pub(super) method: &'static str,
    /// Path with parameter names in braces.
    pub(super) path: String,
    /// Summary.
    pub(super) summary: String,
    /// Further search text: the description, and the names of the parameters.
    pub(super) says: String,
}

/// An event.
#[derive(Debug)]
pub(super) struct IndexedEvent {
    /// Key of the event in the document: its name, with a suffix for the kind of receiver if receivers get different
    /// bodies.
    pub(super) key: String,
    /// Address of the document that contains it.
    pub(super) document: &'static str,
    /// Summary.
    pub(super) summary: String,
    /// Further search text: the description, and the names of the parameters.
    pub(super) says: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The description of an operation and the names of its parameters, which can be references to shared components.
fn said(document: &Value, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let names = parameters.filter_map(|parameter| {
        let pointer = parameter["$ref"].as_str().and_then(|link| link.strip_prefix('#'));
        let parameter = pointer.map_or(Some(parameter), |pointer| document.pointer(pointer));
        parameter?["name"].as_str()
    });
    let description = operation["description"].as_str();
    let all: Vec<&str> = description.into_iter().chain(names).collect();
    all.join(" ")
}

impl DocumentIndex {
    /// Reads documents; a document that is not JSON contributes nothing.
    pub(super) fn of(documents: &[IndexedDocument]) -> Self {
        let mut listed = Self::default();
        for (_, address, written) in documents {
            let document: Value = serde_json::from_str(written).unwrap_or_default();
            for (path, item) in document["paths"].as_object().into_iter().flatten() {
                for method in METHODS.into_iter().filter(|method| item.get(method).is_some()) {
                    let found = &item[method];
                    let group = listed.group(&document, found["tags"][0].as_str().unwrap_or("Other"));
                    group.operations.push(IndexedOperation {
                        id: text(&found["operationId"]),
                        document: address,
                        method,
                        path: path.clone(),
                        summary: text(&found["summary"]),
                        says: said(&document, found),
                    });
                }
            }
            for (key, item) in document["webhooks"].as_object().into_iter().flatten() {
                listed.events.push(IndexedEvent {
                    key: key.clone(),
                    document: address,
                    summary: text(&item["post"]["summary"]),
                    says: said(&document, &item["post"]),
                });
            }
        }
        listed.groups.sort_by_key(|group| place(&group.name));
        listed
    }

    fn group(&mut self, document: &Value, name: &str) -> &mut Group {
        let index = match self.groups.iter().position(|group| group.name == name) {
            Some(index) => index,
            None => {
                let mut tags = document["tags"].as_array().into_iter().flatten();
                let tag = tags.find(|tag| tag["name"] == name);
                self.groups.push(Group {
                    name: name.to_owned(),
                    about: tag.map(|tag| text(&tag["description"])).unwrap_or_default(),
                    operations: Vec::new(),
                });
                self.groups.len() - 1
            }
        };
        &mut self.groups[index]
    }
}

fn place(name: &str) -> usize {
    let name = name.to_lowercase();
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn groups_of_several_documents_merge_in_the_order_of_work() {
        let operation =
            |tag: &str, id: &str| json!({ "get": { "tags": [tag], "operationId": id, "summary": "Do it" } });
        let first = json!({
            "tags": [{ "name": "Events", "description": "The log" }],
            "paths": { "/a": operation("Events", "a"), "/b": operation("Novelties", "b"), "/c": operation("Requests", "c") },
        });
        let mut last = operation("Events", "d");
        last["get"]["description"] = "Follows it".into();
        last["get"]["parameters"] = json!([{ "$ref": "#/components/parameters/Key" }, { "name": "limit" }]);
        let second = json!({
            "paths": { "/d": last },
            "components": { "parameters": { "Key": { "name": "idempotency-key" } } },
            "webhooks": { "paid": { "post": { "summary": "It is paid" } } },
        });
        let documents: [IndexedDocument; 3] = [
            ("First", "/1.json", first.to_string().leak()),
            ("Second", "/2.json", second.to_string().leak()),
            ("Broken", "/3.json", "{"),
        ];
        let listed = DocumentIndex::of(&documents);
        let names: Vec<&str> = listed.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["Requests", "Events", "Novelties"]);
        let events = &listed.groups[1];
        let places: Vec<_> = events
            .operations
            .iter()
            .map(|one| (one.id.as_str(), one.document))
            .collect();
        assert_eq!(places, [("a", "/1.json"), ("d", "/2.json")]);
        assert_eq!(events.operations[1].says, "Follows it idempotency-key limit");
        assert_eq!(
            (events.about.as_str(), listed.events[0].key.as_str()),
            ("The log", "paid")
        );
    }
}
