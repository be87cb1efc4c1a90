//! Reads the paths that a Rust file names, in `use` trees and inside expressions.
//!
//! A file is read as tokens, so comments and strings do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The modules of a crate, each as its path: `src/flows/requests/create.rs` is `["flows", "requests", "create"]`, and
/// the root is empty.
pub(crate) type Modules = BTreeSet<Vec<String>>;

/// One path found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The segments of the path, from the root of the crate or from the name of another crate.
    pub(crate) segments: Vec<String>,
    /// Whether the path leads into the crate of the file.
    pub(crate) inside: bool,
    /// Its line, counted from one.
    pub(crate) line: usize,
    /// Whether it is below `#[cfg(test)]`.
    pub(crate) in_test: bool,
    /// The name under which a `use` line imports the item, or `*`. `None` if the path is in an expression.
    pub(crate) import: Option<String>,
    /// Whether the file re-exports the name, so that other modules can import it from there.
    pub(crate) is_public: bool,
}

impl Reference {
    /// Whether the path imports everything in a module of the crate.
    pub(crate) fn is_a_glob(&self) -> bool {
        self.inside && self.import.as_deref() == Some("*")
    }
}

/// What a file says about other modules.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// All paths, in order.
    pub(crate) references: Vec<Reference>,
    /// Names that `use` lines import; `None` for items of another crate.
    pub(crate) imports: BTreeMap<String, Option<Vec<String>>>,
    /// Items that the file defines outside of blocks.
    pub(crate) items: BTreeSet<String>,
    /// Every word outside of `use` lines and tests.
    pub(crate) words: BTreeSet<String>,
    /// Modules of tests in files of their own.
    pub(crate) test_modules: Vec<String>,
}

/// The module of a file: for a root `src`, `src/flows/requests/create.rs` is `["flows", "requests", "create"]`; `None`
/// for a file outside the root.
pub(crate) fn module_path(file: &Path, root: &Path) -> Option<Vec<String>> {
    let inside = file.strip_prefix(root).ok()?;
    if inside.extension()? != "rs" {
        return None;
    }
    let inside = inside.with_extension("");
    let mut path: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| last == "mod") || path == ["lib"] {
        path.pop();
    }
    Some(path)
}

/// Reads the text of a module.
pub(crate) fn read(module: &[String], modules: &Modules, text: &str) -> Result<Reading> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let mut reader = Reader {
        modules,
        module: module.to_vec(),
        in_test: false,
        depth: 0,
        found: Reading::default(),
    };
    reader.tokens(tokens);
    Ok(reader.found)
}

struct Reader<'a> {
    modules: &'a Modules,
    module: Vec<String>,
    in_test: bool,
    /// Number of open brackets; the brackets of modules do not count.
    depth: usize,
    found: Reading,
}

/// Keywords that precede the name of a defined item.
const DEFINITIONS: [&str; 8] = ["struct", "enum", "union", "trait", "fn", "type", "const", "static"];

