//! The first screen: which wheel for my load, the map, and the three figures. The page, the terminal and the
//! README show the same in the same order.

use crate::decision::Choice;
use crate::findings::Findings;
use crate::headline::Headline;
use crate::map::{Form, Map};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) choices: Vec<Choice>,
    pub(crate) maps: Vec<Map>,
    pub(crate) headlines: Vec<Headline>,
}

/// What the words of the rows mean.
pub(crate) const TERMS: &str = "A turn is the time in which a hashed wheel comes round: tick × slots, 51 s on the default timer. \
Costs are CPU time for a timeout's whole life; ×1.3 is 1.3 times what the one in the column “take” costs. Differences within the noise of the run are not told.";

/// The columns.
pub(crate) const HEAD: [&str; 4] = ["your load", "take", "because", "by how much"];

impl Answer {
    pub(crate) fn new(from: Findings) -> Answer {
        Answer {
            choices: from.choices(),
            maps: Form::ALL
                .iter()
                .filter_map(|&form| from.map(form))
                .collect(),
            headlines: from.headlines(),
        }
    }
}
