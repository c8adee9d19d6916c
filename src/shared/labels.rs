//! Labels of timeouts. A slot holds the number of its label, the timer the text.

use super::{Shared, Timeout};
use crate::entry::SlotId;
use crate::slots::{Label, Slot};
use std::fmt;

/// The most labels of one timer.
const MAX_LABELS: usize = 65_000;

/// The labels of one timer: label `n` is `names[n - 1]`.
#[derive(Default)]
pub(super) struct Labels {
    names: Vec<&'static str>,
    /// Sorted by the names.
    sorted: Vec<Label>,
}

impl Shared {
    /// The label of that text, or none if there are too many already.
    pub(crate) fn label(&self, name: &'static str) -> Label {
        let mut labels = self.labels.lock();
        let Labels { names, sorted } = &mut *labels;
        let name_of = |label: &Label| names[usize::from(label.0) - 1];
        match sorted.binary_search_by_key(&name, name_of) {
            Ok(place) => sorted[place],
            Err(_) if names.len() == MAX_LABELS => Label::NONE,
            Err(place) => {
                names.push(name);
                let label = Label(names.len() as u16);
                sorted.insert(place, label);
                label
            }
        }
    }

    /// The label of a timeout.
    #[inline]
    pub(crate) fn label_of(&self, slot: &Slot<Timeout>) -> Option<&'static str> {
        match slot.label() {
            Label::NONE => None,
            label => self.name_of(label),
        }
    }

    #[cold]
    fn name_of(&self, label: Label) -> Option<&'static str> {
        let place = usize::from(label.0).checked_sub(1)?;
        self.labels.lock().names.get(place).copied()
    }
}

/// The name of a timeout's task in the log: `a task`, or `a task labelled "retries"`.
/// The slot is not free.
pub(crate) struct TaskName<'a>(
    pub(crate) &'static str,
    pub(crate) &'a Shared,
    pub(crate) SlotId,
);

impl fmt::Display for TaskName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskName(what, shared, slot) = self;
        f.write_str(what)?;
        match shared.label_of(shared.slot(*slot)) {
            Some(label) => write!(f, " labelled {label:?}"),
            None => Ok(()),
        }
    }
}
