//! The query of an address.

use axum::http::Uri;

use super::Problem;
use super::jobs::MOST_LISTED;
use crate::queue::Wanted;

/// The longest text, in characters.
const MOST_TEXT: usize = 512;

/// The greatest number of a job.
const MOST_NUMBER: u64 = i64::MAX as u64;

/// The parameters of a query, each at most once and none but those that are known.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(query: Option<String>, known: &[&str]) -> Result<Query, Problem> {
        let query = query.unwrap_or_default();
        let uri = Uri::builder()
            .path_and_query(format!("/?{query}"))
            .build()
            .map_err(|error| Problem::bad(format!("the query: {error}")))?;
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri)
            .map_err(|error| Problem::bad(format!("the query: {}", error.body_text())))?
            .0;
        for (number, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Problem::bad(format!(
                    "the query has {name:?}: it may have {}",
                    known.join(", ")
                )));
            }
            if pairs[..number].iter().any(|(other, _)| other == name) {
                return Err(Problem::bad(format!("the query has {name:?} twice")));
            }
        }
        Ok(Query(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn key(&self) -> Result<String, Problem> {
        self.get("key")
            .map(str::to_owned)
            .ok_or_else(|| Problem::bad("key is missing: PATH?key=KEY"))
    }

    pub(super) fn number(
        &self,
        name: &str,
        unless: u64,
        low: u64,
        high: u64,
    ) -> Result<u64, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(unless);
        };
        // Digits alone: `parse` takes a sign as well.
        text.parse()
            .ok()
            .filter(|number| {
                (low..=high).contains(number) && text.bytes().all(|byte| byte.is_ascii_digit())
            })
            .ok_or_else(|| {
                Problem::value(name, text.into(), &format!("a number from {low} to {high}"))
            })
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.get(name) {
            Some("") => Err(Problem::value(name, "".into(), "a text that is not empty")),
            Some(text) if text.chars().count() > MOST_TEXT || text.contains('\0') => {
                let allowed = format!("a text of at most {MOST_TEXT} characters, none of them NUL");
                Err(Problem::value(name, text.into(), &allowed))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    /// The jobs that a list is to have, unless it is one of the earliest.
    pub(super) fn wanted(&self, dead: bool) -> Result<Wanted, Problem> {
        Ok(Wanted {
            dead,
            after: self.number("after", 0, 0, MOST_NUMBER)?,
            limit: self.number("limit", MOST_LISTED, 1, MOST_LISTED)? as usize,
            key: self.text("key")?,
            search: self.text("search")?,
        })
    }
}
