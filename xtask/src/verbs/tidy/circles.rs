//! Circles of imports between the files of a crate.
//!
//! A file has an arrow to another one when it names something that is defined there, wherever that is re-exported; a
//! `mod.rs` that only declares and re-exports its children has none to them. Tests do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::paths::{self, Modules, Reading, Reference, module_path};

/// Longer than any chain of re-exports.
const REEXPORTS_MAX: usize = 16;

type Module = Vec<String>;

/// Which file names which other one, with the place where it does so first.
type Arrows = BTreeMap<Module, BTreeMap<Module, String>>;

/// The circles among these files of one crate, whose text `read` gives; each as one line with the places to look at.
pub(crate) fn circles(root: &Path, files: &[PathBuf], read: impl Fn(&Path) -> Result<String>) -> Result<Vec<String>> {
    let mut places: BTreeMap<Module, &Path> = files
        .iter()
        .filter_map(|file| Some((module_path(file, root)?, file.as_path())))
        .collect();
    let modules: Modules = places.keys().cloned().collect();
    let mut readings = BTreeMap::new();
    for (module, file) in &places {
        let reading = paths::read(module, &modules, &read(file)?).with_context(|| file.display().to_string())?;
        readings.insert(module.clone(), reading);
    }
    let tests: Vec<Module> = readings
        .iter()
        .flat_map(|(module, reading)| {
            let name = |test: &String| module.iter().cloned().chain([test.clone()]).collect();
            reading.test_modules.iter().map(name).collect::<Vec<Module>>()
        })
        .collect();
    places.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    readings.retain(|module, _| places.contains_key(module));
    Ok(of_arrows(&Files { places, readings }.arrows()))
}

struct Files<'a> {
    places: BTreeMap<Module, &'a Path>,
    readings: BTreeMap<Module, Reading>,
}

impl Files<'_> {
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (module, reading) in &self.readings {
            let place = self.places[module].display();
            let of_file = arrows.entry(module.clone()).or_default();
            for reference in &reading.references {
                if let Some(target) = self.target(module, reading, reference) {
                    let named = reference.segments.join("::");
                    of_file
                        .entry(target)
                        .or_insert_with(|| format!("{place}:{} names crate::{named}", reference.line));
                }
            }
        }
        arrows
    }

    /// The other file that a path makes this one depend on.
    fn target(&self, module: &Module, reading: &Reading, reference: &Reference) -> Option<Module> {
        if !reference.inside || reference.in_test {
            return None;
        }
        let target = self.file_of(&reference.segments)?;
        if target == *module {
            return None;
        }
        let Some(name) = &reference.import else {
            return Some(target);
        };
        // The import of a module is no use of it; paths that begin with its name are read on their own.
        if name != "*" && self.readings.contains_key(&reference.segments) {
            return None;
        }
        let is_used = match name.as_str() {
            "*" => self.readings[&target]
                .items
                .intersection(&reading.words)
                .next()
                .is_some(),
            name => reading.words.contains(name),
        };
        (!reference.is_public || is_used).then_some(target)
    }

    /// The file that defines what a path names, behind re-exports.
    fn file_of(&self, path: &[String]) -> Option<Module> {
        let mut path = path.to_vec();
        for _ in 0..REEXPORTS_MAX {
            let length = (0..=path.len())
                .rev()
                .find(|length| self.readings.contains_key(&path[..*length]))?;
            let (module, rest) = path.split_at(length);
            let Some(name) = rest.first() else {
                return Some(module.to_vec());
            };
            let reading = &self.readings[module];
            let next = match reading.imports.get(name) {
                Some(target) => target.clone()?,
                None if reading.items.contains(name) => return Some(module.to_vec()),
                None => match self.behind_a_glob(reading, name) {
                    Some(target) => target,
                    None => return Some(module.to_vec()),
                },
            };
            path = next.iter().chain(&rest[1..]).cloned().collect();
        }
        None
    }

    /// The path of an item that `use …::*` brings into a module.
    fn behind_a_glob(&self, reading: &Reading, name: &str) -> Option<Module> {
        let globs = reading
            .references
            .iter()
            .filter(|one| one.inside && one.import.as_deref() == Some("*"));
        let mut targets = globs.filter(|glob| {
            let target = self.readings.get(&glob.segments);
            target.is_some_and(|target| target.items.contains(name) || target.imports.contains_key(name))
        });
        let target = targets.next()?;
        Some(target.segments.iter().cloned().chain([name.to_owned()]).collect())
    }
}

