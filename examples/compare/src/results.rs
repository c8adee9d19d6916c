//! The figures of all runs, and what they come to.

use crate::contestant::Contestant;
use crate::load::COUNTS;
use std::collections::BTreeMap;

/// The figures of all runs.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// By case, contestant and figure; one value for each run.
    values: BTreeMap<(usize, Contestant, String), Vec<f64>>,
    /// Runs that came to nothing, and why.
    pub(crate) failures: Vec<String>,
}

/// One figure over all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// A quarter of the runs is below.
    pub(crate) low: f64,
    /// A quarter of the runs is above.
    pub(crate) high: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) runs: usize,
}

impl Summary {
    pub(crate) fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            median: quantile(&sorted, 0.5)?,
            low: quantile(&sorted, 0.25)?,
            high: quantile(&sorted, 0.75)?,
            least: *sorted.first()?,
            most: *sorted.last()?,
            runs: sorted.len(),
        })
    }
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    Some(below + (above - below) * place.fract())
}

impl Results {
    pub(crate) fn add(&mut self, case: usize, contestant: Contestant, figures: Vec<(String, f64)>) {
        for (name, value) in figures {
            let key = (case, contestant, name);
            self.values.entry(key).or_default().push(value);
        }
    }

    pub(crate) fn get(&self, case: usize, contestant: Contestant, figure: &str) -> Option<Summary> {
        let key = (case, contestant, figure.to_owned());
        Summary::of(self.values.get(&key)?)
    }

    /// The values of all runs, in their order.
    pub(crate) fn values(&self, case: usize, contestant: Contestant, figure: &str) -> &[f64] {
        let key = (case, contestant, figure.to_owned());
        self.values.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, Contestant, &str, &[f64])> {
        self.values
            .iter()
            .map(|((case, contestant, figure), values)| {
                (*case, *contestant, figure.as_str(), values.as_slice())
            })
    }

    /// Whether everything that was counted on a manual clock was the same in every run, and how many such
    /// counts there are that were made more than once.
    pub(crate) fn repeated(&self) -> (bool, usize) {
        let on_manual_clock = |key: &(usize, Contestant, String)| {
            let sibling = (key.0, key.1, "compared".to_owned());
            self.values.contains_key(&sibling) && COUNTS.contains(&key.2.as_str())
        };
        let counted = self.values.iter().filter(|(key, _)| on_manual_clock(key));
        let twice: Vec<_> = counted.filter(|(_, values)| values.len() > 1).collect();
        #[expect(
            clippy::float_cmp,
            reason = "the same computation from the same integers"
        )]
        let same = twice
            .iter()
            .all(|(_, values)| values.windows(2).all(|pair| pair[0] == pair[1]));
        (same, twice.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Contestant, Results, Summary};

    #[test]
    fn the_median_and_the_quartiles_are_those_of_the_books() {
        let summary = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        let expected = Summary {
            median: 3.0,
            low: 2.0,
            high: 4.0,
            least: 1.0,
            most: 5.0,
            runs: 5,
        };
        assert_eq!(summary, expected);
        assert!((Summary::of(&[1.0, 2.0]).unwrap().median - 1.5).abs() < 1e-12);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn counts_that_differ_are_noticed() {
        let mut results = Results::default();
        let mut run = |visits: f64| {
            let figures = [("compared", 0.0), ("bucket_visits", visits)];
            let owned = figures.map(|(name, value)| (name.to_owned(), value));
            results.add(0, Contestant::Heap, owned.to_vec());
            results.repeated()
        };
        assert_eq!(run(2.0), (true, 0));
        assert_eq!(run(2.0), (true, 2));
        assert_eq!(run(3.0), (false, 2));
    }
}
