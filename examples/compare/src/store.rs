//! A run that was made before, read again from its files: `runs.csv` has the values, `run.txt` what they
//! belong to. So the page and the README can be written anew without running anything.

use crate::cli::Options;
use crate::contestant::Contestant;
use crate::machine::Machine;
use crate::plan::{Extent, Plan};
use crate::results::Results;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A run: its plan, what came of it, and what has to be known about it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) results: Results,
    pub(crate) machine: Machine,
    pub(crate) remarks: Vec<String>,
}

/// `run.txt`.
pub(crate) fn about(extent: Extent, machine: &Machine, remarks: &[String]) -> String {
    let Machine {
        processor,
        cores,
        kernel,
        compiler,
        command,
        date,
        version,
    } = machine;
    let mut text = format!(
        "extent: {}\nprocessor: {processor}\ncores: {cores}\nkernel: {kernel}\ncompiler: {compiler}\n\
         version: {version}\ncommand: {command}\ndate: {date}\n",
        extent.name()
    );
    for remark in remarks {
        let _ = writeln!(text, "remark: {remark}");
    }
    text
}

/// Reads a run from the directory that it was written to.
pub(crate) fn read(from: &Path, options: &Options) -> Result<Run, String> {
    let file = |name: &str| {
        let path = from.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (values, about) = (file("runs.csv")?, file("run.txt")?);
    let wrong = |why: String| format!("{}: {why}", from.display());
    let (extent, machine, remarks) = parse_about(&about).map_err(wrong)?;
    let mut plan = Plan::new(extent);
    plan.retain(|case, contestant| options.wants(case, contestant));
    let results = parse_values(&values, &plan).map_err(wrong)?;
    Ok(Run {
        plan,
        results,
        machine,
        remarks,
    })
}

fn parse_about(text: &str) -> Result<(Extent, Machine, Vec<String>), String> {
    let pairs = || text.lines().filter_map(|line| line.split_once(": "));
    let get = |name: &str| {
        let found = pairs().find(|(it, _)| *it == name);
        let value = found.map(|(_, value)| value.to_owned());
        value.ok_or_else(|| format!("run.txt has no line `{name}: …`"))
    };
    let (extent, cores) = (get("extent")?, get("cores")?);
    let machine = Machine {
        processor: get("processor")?,
        cores: cores
            .parse()
            .map_err(|_| format!("`{cores}` is no number of cores"))?,
        kernel: get("kernel")?,
        compiler: get("compiler")?,
        version: get("version")?,
        command: get("command")?,
        date: get("date")?,
    };
    let extent = Extent::from_name(&extent)
        .ok_or_else(|| format!("`{extent}` is no extent: quick or full"))?;
    let remarks = pairs().filter(|(it, _)| *it == "remark");
    Ok((
        extent,
        machine,
        remarks.map(|(_, text)| text.to_owned()).collect(),
    ))
}

/// Values of cases that are no longer in the plan are left out.
fn parse_values(text: &str, plan: &Plan) -> Result<Results, String> {
    let numbers: HashMap<(&str, &str), usize> = plan
        .cases
        .iter()
        .enumerate()
        .map(|(number, case)| ((case.group, case.label.as_str()), number))
        .collect();
    // By run, so that values come in the order they were measured in.
    let mut runs: BTreeMap<(u32, usize, Contestant), Vec<(String, f64)>> = BTreeMap::new();
    for (place, line) in text.lines().enumerate().skip(1) {
        let parsed = parse_line(line).ok_or_else(|| {
            format!(
                "line {} of runs.csv is not group,\"case\",x,contestant,figure,run,value: {line}",
                place + 1
            )
        })?;
        let (key, contestant, figure, run, value) = parsed;
        if let Some(&number) = numbers.get(&key) {
            let figures = runs.entry((run, number, contestant)).or_default();
            figures.push((figure.to_owned(), value));
        }
    }
    let mut results = Results::default();
    for ((_, number, contestant), figures) in runs {
        results.add(number, contestant, figures);
    }
    Ok(results)
}

type Line<'a> = ((&'a str, &'a str), Contestant, &'a str, u32, f64);

fn parse_line(line: &str) -> Option<Line<'_>> {
    let (group, rest) = line.split_once(",\"")?;
    let (label, rest) = rest.split_once("\",")?;
    let [_, contestant, figure, run, value] = rest.split(',').collect::<Vec<_>>()[..] else {
        return None;
    };
    let contestant = Contestant::from_name(contestant)?;
    Some((
        (group, label),
        contestant,
        figure,
        run.parse().ok()?,
        value.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::{about, parse_about, parse_values};
    use crate::contestant::Contestant;
    use crate::csv;
    use crate::machine::Machine;
    use crate::plan::{Extent, Plan};
    use crate::results::Results;

    #[test]
    fn a_run_survives_its_files() {
        let plan = Plan::new(Extent::Quick);
        let mut results = Results::default();
        for value in [1.5, 0.1 + 0.2] {
            results.add(3, Contestant::Kernel, vec![("cpu_ns".to_owned(), value)]);
        }
        let read = parse_values(&csv::runs(&plan, &results), &plan).unwrap();
        assert!(read.all().eq(results.all()));
        let machine = Machine::look();
        let text = about(Extent::Quick, &machine, &["It was: so.".to_owned()]);
        let (extent, again, remarks) = parse_about(&text).unwrap();
        assert_eq!(extent, Extent::Quick);
        assert_eq!(again.line(), machine.line());
        assert_eq!(remarks, ["It was: so."]);
    }

    #[test]
    fn what_is_no_run_is_refused_with_the_line() {
        let plan = Plan::new(Extent::Quick);
        let wrong = parse_values("head\nchurn,1,2\n", &plan).unwrap_err();
        assert!(wrong.contains("line 2"), "{wrong}");
        let wrong = parse_about("extent: long\n").unwrap_err();
        assert!(wrong.contains("cores"), "{wrong}");
    }
}