/// One line for each group of files that reach each other: the shortest way round.
fn of_arrows(arrows: &Arrows) -> Vec<String> {
    let mut left: BTreeSet<&Module> = arrows.keys().collect();
    let mut circles = Vec::new();
    while let Some(first) = left.pop_first() {
        let reached = distances(arrows, first);
        let group: Vec<&Module> = arrows
            .keys()
            .filter(|other| {
                *other == first || reached.contains_key(other) && distances(arrows, other).contains_key(first)
            })
            .collect();
        for other in &group {
            left.remove(other);
        }
        let ways = group.iter().filter_map(|start| way_round(arrows, start));
        if let Some(way) = ways.min_by_key(Vec::len) {
            circles.push(format!("circle of {} files: {}", group.len(), way.join(", ")));
        }
    }
    circles
}

/// The modules that can be reached from one, each with the module before it.
fn distances<'a>(arrows: &'a Arrows, start: &'a Module) -> BTreeMap<&'a Module, &'a Module> {
    let mut before = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for next in arrows.get(module).into_iter().flat_map(BTreeMap::keys) {
            if !before.contains_key(next) {
                before.insert(next, module);
                queue.push_back(next);
            }
        }
    }
    before
}

/// The shortest way from a module back to itself, as the places where each step is written.
fn way_round(arrows: &Arrows, start: &Module) -> Option<Vec<String>> {
    let before = distances(arrows, start);
    let mut way = Vec::new();
    let mut at = start;
    loop {
        let previous = *before.get(at)?;
        way.push(arrows[previous][at].clone());
        if previous == start {
            way.reverse();
            return Some(way);
        }
        at = previous;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let text = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            Ok(file.map(|(_, text)| (*text).to_owned()).unwrap_or_default())
        };
        circles(Path::new("src"), &paths, text).unwrap()
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        let circle = found(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "use crate::b::B;\npub struct A(B);"),
            ("src/b.rs", "pub struct B;\nfn f() -> super::a::A { todo() }"),
        ]);
        assert_eq!(
            circle,
            ["circle of 2 files: src/a.rs:1 names crate::b::B, src/b.rs:2 names crate::a::A"]
        );
    }

    #[test]
    fn the_shortest_way_round_a_longer_circle_is_shown() {
        let circle = found(&[
            ("src/a.rs", "use crate::b::B;"),
            ("src/b.rs", "pub struct B; use crate::c::C;"),
            ("src/c.rs", "pub struct C; fn f() { crate::a::g() }"),
            ("src/d.rs", "use crate::a::g;"),
        ]);
        assert_eq!(circle.len(), 1);
        assert!(circle[0].starts_with("circle of 3 files: src/a.rs:1"), "{circle:?}");
    }

    #[test]
    fn one_direction_is_no_circle() {
        let files = [
            ("src/a.rs", "use crate::b::B;"),
            ("src/b.rs", "pub struct B; fn f() { B::new() }"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_parent_that_declares_and_re_exports_has_no_arrow_to_its_children() {
        let child = ("src/a/b.rs", "use super::{Other, c::f}; pub struct B(Other);");
        let sibling = ("src/a/c.rs", "pub struct Other; pub fn f() {}");
        assert!(
            found(&[
                ("src/a/mod.rs", "mod b; mod c; pub use b::B; pub(crate) use c::*;"),
                child,
                sibling
            ])
            .is_empty()
        );
        for used in [
            "use b::B;",
            "pub use b::B; fn f(b: B) {}",
            "pub use b::*; fn f(b: B) {}",
            "fn f() { b::g() }",
        ] {
            let parent = format!("mod b; mod c; pub struct Own; {used}");
            let child = ("src/a/b.rs", "use super::Own; pub struct B(Own);");
            assert_eq!(found(&[("src/a/mod.rs", &parent), child, sibling]).len(), 1, "{used}");
        }
    }

    #[test]
    fn what_is_named_through_a_re_export_is_where_it_is_defined() {
        let files = [
            ("src/a/mod.rs", "mod b; pub use b::B;"),
            ("src/a/b.rs", "use crate::c::C; pub struct B;"),
            ("src/c.rs", "use crate::a; pub struct C(a::B);"),
        ];
        assert_eq!(
            found(&files),
            ["circle of 2 files: src/a/b.rs:1 names crate::c::C, src/c.rs:1 names crate::a::B"]
        );
    }

    #[test]
    fn tests_do_not_count() {
        let (one, other) = ("src/a.rs", ("src/b.rs", "pub struct B(crate::a::A);"));
        assert_eq!(found(&[(one, "fn f(b: crate::b::B) {}"), other]).len(), 1);
        assert!(
            found(&[
                (one, "#[cfg(test)]\nmod tests { use crate::b::B; fn f(b: B) {} }"),
                other
            ])
            .is_empty()
        );
        assert!(found(&[(one, "#[cfg(test)]\nfn f<X, Y>(b: crate::b::B) {}"), other]).is_empty());
        let inside = "#[cfg(test)]\nmod tests;";
        assert!(found(&[(one, inside), ("src/a/tests.rs", "use crate::b::B;"), other]).is_empty());
    }
}
