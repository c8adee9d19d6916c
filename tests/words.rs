//! Reads the Markdown of the repository: no broken link, no page over its size, and pages that are linked as files read
//! well as files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The size of each page in words, as `wc -w` counts them. A new page gets a line.
const SIZES: [(&str, usize); 29] = [
    ("README.md", 1000),
    ("CHANGELOG.md", 400),
    ("CONTRIBUTING.md", 1500),
    ("RELEASING.md", 400),
    ("SECURITY.md", 460),
    ("benches/README.md", 1500),
    ("durable/CHANGELOG.md", 250),
    ("durable/README.md", 1500),
    ("durable/service/README.md", 1700),
    ("durable/src/docs/design.md", 1500),
    ("durable/src/docs/postgres.md", 1250),
    ("examples/README.md", 400),
    ("examples/async/README.md", 300),
    ("examples/compare/README.md", 1200),
    ("src/docs/async_frameworks.md", 900),
    ("src/docs/choosing.md", 1350),
    ("src/docs/coming_from.md", 1200),
    ("src/docs/design.md", 2500),
    ("src/docs/faq.md", 1100),
    ("src/docs/limits.md", 1000),
    ("src/docs/performance.md", 1000),
    ("src/docs/recipes.md", 1100),
    ("src/docs/shutdown.md", 550),
    ("src/docs/testing.md", 950),
    ("tests/MUTANTS.md", 350),
    // Together.
    ("src/docs/", 12_000),
    ("durable/", 6000),
    ("examples/", 1900),
    ("", 25_000),
];

/// Rustdoc reads these definitions before each page of this folder, so that they count there and not the page's own.
const GUIDE: &str = "src/docs/";