impl Reader<'_> {
    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let was_in_test = self.in_test;
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) if at > 0 && is_mark(&tokens[at - 1], '#') => {
                    self.in_test |= group.stream().to_string().replace(' ', "") == "cfg(test)";
                    self.tokens(group.stream());
                    at += 1;
                }
                TokenTree::Group(group) => {
                    let name = word(&tokens, at.wrapping_sub(1));
                    match name.filter(|_| at >= 2 && word(&tokens, at - 2).as_deref() == Some("mod")) {
                        Some(name) => {
                            self.module.push(name);
                            self.tokens(group.stream());
                            self.module.pop();
                        }
                        None => {
                            self.depth += 1;
                            self.tokens(group.stream());
                            self.depth -= 1;
                        }
                    }
                    if group.delimiter() == Delimiter::Brace {
                        self.in_test = was_in_test;
                    }
                    at += 1;
                }
                token if is_mark(token, ';') => {
                    self.in_test = was_in_test;
                    at += 1;
                }
                TokenTree::Ident(name) if name == "use" && !is_mark_at(&tokens, at + 1, '<') => {
                    at = self.import(&tokens, at);
                }
                TokenTree::Ident(_) => at = self.path(&tokens, at),
                _ => at += 1,
            }
        }
        self.in_test = was_in_test;
    }

    /// Reads a `use` line; returns the index of its end.
    fn import(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let length = tokens[at..].iter().take_while(|token| !is_mark(token, ';')).count();
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let is_public = match before {
            Some(TokenTree::Group(_)) => word(tokens, at.wrapping_sub(2)).as_deref() == Some("pub"),
            Some(TokenTree::Ident(name)) => name == "pub",
            _ => false,
        };
        let mut leaves = Vec::new();
        tree(&tokens[at + 1..at + length], Vec::new(), &mut leaves);
        for (path, name, line) in leaves {
            let target = self.resolve(&path);
            if !self.in_test {
                let inside = target.as_ref().filter(|(_, inside)| *inside);
                self.found
                    .imports
                    .insert(name.clone(), inside.map(|(path, _)| path.clone()));
            }
            if let Some((segments, inside)) = target {
                self.found.references.push(Reference {
                    segments,
                    inside,
                    line,
                    in_test: self.in_test,
                    import: Some(name),
                    is_public,
                });
            }
        }
        at + length
    }

    /// Reads a word or a path; returns the index of the token after it.
    fn path(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let mut path = Vec::new();
        let mut end = at;
        while let Some(name) = word(tokens, end) {
            path.push(name);
            end += 1;
            if !is_separator(tokens, end) || word(tokens, end + 2).is_none() {
                break;
            }
            end += 2;
        }
        let before = word(tokens, at.wrapping_sub(1)).unwrap_or_default();
        // A declaration of a module is no use of an item with the same name.
        if !self.in_test && before != "mod" {
            self.found.words.extend(path.iter().cloned());
            if self.depth == 0 && DEFINITIONS.contains(&before.as_str()) {
                self.found.items.insert(path[0].clone());
            }
        }
        if self.in_test && path[0] == "mod" && is_mark_at(tokens, end + 1, ';') {
            self.found.test_modules.extend(word(tokens, end));
        }
        // A macro of the crate is defined in the crate root and belongs to no module.
        let is_macro = path.len() == 2 && path[0] == "crate" && is_mark_at(tokens, end, '!');
        let goes_on = at >= 2 && is_separator(tokens, at - 2);
        let is_visibility = at == 1 && word(tokens, 0).as_deref() == Some("in");
        if path.len() > 1 && !is_macro && !goes_on && !is_visibility {
            let named = match self.found.imports.get(&path[0]) {
                Some(Some(target)) => Some((target.iter().chain(&path[1..]).cloned().collect(), true)),
                Some(None) => None,
                None => self.resolve(&path),
            };
            if let Some((segments, inside)) = named {
                self.found.references.push(Reference {
                    segments,
                    inside,
                    line: tokens[at].span().start().line,
                    in_test: self.in_test,
                    import: None,
                    is_public: false,
                });
            }
        }
        end
    }

    /// Resolves a path to a full path from the root of its crate. The flag says whether that crate is the crate of the
    /// file. `None` if the path begins with neither a module of this crate nor another crate.
    fn resolve(&self, path: &[String]) -> Option<(Vec<String>, bool)> {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
                base.extend(rest.iter().cloned());
                return Some((base, true));
            }
            first => {
                base.push(first.to_owned());
                if !self.modules.contains(&base) {
                    return Some((path.to_vec(), false));
                }
            }
        }
        base.extend(rest[1..].iter().cloned());
        Some((base, true))
    }
}

/// The single imports of a `use` tree: the path, the name and the line of each.
fn tree(tokens: &[TokenTree], base: Vec<String>, leaves: &mut Vec<(Vec<String>, String, usize)>) {
    let mut path = base;
    let mut at = 0;
    while at < tokens.len() {
        let line = tokens[at].span().start().line;
        match &tokens[at] {
            TokenTree::Ident(_) => {
                let name = word(tokens, at).unwrap_or_default();
                let is_itself = name == "self" && !path.is_empty();
                if !is_itself {
                    path.push(name);
                }
                if !is_separator(tokens, at + 1) {
                    let renamed = word(tokens, at + 1)
                        .filter(|word| word == "as")
                        .and_then(|_| word(tokens, at + 2));
                    let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
                    return leaves.push((path, name, line));
                }
            }
            TokenTree::Group(group) => {
                let all: Vec<TokenTree> = group.stream().into_iter().collect();
                for one in all.split(|token| is_mark(token, ',')).filter(|one| !one.is_empty()) {
                    tree(one, path.clone(), leaves);
                }
                return;
            }
            token if is_mark(token, '*') => return leaves.push((path, "*".to_owned(), line)),
            _ => {}
        }
        at += 1;
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_mark_at(tokens: &[TokenTree], at: usize, mark: char) -> bool {
    tokens.get(at).is_some_and(|token| is_mark(token, mark))
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_mark_at(tokens, at, ':') && is_mark_at(tokens, at + 1, ':')
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}
