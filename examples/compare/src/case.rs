//! What is run: a case is one point of one group, run by every contestant in turn.

use crate::contestant::Contestant;
use crate::load::burst::{self, Burst};
use crate::load::steady::{self, Steady};
use crate::load::{Figures, array};
use crate::measured::churn::{self, Churn};
use crate::measured::fire::{self, Fire};
use crate::measured::memory::{self, Leftover};
use crate::measured::rest::{self, Rest};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Steady(Steady),
    Burst(Burst),
    Churn(Churn),
    Fire(Fire),
    Rest(Rest),
    /// So many pending timeouts.
    Held(usize),
    Leftover(Leftover),
}

impl Work {
    pub(crate) fn run(&self, contestant: Contestant) -> Figures {
        match self {
            Work::Steady(load) if contestant == Contestant::Array => array::run(load),
            Work::Steady(load) => steady::run(load, contestant),
            Work::Burst(load) => burst::run(load, contestant),
            Work::Churn(load) => churn::run(load, contestant),
            Work::Fire(load) => fire::run(load, contestant),
            Work::Rest(load) => rest::run(load, contestant),
            Work::Held(pending) => memory::held(*pending, contestant),
            Work::Leftover(load) => memory::leftover(load, contestant),
        }
    }
}

/// One point of a group.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The name of its [`Group`](crate::group::Group).
    pub(crate) group: &'static str,
    /// Its place on the axis of a sweep; the number of the row otherwise.
    pub(crate) x: f64,
    /// What it is called in its group.
    pub(crate) label: String,
    pub(crate) work: Work,
    /// How often each contestant runs it.
    pub(crate) runs: usize,
    pub(crate) contestants: Vec<Contestant>,
}

impl Case {
    /// Unique: a child process finds its case by it.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.group, self.label)
    }
}
