//! From rustdoc's items to the list: one paragraph for each type, its lines in a fixed order.

use serde_json::Value;

use crate::text::{self, Result, array};

/// The marker traits that are worth a line: losing one breaks programs.
const AUTO_TRAITS: [&str; 5] = ["Send", "Sync", "Unpin", "UnwindSafe", "RefUnwindSafe"];

const HEAD: &str =
    "The public surface with all features: written by `cargo run -p public-surface -- --write`.
";

pub(crate) struct Surface {
    /// What is compared with the file.
    pub(crate) text: String,
    /// Types and functions: what ought to have an example.
    pub(crate) items: usize,
    /// Those that have none.
    pub(crate) without_example: Vec<String>,
}

impl Surface {
    /// `no_run`: an example that is compiled only is one.
    pub(crate) fn of(json: &Value, no_run: bool) -> Result<Surface> {
        let mut reader = Reader {
            index: &json["index"],
            no_run,
            paragraphs: Vec::new(),
            items: 0,
            without_example: Vec::new(),
        };
        reader.module(reader.item(&json["root"])?, "")?;
        reader.paragraphs.sort();
        let paragraphs = reader.paragraphs.iter().map(|(_, text)| text.as_str());
        Ok(Surface {
            text: format!("{HEAD}\n{}", paragraphs.collect::<Vec<_>>().join("\n")),
            items: reader.items,
            without_example: reader.without_example,
        })
    }
}

struct Reader<'a> {
    index: &'a Value,
    no_run: bool,
    /// Each with the name that it is sorted by.
    paragraphs: Vec<(String, String)>,
    items: usize,
    without_example: Vec<String>,
}

