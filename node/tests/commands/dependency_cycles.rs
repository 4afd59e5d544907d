//! No two top-level modules of a crate use each other, directly or through others. Code that both
//! need is in a third module, which uses neither.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::documents::sources;

/// For each module, the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_use_each_other_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    for name in ["overlay", "routing", "node", "bench"] {
        let uses = uses(&root.join(name).join("src"));
        assert!(uses.len() > 8, "{name}: {uses:?}");
        all.extend(cycles(&uses).into_iter().map(|circle| (name, circle)));
    }
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn a_circle_is_found_through_others() {
    let uses = |edges: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in edges {
            uses.entry((*to).to_owned()).or_default();
            let to = (*to).to_owned();
            uses.entry((*from).to_owned()).or_default().insert(to);
        }
        uses
    };
    assert!(cycles(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let found = cycles(&uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]));
    assert_eq!(found, [["a", "b", "c"].map(str::to_owned).into()]);
}

/// The uses among the top-level modules of a crate, by the paths behind `crate::`. Tests do not
/// count.
fn uses(folder: &Path) -> Uses {
    let mut files = Vec::new();
    sources(folder, &mut files);
    let module = |file: &Path| {
        let first = file.strip_prefix(folder).ok()?.components().next()?;
        let name = Path::new(first.as_os_str()).file_stem()?.to_str()?;
        (!matches!(name, "lib" | "main")).then(|| name.to_owned())
    };
    let mut uses: Uses = files
        .iter()
        .filter_map(|file| Some((module(file)?, BTreeSet::new())))
        .collect();
    let names: BTreeSet<String> = uses.keys().cloned().collect();
    let library = std::fs::read_to_string(folder.join("lib.rs")).expect("readable");
    let exported = exported(&library);
    for file in &files {
        let is_test = file
            .iter()
            .any(|part| part == "tests" || part == "tests.rs");
        let Some(user) = module(file).filter(|_| !is_test) else {
            continue;
        };
        let text = std::fs::read_to_string(file).expect("readable");
        for name in paths(&text) {
            let name = exported.get(&name).cloned().unwrap_or(name);
            if name != user && names.contains(&name) {
                uses.entry(user.clone()).or_default().insert(name);
            }
        }
    }
    uses
}

/// The first names behind each `crate::` of a file, without comments and tests.
fn paths(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let code: String = lines.collect::<Vec<_>>().join("\n");
    let behind = code.split("crate::").skip(1);
    behind.flat_map(first_names).collect()
}

/// The first name of a path, or the first names of the paths in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = text.find(|letter| !is_letter(letter)).unwrap_or(text.len());
        text[..end].to_owned()
    };
    match path
        .strip_prefix('{')
        .and_then(|rest| rest.split_once("};"))
    {
        Some((inside, _)) => inside.split(',').map(|one| name(one.trim())).collect(),
        None => vec![name(path)],
    }
}

/// The module of each name that a crate exports at its root.
fn exported(library: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for line in library.split("pub use ").skip(1) {
        let line = line.split(';').next().unwrap_or("");
        let Some((module, names)) = line.split_once("::") else {
            continue;
        };
        let names = names.trim_matches(['{', '}']).split(',');
        let names = names.filter_map(|name| name.rsplit(" as ").next());
        exported.extend(names.map(|name| (name.trim().to_owned(), module.to_owned())));
    }
    exported
}

/// The groups of modules in which each module uses each other one, directly or through others.
fn cycles(uses: &Uses) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            let used = uses.get(next).into_iter().flatten();
            open.extend(used.filter(|name| reached.insert((*name).clone())));
        }
        reached
    };
    let reached: Uses = uses
        .keys()
        .map(|name| (name.clone(), reach(name)))
        .collect();
    let mut cycles: Vec<BTreeSet<String>> = Vec::new();
    for (name, all) in &reached {
        let is_known = cycles.iter().any(|circle| circle.contains(name));
        if all.contains(name) && !is_known {
            let mutual = all.iter().filter(|other| reached[*other].contains(name));
            cycles.push(mutual.cloned().collect());
        }
    }
    cycles
}
