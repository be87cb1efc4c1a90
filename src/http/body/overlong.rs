//! Lists that are longer than their schema allows. They are refused whatever they hold, and to look at thousands of
//! entries first would be work for nothing.

use serde_json::Value;

/// A list that is too long.
#[derive(Debug)]
pub(super) struct Overlong {
    /// Where it stands, as a JSON pointer.
    pub(super) pointer: String,
    /// Most entries.
    pub(super) max: u64,
}

/// Empties the lists of a value that are too long, and returns them.
pub(super) fn empty(schema: &Value, value: &mut Value) -> Vec<Overlong> {
    let mut found = Vec::new();
    visit(schema, schema, value, &mut String::new(), &mut found);
    found
}

fn visit(root: &Value, schema: &Value, value: &mut Value, pointer: &mut String, found: &mut Vec<Overlong>) {
    let Some(schema) = only_form(root, schema) else {
        return;
    };
    let depth = pointer.len();
    match value {
        Value::Array(entries) => {
            if let Some(max) = schema["maxItems"].as_u64().filter(|max| entries.len() as u64 > *max) {
                entries.clear();
                let pointer = pointer.clone();
                found.push(Overlong { pointer, max });
                return;
            }
            let Some(of_entries) = schema.get("items") else {
                return;
            };
            for (index, entry) in entries.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                visit(root, of_entries, entry, pointer, found);
                pointer.truncate(depth);
            }
        }
        Value::Object(members) => {
            let Some(of_members) = schema.get("properties") else {
                return;
            };
            for (name, member) in members.iter_mut() {
                if let Some(of_member) = of_members.get(name) {
                    pointer.push_str(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
                    visit(root, of_member, member, pointer, found);
                    pointer.truncate(depth);
                }
            }
        }
        _ => {}
    }
}

/// What a reference means, and of a form that may also be null the form; `None` where a value may have several.
fn only_form<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return only_form(root, root.pointer(reference.trim_start_matches('#'))?);
    }
    let forms = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .find_map(|keyword| schema.get(keyword));
    let Some(forms) = forms.and_then(Value::as_array) else {
        return Some(schema);
    };
    let mut forms = forms.iter().filter(|form| form["type"] != "null");
    match (forms.next(), forms.next()) {
        (Some(form), None) => only_form(root, form),
        _ => None,
    }
}
