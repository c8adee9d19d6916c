//! The order of the layers, read from the sources: no module may name one above it. CONTRIBUTING.md draws the order.
//!
//! Every path that begins with `crate` or `super` counts, wherever it stands: in a `use` and its groups, in an
//! expression, in a macro. A name that the crate's root re-exports counts as the module it comes from. What is compiled
//! for tests only does not count.
//!
//! It also fails where a [`SlotId`](../src/entry.rs) is made outside `slots`: an entry, which carries one, lies below
//! `slots`, so no `pub(…)` can say that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Each module with those that it may use. Open to all: `error`, `catch_panic`, `sync`, `tuning`.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "unstable",
        &[
            "api", "worker", "shared", "slots", "queue", "wheel", "metrics", "entry", "time",
        ],
    ),
    (
        "api",
        &[
            "worker", "shared", "slots", "queue", "metrics", "entry", "time",
        ],
    ),
    (
        "worker",
        &[
            "shared", "slots", "queue", "wheel", "metrics", "entry", "time",
        ],
    ),
    (
        "shared",
        &["slots", "queue", "metrics", "memory", "entry", "time"],
    ),
    ("slots", &["metrics", "memory", "entry", "time"]),
    ("queue", &["metrics", "memory", "entry", "time"]),
    ("wheel", &["metrics", "entry", "time"]),
    ("metrics", &["memory", "entry", "time"]),
    ("memory", &[]),
    ("entry", &["time"]),
    ("time", &[]),
    ("error", &[]),
    ("catch_panic", &[]),
    ("sync", &[]),
    ("tuning", &[]),
];
const OPEN_TO_ALL: &[&str] = &["error", "catch_panic", "sync", "tuning"];
/// Makes a `SlotId`. Defined in `entry`, for `slots` alone.
const MAKES_SLOT_ID: &str = "from_number";
/// Text, and tests.
const NOT_LIBRARY: &[&str] = &["docs", "loom_tests"];

#[test]
fn no_module_names_one_above_it() {
    let sources = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(
        sources.len() > 40,
        "only {} files were found",
        sources.len()
    );
    let found = violations(&sources);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn every_way_to_name_a_module_above_is_noticed() {
    for (path, text) in [
        ("time/tick.rs", "use crate::shared::Shared;"),
        ("time/tick.rs", "use super::super::shared::Shared;"),
        ("time/mod.rs", "use super::shared::Shared;"),
        ("time/tick.rs", "use crate::{sync, shared::{Shared, When}};"),
        ("time/tick.rs", "use crate::{entry::Entry as E, sync};"),
        ("time/tick.rs", "fn f() { crate::shared::now() }"),
        ("time/tick.rs", "use crate::Timeout;"),
        ("time/tick.rs", "use crate::*;"),
        ("time/tick.rs", "use crate as root;"),
        (
            "time/tick.rs",
            "macro_rules! m { () => { $crate::shared::now() } }",
        ),
        (
            "time/tick.rs",
            "mod inner { use super::super::super::api::Sleep; }",
        ),
        ("time/mod.rs", "pub use crate::api::Sleep;"),
        (
            "time/tick.rs",
            "#[cfg(not(test))] use crate::shared::Shared;",
        ),
        ("wheel/mod.rs", "use crate::slots::Slot;"),
        ("api/timer.rs", "use crate::wheel::Wheel;"),
        ("attic/mod.rs", "fn f() {}"),
        (
            "queue/mod.rs",
            "use crate::entry::SlotId as S; fn f() { S::from_number(1); }",
        ),
        (
            "shared/mod.rs",
            "fn f(n: Option<u32>) { n.map(crate::entry::SlotId::from_number); }",
        ),
    ] {
        assert_eq!(violations(&example(path, text)).len(), 1, "{path}: {text}");
    }
}

#[test]
fn what_is_allowed_is_not_reported() {
    for (path, text) in [
        ("time/tick.rs", "use crate::sync::Mutex; use super::scale;"),
        (
            "time/tick.rs",
            "// crate::shared\nconst S: &str = \"crate::shared\";",
        ),
        (
            "time/tick.rs",
            "/* crate::shared /* nested */ crate::api */",
        ),
        (
            "time/tick.rs",
            "pub(in crate::time) fn f<'a>(c: &'a str) -> char { '\"' }",
        ),
        (
            "time/tick.rs",
            "#[cfg(test)] mod tests { use crate::shared::Shared; }",
        ),
        (
            "time/tick.rs",
            "#[cfg(test)]\n#[allow(x)] use crate::{HashedWheelTimer, Timeout};",
        ),
        ("time/tick/tests.rs", "use crate::HashedWheelTimer;"),
        ("time/tick.rs", "mod inner { use super::super::scale; }"),
        (
            "worker/mod.rs",
            "use crate::{Timeout, wheel::Wheel, error::*};",
        ),
        ("docs/mod.rs", "use crate::api::Sleep;"),
        (
            "slots/pool.rs",
            "use crate::entry::SlotId; fn f() { SlotId::from_number(1); }",
        ),
        ("entry.rs", "impl SlotId { fn from_number(n: u32) {} }"),
    ] {
        let none: Vec<String> = Vec::new();
        assert_eq!(violations(&example(path, text)), none, "{path}: {text}");
    }
}

/// A crate with one file beside its root.
fn example(path: &str, text: &str) -> BTreeMap<String, String> {
    let root = "mod time; pub use api::{HashedWheelTimer, Sleep}; pub use shared::Timeout;";
    let declaring = "#[cfg(test)] mod tests;";
    [("lib.rs", root), ("time/tick.rs", declaring), (path, text)]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into()
}

fn read(folder: &Path) -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                sources.insert(name.replace('\\', "/"), fs::read_to_string(&path).unwrap());
            }
        }
    }
    sources
}

