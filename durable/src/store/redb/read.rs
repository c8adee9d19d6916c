//! Counts and lists, beside the store thread.

use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use ::redb::{
    AccessGuard, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata,
};

use super::super::{Id, Reader, Row};
use super::index::bounds;
use super::layout::{
    BODIES, CLAIMS, Claimed, ERRORS, INDEXES, KEYS, KINDS, LETTERS, Letter, Place, RULES, id_of,
    kind_of, read_body, read_holder, read_rule, standing,
};
use super::{Result, Shared};
use crate::error::StoreError;
use crate::job::JobFilter;
use crate::job::state::{Standing, State};
use crate::time::Millis;

pub(super) struct FileReader(pub(super) Arc<Shared>);

impl Reader for FileReader {
    fn pending(&self) -> std::result::Result<u64, StoreError> {
        self.0.with("cannot read", |database| {
            let transaction = database.begin_read()?;
            let mut pending = transaction.open_table(CLAIMS)?.len()?;
            for (index, _) in INDEXES {
                pending += transaction.open_table(index)?.len()?;
            }
            Ok(pending)
        })
    }

    fn jobs(&self, filter: &JobFilter) -> std::result::Result<Vec<Row>, StoreError> {
        self.0.with("cannot read", |database| {
            jobs(&database.begin_read()?, filter)
        })
    }

    fn kinds(&self) -> std::result::Result<Vec<String>, StoreError> {
        self.0.with("cannot read", |database| {
            let transaction = database.begin_read()?;
            let mut indexes = Vec::new();
            for (table, _) in INDEXES {
                indexes.push(transaction.open_table(table)?);
            }
            let mut found = Vec::new();
            for entry in transaction.open_table(KINDS)?.iter()? {
                let (name, number) = entry?;
                let (first, last) = bounds(number.value());
                for index in &indexes {
                    if index.range::<&Place>(&first..=&last)?.next().is_some() {
                        found.push(name.value().to_owned());
                        break;
                    }
                }
            }
            Ok(found)
        })
    }
}

/// A job that is meant, as far as the tables other than that of bodies say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    /// What it is ordered by.
    order: (Millis, Id),
    id: Id,
    kind: u32,
    standing: Standing,
    error: Option<String>,
    died: Option<Millis>,
}

/// Keeps the first of all that are shown.
struct Page<'a> {
    filter: &'a JobFilter,
    most: usize,
    kinds: HashMap<u32, String>,
    found: BinaryHeap<Found>,
}

impl Page<'_> {
    fn show(
        &mut self,
        id: Id,
        kind: u32,
        standing: Standing,
        error: Option<&str>,
        died: Option<Millis>,
    ) {
        let filter = self.filter;
        let named = self.kinds.get(&kind).map(String::as_str);
        if !filter.means(id, named, standing, died) {
            return;
        }
        let order = (if filter.by_due { standing.due } else { 0 }, id);
        let full = self.found.len() >= self.most;
        if full && self.found.peek().is_none_or(|last| last.order < order) {
            return;
        }
        if full {
            self.found.pop();
        }
        self.found.push(Found {
            order,
            id,
            kind,
            standing,
            error: error.map(str::to_owned),
            died,
        });
    }
}