#[test]
fn no_page_is_over_its_size() {
    let pages = pages();
    let mut problems = Vec::new();
    for (path, _) in &pages {
        if !SIZES.iter().any(|(page, _)| page == path) {
            problems.push(format!("{path}: no line in SIZES"));
        }
    }
    for (page, most) in SIZES {
        let within = |path: &str| {
            path == page || ((page.ends_with('/') || page.is_empty()) && path.starts_with(page))
        };
        let words: Vec<_> = pages
            .iter()
            .filter(|(path, _)| within(path))
            .map(|(_, text)| words(text))
            .collect();
        let sum: usize = words.iter().sum();
        if sum > most || (words.is_empty() && !pages.is_empty()) {
            problems.push(format!("{page}: {sum} words, at most {most}"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let mut problems = Vec::new();
    for (path, text) in pages() {
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        for link in links(&text) {
            if let Err(problem) = check(folder, &text, &link) {
                problems.push(format!("{path}: {link}: {problem}"));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn linked_pages_read_well_as_files() {
    let pages = pages();
    let linked: BTreeSet<PathBuf> = pages
        .iter()
        .flat_map(|(path, text)| {
            let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
            links(text)
                .into_iter()
                .map(move |link| join(&folder, link.split('#').next().unwrap_or("")))
        })
        .collect();
    let mut problems = Vec::new();
    for (path, text) in &pages {
        if linked.contains(Path::new(path)) {
            problems.extend(
                for_rustdoc_alone(text)
                    .into_iter()
                    .map(|line| format!("{path}: {line}")),
            );
        }
        if path.starts_with(GUIDE) {
            problems.extend(
                for_files_alone(text, &guide_labels())
                    .into_iter()
                    .map(|line| format!("{path}: {line}")),
            );
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn what_is_wrong_is_found() {
    let page = "# A b\n[a](#a-b) [b](README.md) [c](none.md) ![d](none.svg)\n`[e](none.rs)`\n[f]: none.txt\n";
    let broken: Vec<_> = links(page)
        .into_iter()
        .filter(|link| check(Path::new(""), page, link).is_err())
        .collect();
    assert_eq!(broken, ["none.md", "none.svg", "none.txt"]);
    assert!(check(Path::new("src/docs"), "", "../../README.md#guarantees").is_ok());
    assert!(check(Path::new("src/docs"), "", "../../README.md#no-such-heading").is_err());

    let page = "[a](crate::Timeout) `crate::Timeout`\n```rust\n# hidden();\n#[test]\n```\n[b]: crate::docs\n";
    assert_eq!(for_rustdoc_alone(page).len(), 3);
    let labels = ["limits".to_owned()].into();
    assert_eq!(
        for_files_alone("see [limits]\n", &labels),
        ["[limits] is not defined"]
    );
    assert_eq!(
        for_files_alone("see [limits]\n\n[limits]: limits.md\n", &labels),
        Vec::<String>::new()
    );
    assert_eq!(
        for_files_alone("[x](limits.md) [y]\n\n[y]: y.md\n", &labels).len(),
        2
    );
    assert_eq!(words("one  two\nthree"), 3);
}

/// All pages, with their path from the root. None in the published package, which has only some of them.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("RELEASING.md").exists() {
        return Vec::new();
    }
    let mut folders = vec![root.to_owned()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|it| it == "md") {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                pages.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    pages.sort();
    pages
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The lines outside of code blocks, without code spans.
fn prose(text: &str) -> String {
    let blocks = text.split("```").step_by(2);
    blocks
        .map(|block| block.split('`').step_by(2).collect::<Vec<_>>().join("``"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The targets of all links and images.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut links = Vec::new();
    for (mark, end) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for rest in prose.split(mark).skip(1) {
            links.extend(rest.split(end).next().map(str::to_owned));
        }
    }
    links.extend(definitions(&prose).map(|(_, target)| target.to_owned()));
    links
}

/// The label and the target of each `[label]: target`.
fn definitions(prose: &str) -> impl Iterator<Item = (&str, &str)> {
    prose
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

fn guide_labels() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(GUIDE)
        .join("links.txt");
    let text = fs::read_to_string(file).unwrap();
    definitions(&text)
        .map(|(label, _)| label.to_owned())
        .collect()
}

/// Whether a link of a page in `folder` leads to a file of the repository, and to a heading there.
fn check(folder: &Path, page: &str, link: &str) -> Result<(), String> {
    if link.contains("://") {
        return Ok(());
    }
    let (file, heading) = link
        .split_once('#')
        .map_or((link, None), |(file, heading)| (file, Some(heading)));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(join(folder, file));
    if !file.is_empty() && !path.exists() {
        return Err("no such file".to_owned());
    }
    let Some(heading) = heading else {
        return Ok(());
    };
    let text = if file.is_empty() {
        page.to_owned()
    } else {
        fs::read_to_string(path).map_err(|error| error.to_string())?
    };
    let mut headings = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor);
    if headings.any(|it| it == heading) {
        Ok(())
    } else {
        Err("no such heading".to_owned())
    }
}

/// The anchor that a heading has on GitHub and in rustdoc.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars();
    let kept = kept.filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// `folder` and `link` together, without `..`.
fn join(folder: &Path, link: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in folder.join(link).components() {
        if part == Component::ParentDir {
            joined.pop();
        } else {
            joined.push(part);
        }
    }
    joined
}

/// What only rustdoc understands: links to items, and hidden lines in programs.
fn for_rustdoc_alone(text: &str) -> Vec<String> {
    let items = links(text)
        .into_iter()
        .filter(|link| link.contains("crate::"));
    let mut found: Vec<_> = items
        .map(|link| format!("a link to the item {link}"))
        .collect();
    for block in text.split("```").skip(1).step_by(2) {
        if !block.starts_with("text") && !block.starts_with("sh") {
            let hidden = block
                .lines()
                .filter(|line| *line == "#" || line.starts_with("# "));
            found.extend(hidden.map(|line| format!("a hidden line: {line}")));
        }
    }
    found
}

/// What only a file understands: in rustdoc, a link to a file leads nowhere, unless `links.txt` defines its label.
fn for_files_alone(text: &str, labels: &BTreeSet<String>) -> Vec<String> {
    let prose = prose(text);
    let own: BTreeSet<&str> = definitions(&prose).map(|(label, _)| label).collect();
    let unknown = own.iter().filter(|label| !labels.contains(**label));
    let mut found: Vec<_> = unknown
        .map(|label| format!("[{label}] is not in links.txt"))
        .collect();
    for link in prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        if !link.contains("://") && !link.starts_with('#') {
            found.push(format!("{link}: links to files need a label"));
        }
    }
    let undefined = labels
        .iter()
        .filter(|label| prose.contains(&format!("[{label}]")) && !own.contains(label.as_str()));
    found.extend(undefined.map(|label| format!("[{label}] is not defined")));
    found
}