/// Every arrow against the order, one line each.
fn violations(sources: &BTreeMap<String, String>) -> Vec<String> {
    let root = exports(&sources["lib.rs"]);
    let mut found = Vec::new();
    for (path, text) in sources {
        let module = module_of(path);
        let Some(layer) = module.first() else {
            continue;
        };
        // One convention for unit tests: x/tests.rs, with what it needs below.
        let is_test = module.iter().skip(1).any(|name| name == "tests")
            || is_declared_for_tests(sources, &module);
        if is_test || NOT_LIBRARY.contains(&layer.as_str()) {
            continue;
        }
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| name == layer) else {
            found.push(format!("{path}: {layer} is in no layer"));
            continue;
        };
        let tokens = tokens(text);
        let makes_slot_id = tokens.iter().any(|token| token == MAKES_SLOT_ID);
        if makes_slot_id && !["slots", "entry"].contains(&layer.as_str()) {
            found.push(format!("{path}: only slots may make a SlotId"));
        }
        let targets: BTreeSet<String> = paths(&tokens, &module)
            .iter()
            .map(|path| root.get(path).unwrap_or(path).clone())
            .collect();
        for target in targets {
            let open = OPEN_TO_ALL.contains(&target.as_str());
            if target != *layer && !open && !allowed.contains(&target.as_str()) {
                found.push(format!("{path}: {layer} must not use {target}"));
            }
        }
    }
    found
}

/// The path of a file's module, without the crate.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/')
        .filter(|name| *name != "lib")
        .map(str::to_owned)
        .collect()
}

/// Whether the parent of a module, or of one above it, compiles it for tests only.
fn is_declared_for_tests(sources: &BTreeMap<String, String>, module: &[String]) -> bool {
    (1..module.len()).any(|depth| {
        let parent = module[..depth].join("/");
        let declared = [format!("{parent}.rs"), format!("{parent}/mod.rs")];
        let declared = declared.iter().find_map(|path| sources.get(path));
        declared.is_some_and(|text| {
            let all = all_tokens(text);
            let kept = without_tests(&all);
            let has_mod = |tokens: &[String]| {
                tokens
                    .windows(3)
                    .any(|t| t[0] == "mod" && t[1] == module[depth] && t[2] == ";")
            };
            has_mod(&all) && !has_mod(&kept)
        })
    })
}

/// What the root re-exports, by name: from which module it comes.
fn exports(root: &str) -> BTreeMap<String, String> {
    let tokens = tokens(root);
    let mut names = BTreeMap::new();
    let mut place = 0;
    while place < tokens.len() {
        if tokens[place] == "pub" && tokens.get(place + 1).is_some_and(|token| token == "use") {
            let end = (place..tokens.len()).find(|&i| tokens[i] == ";").unwrap();
            let module = &tokens[place + 2];
            for name in &tokens[place + 3..end] {
                names.insert(name.clone(), module.clone());
            }
            place = end;
        }
        place += 1;
    }
    names
}