fn jobs(transaction: &ReadTransaction, filter: &JobFilter) -> Result<Vec<Row>> {
    let mut kinds = HashMap::new();
    for entry in transaction.open_table(KINDS)?.iter()? {
        let (name, number) = entry?;
        kinds.insert(number.value(), name.value().to_owned());
    }
    let numbers: Vec<u32> = kinds
        .iter()
        .filter(|(_, name)| filter.kind.as_ref().is_none_or(|kind| kind == *name))
        .map(|(&number, _)| number)
        .collect();
    // The key of a claim or a dead letter shows in the body only, so all of these have to be looked at.
    let most = if filter.key.is_some() {
        usize::MAX
    } else {
        filter.limit
    };
    let mut page = Page {
        filter,
        most,
        kinds,
        found: BinaryHeap::new(),
    };
    // A job that waits and has a key holds it, but for the runs of a recurring job.
    let held = match &filter.key {
        Some(key) => {
            let value = transaction.open_table(KEYS)?.get(key.as_str())?;
            Some(value.map(|value| read_holder(value.value())))
        }
        None => None,
    };
    let bodies = transaction.open_table(BODIES)?;
    // The kind whose waiting jobs may be runs of what holds the key.
    let runs = match held {
        Some(Some((place, State::Recurring))) => Some(kind_of(&place)),
        _ => None,
    };
    for (table, state) in INDEXES {
        if !filter.wants(state) {
            continue;
        }
        let table = transaction.open_table(table)?;
        if let Some(held) = held
            && (runs.is_none() || state == State::Recurring)
        {
            if let Some((place, _)) = held
                && let Some(value) = table.get(&place)?
            {
                let standing = standing(&place, value.value(), state);
                page.show(id_of(&place), kind_of(&place), standing, None, None);
            }
            continue;
        }
        for &kind in &numbers {
            if runs.is_some_and(|runs| runs != kind) {
                continue;
            }
            let (first, last) = bounds(kind);
            // In the order of due times, no more than the limit can be among the first.
            let of_kind = if filter.by_due { most } else { usize::MAX };
            for entry in table.range::<&Place>(&first..=&last)?.take(of_kind) {
                let (place, value) = entry?;
                let (place, id) = (place.value(), id_of(place.value()));
                let wanted = |value: AccessGuard<'_, &[u8]>| {
                    read_body(id, value.value()).key == filter.key.as_deref()
                };
                if runs.is_some() && !bodies.get(id)?.is_some_and(wanted) {
                    continue;
                }
                let standing = standing(place, value.value(), state);
                page.show(id, kind, standing, None, None);
            }
        }
    }
    show_claims_and_dead(transaction, &mut page)?;
    rows(transaction, page, filter)
}

fn show_claims_and_dead(transaction: &ReadTransaction, page: &mut Page<'_>) -> Result<()> {
    let (filter, most) = (page.filter, page.most);
    for entry in transaction.open_table(CLAIMS)?.iter()? {
        let (id, value) = entry?;
        let claim = Claimed::decode(value.value());
        page.show(
            id.value(),
            kind_of(&claim.place),
            claim.standing(),
            None,
            None,
        );
    }
    if filter.wants(State::Dead) {
        let mut met = 0;
        for entry in transaction.open_table(LETTERS)?.range(filter.after..)? {
            let (id, value) = entry?;
            let letter = Letter::decode(value.value());
            let before = page.found.len();
            page.show(
                id.value(),
                letter.kind,
                letter.standing(),
                Some(&letter.error),
                Some(letter.died),
            );
            met += usize::from(page.found.len() > before);
            if met >= most && !filter.by_due {
                break;
            }
        }
    }
    Ok(())
}

fn rows(transaction: &ReadTransaction, page: Page<'_>, filter: &JobFilter) -> Result<Vec<Row>> {
    let (bodies, errors) = (
        transaction.open_table(BODIES)?,
        transaction.open_table(ERRORS)?,
    );
    let rules = transaction.open_table(RULES)?;
    let kinds = page.kinds;
    let mut rows = Vec::new();
    for found in page.found.into_sorted_vec() {
        if rows.len() == filter.limit {
            break;
        }
        let id = found.id;
        let Some(value) = bodies.get(id)? else {
            continue;
        };
        let body = read_body(id, value.value());
        if filter.key.is_some() && filter.key.as_deref() != body.key {
            continue;
        }
        let error = match found.error {
            None if found.standing.attempts > 0 => {
                errors.get(id)?.map(|error| error.value().to_owned())
            }
            error => error,
        };
        let rule = match found.standing.state {
            State::Recurring => rules.get(id)?,
            _ => None,
        };
        rows.push(Row {
            id,
            kind: kinds.get(&found.kind).cloned().unwrap_or_default(),
            key: body.key.map(str::to_owned),
            payload: body.payload.to_vec(),
            standing: found.standing,
            error,
            died: found.died,
            rule: rule.map(|value| read_rule(id, value.value()).unwrap_or_default().to_owned()),
        });
    }
    Ok(rows)
}
