//! Finds import cycles between the files of a crate, and between the files and folders in one folder.
//!
//! There is an *arrow* from one file to another if the first names an item that the second defines, even if the item is
//! re-exported elsewhere. A `mod.rs` that only declares and re-exports its children has no arrow to them. Code of tests
//! does not count. The arrows of a folder are those of all its files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::paths::{self, Modules, Reading, Reference, module_path};

/// Maximum length of a chain of re-exports, longer than any in the repository.
const REEXPORTS_MAX: usize = 16;

type Module = Vec<String>;

/// For each file, the files from which it imports. Each has the line of the first import.
type Arrows = BTreeMap<Module, BTreeMap<Module, String>>;

/// The import cycles of one crate. Each is a line that names the places of its imports.
#[derive(Default)]
pub(crate) struct Circles {
    /// Between files.
    pub(crate) files: Vec<String>,
    /// Cycles between the entries of one folder.
    pub(crate) folders: Vec<String>,
}

/// Finds the cycles between these files of one crate; `read` returns the text of a file.
pub(crate) fn circles(root: &Path, files: &[PathBuf], read: impl Fn(&Path) -> Result<String>) -> Result<Circles> {
    let has_library = files.contains(&root.join("lib.rs"));
    let mut places: BTreeMap<Module, &Path> = files
        .iter()
        .filter_map(|file| Some((module_path(file, root)?, file.as_path())))
        .map(|(module, file)| {
            if module == ["main"] && !has_library {
                (Module::new(), file)
            } else {
                (module, file)
            }
        })
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
    let arrows = Files { places, readings }.arrows();
    Ok(Circles {
        files: groups(&arrows)
            .iter()
            .map(|group| told(&arrows, group, "files"))
            .collect(),
        folders: of_folders(root, &arrows),
    })
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
                for (target, named) in self.targets(module, reading, reference) {
                    of_file
                        .entry(target)
                        .or_insert_with(|| format!("{place}:{} names crate::{}", reference.line, named.join("::")));
                }
            }
        }
        arrows
    }

    /// The files that a path in a file depends on, each with the item that is used from it.
    fn targets(&self, module: &Module, reading: &Reading, reference: &Reference) -> Vec<(Module, Module)> {
        if !reference.inside || reference.in_test {
            return Vec::new();
        }
        let path = &reference.segments;
        let named = match reference.import.as_deref() {
            None => vec![path.clone()],
            Some("*") => self.used_of(path, reading, REEXPORTS_MAX),
            // An import of a module alone uses no item. Paths that begin with the module's name are read separately.
            Some(_) if self.readings.contains_key(path) => Vec::new(),
            Some(name) if reference.is_public && !reading.words.contains(name) => Vec::new(),
            Some(_) => vec![path.clone()],
        };
        let files = named.into_iter().filter_map(|path| Some((self.file_of(&path)?, path)));
        files.filter(|(target, _)| target != module).collect()
    }

    /// If a file imports everything from a module with `*`: the paths of those items that the file uses.
    fn used_of(&self, module: &Module, reading: &Reading, reexports_left: usize) -> Vec<Module> {
        let Some(known) = self.readings.get(module).filter(|_| reexports_left > 0) else {
            return Vec::new();
        };
        let own = |name: &&String| !reading.items.contains(*name) && !reading.imports.contains_key(*name);
        let names = known.items.iter().chain(known.imports.keys());
        let used = names.filter(|name| reading.words.contains(*name)).filter(own);
        let path = |name: &String| module.iter().chain([name]).cloned().collect();
        let globs = known.references.iter().filter(|one| one.is_a_glob() && one.is_public);
        let behind = globs.flat_map(|glob| self.used_of(&glob.segments, reading, reexports_left - 1));
        used.map(path).chain(behind).collect()
    }

    /// The file that defines the item of a path; follows re-exports.
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

    /// The path of the item with this name that a file imports by `use …::*`.
    fn behind_a_glob(&self, reading: &Reading, name: &str) -> Option<Module> {
        let globs = reading.references.iter().filter(|one| one.is_a_glob());
        let mut targets = globs.filter(|glob| {
            let target = self.readings.get(&glob.segments);
            target.is_some_and(|target| target.items.contains(name) || target.imports.contains_key(name))
        });
        let target = targets.next()?;
        Some(target.segments.iter().cloned().chain([name.to_owned()]).collect())
    }
}

/// Finds the cycles between the files and folders in each folder. A cycle that consists only of files is reported as a
/// cycle of files.
fn of_folders(root: &Path, arrows: &Arrows) -> Vec<String> {
    let folders: BTreeSet<&[String]> = arrows
        .keys()
        .flat_map(|module| (0..module.len()).map(|length| &module[..length]))
        .collect();
    let mut circles = Vec::new();
    for folder in &folders {
        // The items of the folder's `mod.rs` count as one more entry of the folder.
        let room = |module: &Module| {
            let length = module.len().min(folder.len() + 1);
            module.starts_with(folder).then(|| module[..length].to_vec())
        };
        let mut rooms = Arrows::new();
        for (module, targets) in arrows {
            for (target, place) in targets {
                if let (Some(from), Some(to)) = (room(module), room(target))
                    && from != to
                {
                    let of_room = rooms.entry(from).or_default();
                    of_room.entry(to).or_insert_with(|| place.clone());
                }
            }
        }
        let shown = folder.iter().fold(root.to_owned(), |path, name| path.join(name));
        for circle in groups(&rooms) {
            if circle
                .iter()
                .any(|room| folders.contains(room.as_slice()) && room.len() > folder.len())
            {
                circles.push(told(&rooms, &circle, &format!("modules in {}", shown.display())));
            }
        }
    }
    circles
}

