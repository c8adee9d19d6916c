//! Where the run stands: a bar on a terminal, plain lines elsewhere. On the standard error stream.

use crate::case::Case;
use crate::contestant::Contestant;
use crate::plan::Plan;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(crate) struct Progress {
    /// `None` where nobody would see it move.
    bar: Option<ProgressBar>,
    rounds: usize,
    /// Runs of cases, by all contestants, that are done and that there are.
    done: usize,
    all: usize,
    /// For each case, how many rounds are left, and how long the last one took.
    left: Vec<usize>,
    took: Vec<Option<Duration>>,
    begun: Instant,
    case: String,
}

impl Progress {
    pub(crate) fn new(plan: &Plan, rounds: usize) -> Progress {
        let all = plan.cases.iter().map(|case| case.runs).sum();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}");
            let bar = ProgressBar::new(all as u64);
            bar.set_style(style.expect("the template is valid").progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress {
            bar,
            rounds,
            done: 0,
            all,
            left: plan.cases.iter().map(|case| case.runs).collect(),
            took: vec![None; plan.cases.len()],
            begun: Instant::now(),
            case: String::new(),
        }
    }

    /// A case begins in a round.
    pub(crate) fn begin(&mut self, round: usize, number: usize, case: &Case) {
        self.begun = Instant::now();
        let (round, rounds) = (round + 1, self.rounds);
        self.case = format!("round {round}/{rounds}: {}{}", case.name(), self.estimate());
        self.left[number] -= 1;
        if self.bar.is_none() {
            let (done, all) = (self.done + 1, self.all);
            eprintln!("[{done:>3}/{all}] {}", self.case);
        }
    }

    /// A contestant has its turn.
    pub(crate) fn turn(&self, contestant: Contestant) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {}", self.case, contestant.name()));
        }
    }

    pub(crate) fn end(&mut self, number: usize) {
        self.done += 1;
        self.took[number] = Some(self.begun.elapsed());
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// How long the rest takes, once every case has been seen: what it took the last time.
    fn estimate(&self) -> String {
        let known: Option<Vec<Duration>> = self.took.iter().copied().collect();
        let Some(took) = known else {
            return String::new();
        };
        let rest = took.iter().zip(&self.left);
        let seconds: f64 = rest.map(|(it, &left)| it.as_secs_f64() * left as f64).sum();
        format!(" (about {} s left)", seconds.ceil())
    }
}