/// The first name after the crate's root of every path in `tokens`, which are those of `module`.
fn paths(tokens: &[String], module: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    // The modules that are written out in the file, with the depth of their braces.
    let mut inline: Vec<(usize, String)> = Vec::new();
    let mut depth = 0;
    let is = |place: usize, text: &str| tokens.get(place).is_some_and(|token| token == text);
    let mut place = 0;
    while place < tokens.len() {
        match tokens[place].as_str() {
            "{" => {
                depth += 1;
                if place >= 2 && tokens[place - 2] == "mod" {
                    inline.push((depth, tokens[place - 1].clone()));
                }
            }
            "}" => {
                inline.retain(|(open, _)| *open < depth);
                depth -= 1;
            }
            // `pub(crate)` and `pub(in crate::…)` name no module that is used.
            "crate" if is(place + 1, ")") || place > 0 && tokens[place - 1] == "in" => {}
            "crate" if !is(place + 1, "::") => found.push("the crate under another name".into()),
            "crate" => found.extend(heads(tokens, place + 2)),
            "super" if place == 0 || tokens[place - 1] != "::" => {
                let mut up = 1;
                while is(place + 2 * up, "super") {
                    up += 1;
                }
                let here: Vec<&String> = module
                    .iter()
                    .chain(inline.iter().map(|(_, name)| name))
                    .collect();
                let base = here.len().saturating_sub(up);
                if base > 0 {
                    found.push(here[0].clone());
                } else {
                    found.extend(heads(tokens, place + 2 * up));
                }
            }
            _ => {}
        }
        place += 1;
    }
    found
}

/// The first names of the path or group of paths at `place`.
fn heads(tokens: &[String], place: usize) -> Vec<String> {
    if tokens.get(place).is_none_or(|token| token != "{") {
        return tokens.get(place).cloned().into_iter().collect();
    }
    let (mut heads, mut depth, mut place) = (Vec::new(), 0, place);
    loop {
        match tokens[place].as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return heads;
        }
        if depth == 1 && matches!(tokens[place].as_str(), "{" | ",") && tokens[place + 1] != "}" {
            heads.push(tokens[place + 1].clone());
        }
        place += 1;
    }
}

/// The tokens that matter of what is not compiled for tests only.
fn tokens(text: &str) -> Vec<String> {
    without_tests(&all_tokens(text))
}

/// Names, `::` and punctuation. Comments, texts and characters are left out.
fn all_tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |place: usize| chars.get(place).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let c = at(i);
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            loop {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 || i >= chars.len() {
                    break;
                }
            }
        } else if c == 'r' && matches!(at(i + 1), '"' | '#') && raw_text(&chars, i).is_some() {
            i = raw_text(&chars, i).unwrap();
        } else if c == '"' {
            i += 1;
            while i < chars.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if c == '\'' {
            // A character, or a lifetime.
            if at(i + 1) == '\\' {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            } else if at(i + 2) == '\'' {
                i += 3;
            } else {
                i += 1;
            }
        } else if c.is_alphanumeric() || c == '_' {
            let start = i;
            while at(i).is_alphanumeric() || at(i) == '_' {
                i += 1;
            }
            tokens.push(chars[start..i].iter().collect());
        } else if c == ':' && at(i + 1) == ':' {
            tokens.push("::".to_owned());
            i += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            i += 1;
        }
    }
    tokens
}

/// Where a raw text ends that begins at `start`, if one does.
fn raw_text(chars: &[char], start: usize) -> Option<usize> {
    let marks = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + marks;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    (open + 1..chars.len()).find_map(|end| {
        let closed = chars[end] == '"'
            && chars[end + 1..]
                .iter()
                .take(marks)
                .filter(|c| **c == '#')
                .count()
                == marks;
        closed.then_some(end + 1 + marks)
    })
}

/// Without the items under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        let here: Vec<&str> = tokens[place..].iter().take(7).map(String::as_str).collect();
        let is_test = here.starts_with(&["#", "[", "cfg", "(", "test", ")"])
            || here.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"]);
        if is_test {
            place = item_end(tokens, place);
        } else {
            kept.push(tokens[place].clone());
            place += 1;
        }
    }
    kept
}

/// Where the item ends whose attributes begin at `place`: behind its `;`, or behind its block.
fn item_end(tokens: &[String], mut place: usize) -> usize {
    while tokens[place] == "#" {
        place = closing(tokens, place + 1);
    }
    let head = tokens[place..].iter().take_while(|token| *token != "{");
    let is_use = head.into_iter().any(|token| token == "use");
    while place < tokens.len() {
        match tokens[place].as_str() {
            ";" => return place + 1,
            "{" if is_use => place = closing(tokens, place),
            "{" => return closing(tokens, place),
            _ => place += 1,
        }
    }
    place
}

/// Behind the bracket that closes the one at `open`.
fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}