/// Groups of modules in which every module is reachable from every other.
fn groups(arrows: &Arrows) -> Vec<Vec<&Module>> {
    let mut left: BTreeSet<&Module> = arrows.keys().collect();
    let mut groups = Vec::new();
    while let Some(first) = left.pop_first() {
        let reached = distances(arrows, first);
        if !reached.contains_key(first) {
            continue;
        }
        let others = left.iter().filter(|other| reached.contains_key(*other));
        let back = others.filter(|other| distances(arrows, other).contains_key(first));
        let group: Vec<&Module> = [first].into_iter().chain(back.copied()).collect();
        left.retain(|other| !group.contains(other));
        groups.push(group);
    }
    groups
}

/// One line that describes a group by its shortest cycle.
fn told(arrows: &Arrows, group: &[&Module], what: &str) -> String {
    let ways = group.iter().filter_map(|start| way_round(arrows, start));
    let way = ways.min_by_key(Vec::len).unwrap_or_default();
    format!("import cycle of {} {what}: {}", group.len(), way.join(", "))
}

/// The modules that are reachable from a module, each with its predecessor on the path.
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

/// The shortest path from a module back to itself, as the places of each step.
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

    fn all(files: &[(&str, &str)]) -> Circles {
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let text = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            Ok(file.map(|(_, text)| (*text).to_owned()).unwrap_or_default())
        };
        circles(Path::new("src"), &paths, text).unwrap()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        all(files).files
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
            ["import cycle of 2 files: src/a.rs:1 names crate::b::B, src/b.rs:2 names crate::a::A"]
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
        assert!(
            circle[0].starts_with("import cycle of 3 files: src/a.rs:1"),
            "{circle:?}"
        );
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
        let namesake = ("src/a/b.rs", "use super::Own; pub fn b(own: Own) {}");
        let parent = ("src/a/mod.rs", "mod b; pub use b::b; pub struct Own;");
        assert!(found(&[parent, namesake]).is_empty());
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
    fn an_item_named_through_a_re_export_counts_where_it_is_defined() {
        let files = [
            ("src/a/mod.rs", "mod b; pub use b::B;"),
            ("src/a/b.rs", "use crate::c::C; pub struct B;"),
            ("src/c.rs", "use crate::a; pub struct C(a::B);"),
        ];
        assert_eq!(
            found(&files),
            ["import cycle of 2 files: src/a/b.rs:1 names crate::c::C, src/c.rs:1 names crate::a::B"]
        );
    }

    #[test]
    fn an_item_from_a_glob_re_export_counts_where_it_is_defined() {
        let through = ("src/all.rs", "pub use crate::{low::Low, other::*};");
        let files = [
            ("src/low.rs", "use crate::user::User; pub struct Low(User);"),
            ("src/other.rs", "pub struct Other(crate::user::User);"),
        ];
        for (used, expected) in [("Low", 1), ("Other", 1), ("Nothing", 0)] {
            let user = format!("use crate::all::*; pub struct User({used});");
            let circle = found(&[through, files[0], files[1], ("src/user.rs", &user)]);
            assert_eq!(circle.len(), expected, "{used}: {circle:?}");
        }
    }

    #[test]
    fn folders_that_name_each_other_are_a_circle_without_a_file_circle() {
        let files = [
            ("src/http/mod.rs", "mod error; mod gate;"),
            (
                "src/http/error.rs",
                "use super::gate::page::Page; pub struct Fail(Page);",
            ),
            ("src/http/gate/mod.rs", "pub mod page; pub mod limits;"),
            ("src/http/gate/page.rs", "pub struct Page;"),
            (
                "src/http/gate/limits.rs",
                "fn f() -> crate::http::error::Fail { todo() }",
            ),
        ];
        let circles = all(&files);
        assert_eq!(circles.files, Vec::<String>::new());
        assert_eq!(
            circles.folders,
            [
                "import cycle of 2 modules in src/http: src/http/error.rs:1 names crate::http::gate::page::Page, \
              src/http/gate/limits.rs:1 names crate::http::error::Fail"
            ]
        );
        assert!(all(&files[..4]).folders.is_empty());
    }

    #[test]
    fn a_parent_and_a_folder_that_name_each_other_are_a_circle() {
        let files = [
            ("src/a/mod.rs", "pub mod b; pub struct Own; fn f() { b::d::g() }"),
            ("src/a/b/mod.rs", "pub mod c; pub mod d;"),
            ("src/a/b/c.rs", "pub struct C(super::super::Own);"),
            ("src/a/b/d.rs", "pub fn g() {}"),
        ];
        let circles = all(&files);
        assert_eq!(
            (circles.files.len(), circles.folders.len()),
            (0, 1),
            "{:?}",
            circles.folders
        );
    }

    #[test]
    fn a_circle_of_files_is_reported_once() {
        let circles = all(&[
            ("src/a/b.rs", "pub struct B(super::c::C);"),
            ("src/a/c.rs", "pub struct C(super::b::B);"),
        ]);
        assert_eq!((circles.files.len(), circles.folders.len()), (1, 0));
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
