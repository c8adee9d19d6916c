//! From rustdoc's trees to Rust: types, bounds and signatures in one line each.
//!
//! Names are given by their last part: the path that was written in the source is no part of the surface.
//! `io` stays, since the standard library has another `Result` and another `Error`.

use serde_json::Value;

pub(crate) type Result<T> = std::result::Result<T, String>;

pub(crate) fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| unknown("list", value))
}

/// The name and the content of an object with one entry, which is how rustdoc writes an enum.
pub(crate) fn only_entry(value: &Value) -> Result<(&str, &Value)> {
    let entries = value.as_object().filter(|entries| entries.len() == 1);
    let (name, content) = entries
        .and_then(|entries| entries.iter().next())
        .ok_or_else(|| unknown("choice", value))?;
    Ok((name, content))
}

fn unknown(what: &str, value: &Value) -> String {
    format!("unknown {what}: {value}")
}

fn string<'a>(value: &'a Value, what: &str) -> Result<&'a str> {
    value.as_str().ok_or_else(|| unknown(what, value))
}

/// Each of a list as text, with a separator.
fn joined(
    list: &Value,
    separator: &str,
    text: impl Fn(&Value) -> Result<String>,
) -> Result<String> {
    let parts: Result<Vec<_>> = array(list)?.iter().map(text).collect();
    Ok(parts?.join(separator))
}

pub(crate) fn type_of(value: &Value) -> Result<String> {
    let (kind, inner) = only_entry(value)?;
    Ok(match kind {
        "generic" | "primitive" => string(inner, kind)?.to_owned(),
        "resolved_path" => path(inner)?,
        "tuple" => format!("({})", joined(inner, ", ", type_of)?),
        "slice" => format!("[{}]", type_of(inner)?),
        "array" => format!("[{}; {}]", type_of(&inner["type"])?, inner["len"]),
        "impl_trait" => format!("impl {}", bounds(inner)?),
        "dyn_trait" => {
            let traits = joined(&inner["traits"], " + ", |bound| path(&bound["trait"]))?;
            let lifetime = inner["lifetime"].as_str();
            let lifetime = lifetime.map_or(String::new(), |name| format!(" + {name}"));
            format!("dyn {traits}{lifetime}")
        }
        "borrowed_ref" => {
            let lifetime = inner["lifetime"].as_str();
            let lifetime = lifetime.map_or(String::new(), |name| format!("{name} "));
            let mutable = if inner["is_mutable"] == true {
                "mut "
            } else {
                ""
            };
            format!("&{lifetime}{mutable}{}", type_of(&inner["type"])?)
        }
        "qualified_path" => {
            let owner = type_of(&inner["self_type"])?;
            format!("{owner}::{}", string(&inner["name"], "name")?)
        }
        _ => return Err(unknown("type", value)),
    })
}

/// The last part of a path, with its arguments.
pub(crate) fn path(value: &Value) -> Result<String> {
    let written = string(&value["path"], "path")?;
    let name = match written.rsplit("::").collect::<Vec<_>>()[..] {
        [name, "io", ..] => format!("io::{name}"),
        [name, ..] => name.to_owned(),
        [] => String::new(),
    };
    let arguments = &value["args"];
    if arguments.is_null() {
        return Ok(name);
    }
    let (kind, inner) = only_entry(arguments)?;
    match kind {
        "parenthesized" => {
            let inputs = joined(&inner["inputs"], ", ", type_of)?;
            Ok(format!("{name}({inputs}){}", output(&inner["output"])?))
        }
        "angle_bracketed" => {
            let mut all = joined(&inner["args"], ", ", argument)?;
            let constraints = joined(&inner["constraints"], ", ", constraint)?;
            if !all.is_empty() && !constraints.is_empty() {
                all.push_str(", ");
            }
            all.push_str(&constraints);
            Ok(if all.is_empty() {
                name
            } else {
                format!("{name}<{all}>")
            })
        }
        _ => Err(unknown("arguments", arguments)),
    }
}