impl<'a> Reader<'a> {
    fn item(&self, id: &Value) -> Result<&'a Value> {
        let item = &self.index[id.to_string()];
        if item.is_null() {
            return Err(format!("there is no item {id}"));
        }
        Ok(item)
    }

    /// What a module exports. A module that holds nothing but text gives no line.
    fn module(&mut self, module: &Value, path: &str) -> Result<()> {
        for id in array(&module["inner"]["module"]["items"])? {
            let mut item = self.item(id)?;
            let mut name = item["name"].as_str();
            if let Some(used) = item["inner"].get("use") {
                name = used["name"].as_str();
                // Another crate as a whole.
                if self.index[used["id"].to_string()].is_null() {
                    continue;
                }
                item = self.item(&used["id"])?;
            }
            let name = format!("{path}{}", name.ok_or("an item has no name")?);
            if item["inner"].get("module").is_some() {
                self.module(item, &format!("{name}::"))?;
            } else {
                self.named(item, &name)?;
            }
        }
        Ok(())
    }

    fn named(&mut self, item: &'a Value, name: &str) -> Result<()> {
        self.wants_example(item, name);
        let (kind, inner) = text::only_entry(&item["inner"])?;
        let generics = text::generics(&inner["generics"])?;
        let attributes = attributes(item)?;
        let mut lines = Vec::new();
        let head = match kind {
            "struct" => {
                let (_, plain) = text::only_entry(&inner["kind"])?;
                lines.extend(self.fields(&plain["fields"], "pub ")?);
                if plain["has_stripped_fields"] == true {
                    lines.push("private fields".to_owned());
                }
                lines.extend(self.impls(&inner["impls"], name)?);
                format!("{attributes}struct {name}{generics}")
            }
            "enum" => {
                for id in array(&inner["variants"])? {
                    lines.push(self.variant(self.item(id)?)?);
                }
                lines.extend(self.impls(&inner["impls"], name)?);
                format!("{attributes}enum {name}{generics}")
            }
            "type_alias" => {
                let aliased = text::type_of(&inner["type"])?;
                format!("{attributes}type {name}{generics} = {aliased}")
            }
            "function" => format!("{attributes}{}", text::function(name, inner)?),
            other => return Err(format!("{name} is a {other}")),
        };
        let mut paragraph = format!("{head}\n");
        for line in lines {
            paragraph.extend(["    ", &line, "\n"]);
        }
        self.paragraphs.push((name.to_owned(), paragraph));
        Ok(())
    }

    fn fields(&self, ids: &Value, prefix: &str) -> Result<Vec<String>> {
        array(ids)?
            .iter()
            .map(|id| {
                let field = self.item(id)?;
                let name = field["name"].as_str().ok_or("a field has no name")?;
                let of = text::type_of(&field["inner"]["struct_field"])?;
                Ok(format!("{prefix}{name}: {of}"))
            })
            .collect()
    }

    fn variant(&self, variant: &Value) -> Result<String> {
        let name = variant["name"].as_str().ok_or("a variant has no name")?;
        let kind = &variant["inner"]["variant"]["kind"];
        let attributes = attributes(variant)?;
        if kind == "plain" {
            return Ok(format!("{attributes}variant {name}"));
        }
        let (kind, inner) = text::only_entry(kind)?;
        let fields = match kind {
            "tuple" => {
                let fields = array(inner)?.iter().map(|id| {
                    let field = self.item(id)?;
                    text::type_of(&field["inner"]["struct_field"])
                });
                format!("({})", fields.collect::<Result<Vec<_>>>()?.join(", "))
            }
            "struct" => format!(" {{ {} }}", self.fields(&inner["fields"], "")?.join(", ")),
            other => return Err(format!("variant {name} is a {other}")),
        };
        Ok(format!("{attributes}variant {name}{fields}"))
    }

    /// Traits first, then functions, both by name.
    fn impls(&mut self, ids: &Value, owner: &str) -> Result<Vec<String>> {
        let (mut traits, mut functions) = (Vec::new(), Vec::new());
        for id in array(ids)? {
            let item = self.item(id)?;
            let block = &item["inner"]["impl"];
            if !block["blanket_impl"].is_null() {
                continue;
            }
            if block["trait"].is_null() {
                for id in array(&block["items"])? {
                    let item = self.item(id)?;
                    functions.push(self.method(item, owner)?);
                }
            } else if let Some(line) = self.implemented(block)? {
                traits.push(line);
            }
        }
        traits.sort();
        functions.sort();
        traits.extend(functions.into_iter().map(|(_, function)| function));
        Ok(traits)
    }

    /// A function with the name that it is sorted by.
    fn method(&mut self, item: &'a Value, owner: &str) -> Result<(String, String)> {
        let name = item["name"].as_str().ok_or("a method has no name")?;
        self.wants_example(item, &format!("{owner}::{name}"));
        let function = text::function(name, &item["inner"]["function"])?;
        let line = format!("{}{function}", attributes(item)?);
        Ok((name.to_owned(), line))
    }

    fn implemented(&self, block: &Value) -> Result<Option<String>> {
        let name = text::path(&block["trait"])?;
        let automatic = block["is_synthetic"] == true;
        let of_use = if automatic {
            AUTO_TRAITS.contains(&name.as_str()) && block["is_negative"] == false
        } else {
            // A mark of the compiler's on what `derive` made.
            name != "StructuralPartialEq"
        };
        if !of_use {
            return Ok(None);
        }
        let mut types = Vec::new();
        for id in array(&block["items"])? {
            let item = self.item(id)?;
            if let Some(associated) = item["inner"].get("assoc_type") {
                let of = text::type_of(&associated["type"])?;
                types.push(format!("{} = {of}", item["name"].as_str().unwrap_or("?")));
            }
        }
        let types = if types.is_empty() {
            String::new()
        } else {
            format!(" {{ type {} }}", types.join(", "))
        };
        let generics = text::generics(&block["generics"])?;
        let of = text::type_of(&block["for"])?;
        Ok(Some(format!("impl{generics} {name} for {of}{types}")))
    }

    fn wants_example(&mut self, item: &Value, name: &str) {
        self.items += 1;
        if !has_example(item["docs"].as_str().unwrap_or_default(), self.no_run) {
            self.without_example.push(name.to_owned());
        }
    }
}

/// What a caller notices of an item's attributes.
fn attributes(item: &Value) -> Result<String> {
    let mut noticed = String::new();
    for attribute in array(&item["attrs"])? {
        let name = match attribute {
            Value::String(name) => name,
            _ => text::only_entry(attribute)?.0,
        };
        if name == "non_exhaustive" || name == "must_use" {
            noticed.extend(["#[", name, "] "]);
        }
    }
    if !item["deprecation"].is_null() {
        noticed.push_str("#[deprecated] ");
    }
    Ok(noticed)
}

/// Whether there is a block of code that is compiled and run, or compiled, if that is enough.
fn has_example(docs: &str, no_run: bool) -> bool {
    let mut inside = false;
    for line in docs.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside;
            let run = ["", "rust", "should_panic"].contains(&language.trim());
            if inside && (run || no_run && language.trim() == "no_run") {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_code_that_is_run_is_an_example() {
        let has_example = |docs| super::has_example(docs, false);
        assert!(has_example("Says what.\n\n```\nassert!(true);\n```"));
        assert!(has_example(
            "```text\na picture\n```\n\n```should_panic\npanic!();\n```"
        ));
        assert!(!has_example("Says what."));
        assert!(!has_example("```text\na picture\n```\n\nno code"));
        assert!(!has_example("```no_run\nloop {}\n```"));
        assert!(super::has_example("```no_run\nloop {}\n```", true));
    }
}
