//! Lists that are longer than their schema allows. They are refused regardless of their content, so their entries are
//! not checked first.

use serde_json::Value;

/// An overlong list.
#[derive(Debug)]
pub(super) struct OverlongList {
    /// JSON pointer to the list.
    pub(super) pointer: String,
    /// Largest number of entries.
    pub(super) max: u64,
}

/// Empties the overlong lists of a value and returns them.
pub(super) fn empty(schema: &Value, value: &mut Value) -> Vec<OverlongList> {
    let mut found = Vec::new();
    visit(schema, schema, value, &mut String::new(), &mut found);
    found
}

fn visit(root: &Value, schema: &Value, value: &mut Value, pointer: &mut String, found: &mut Vec<OverlongList>) {
    let Some(schema) = only_form(root, schema) else {
        return;
    };
    let depth = pointer.len();
    match value {
        Value::Array(entries) => {
            if let Some(max) = schema["maxItems"].as_u64().filter(|max| entries.len() as u64 > *max) {
                entries.clear();
                let pointer = pointer.clone();
                found.push(OverlongList { pointer, max });
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

/// Follows references and nullable schemas to the one schema that the value must match; `None` if several schemas are
/// possible.
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