fn argument(value: &Value) -> Result<String> {
    match only_entry(value)? {
        ("type", inner) => type_of(inner),
        ("lifetime", inner) => Ok(string(inner, "lifetime")?.to_owned()),
        _ => Err(unknown("argument", value)),
    }
}

/// `Item = T` inside the brackets of a bound.
fn constraint(value: &Value) -> Result<String> {
    let name = string(&value["name"], "name")?;
    let (kind, inner) = only_entry(&value["binding"])?;
    match kind {
        "equality" => Ok(format!("{name} = {}", argument(inner)?)),
        "constraint" => Ok(format!("{name}: {}", bounds(inner)?)),
        _ => Err(unknown("constraint", value)),
    }
}

fn bounds(list: &Value) -> Result<String> {
    joined(list, " + ", |bound| match only_entry(bound)? {
        ("outlives", lifetime) => Ok(string(lifetime, "lifetime")?.to_owned()),
        ("trait_bound", inner) => {
            let maybe = if inner["modifier"] == "maybe" {
                "?"
            } else {
                ""
            };
            Ok(format!("{maybe}{}", path(&inner["trait"])?))
        }
        _ => Err(unknown("bound", bound)),
    })
}

/// Parameters with their bounds, those of a `where` included: `<F: Send, T>`.
pub(crate) fn generics(value: &Value) -> Result<String> {
    let mut parameters = Vec::new();
    for parameter in array(&value["params"])? {
        let name = string(&parameter["name"], "name")?;
        let (kind, inner) = only_entry(&parameter["kind"])?;
        // One that stands for an `impl Trait` among the arguments is told there.
        if inner["is_synthetic"] == true {
            continue;
        }
        let bounds = match kind {
            "type" => bounds(&inner["bounds"])?,
            "lifetime" => joined(&inner["outlives"], " + ", |name| {
                Ok(string(name, "lifetime")?.to_owned())
            })?,
            _ => return Err(unknown("parameter", parameter)),
        };
        parameters.push(bounded(name, &bounds));
    }
    for predicate in array(&value["where_predicates"])? {
        let (kind, inner) = only_entry(predicate)?;
        if kind != "bound_predicate" {
            return Err(unknown("where", predicate));
        }
        let name = type_of(&inner["type"])?;
        let bounded = bounded(&name, &bounds(&inner["bounds"])?);
        match parameters.iter_mut().find(|known| **known == name) {
            Some(known) => *known = bounded,
            None => parameters.push(bounded),
        }
    }
    Ok(if parameters.is_empty() {
        String::new()
    } else {
        format!("<{}>", parameters.join(", "))
    })
}

fn bounded(name: &str, bounds: &str) -> String {
    if bounds.is_empty() {
        name.to_owned()
    } else {
        format!("{name}: {bounds}")
    }
}

pub(crate) fn function(name: &str, value: &Value) -> Result<String> {
    let header = &value["header"];
    let mut qualifiers = String::new();
    for (word, set) in [
        ("const ", &header["is_const"]),
        ("async ", &header["is_async"]),
        ("unsafe ", &header["is_unsafe"]),
    ] {
        if *set == true {
            qualifiers.push_str(word);
        }
    }
    let inputs = joined(&value["sig"]["inputs"], ", ", input)?;
    let generics = generics(&value["generics"])?;
    let output = output(&value["sig"]["output"])?;
    Ok(format!("{qualifiers}fn {name}{generics}({inputs}){output}"))
}

fn input(value: &Value) -> Result<String> {
    let (name, of) = (string(&value[0], "argument")?, type_of(&value[1])?);
    Ok(match (name, of.as_str()) {
        ("self", "Self") => "self".to_owned(),
        ("self", "&Self") => "&self".to_owned(),
        ("self", "&mut Self") => "&mut self".to_owned(),
        // The names of other arguments are documentation, and may change.
        _ => of,
    })
}

fn output(value: &Value) -> Result<String> {
    if value.is_null() {
        return Ok(String::new());
    }
    Ok(format!(" -> {}", type_of(value)?))
}
