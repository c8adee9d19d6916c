//! A file with damaged pages: what is in it is copied to a new one, which takes its name.
//!
//! redb has a checksum for each page, and no way to use the other pages of a file in which one is wrong. So every table is read to its end, which must give as many different
//! rows as the table says it has; else the file is refused. Rows of jobs have checksums of their own, so that a damaged one is a dead letter in the new file, and the others are
//! as they were. The damaged file is kept as `NAME.damaged`.
//!
//! A kill at any moment leaves the damaged file under its name, or the new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use ::redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::layout::{
    BODIES, CLAIMS, DUE, ERRORS, INDEXES, KINDS, LETTERS, META, PAUSED, RECURRING, RULES, SUSPECTS,
    holder, id_of, read_body,
};
use super::open::{builder, read_meta, sync_folder};
use super::work::damaged;
use super::{Kinds, Result, rewrite, upgrade};
use crate::error::{Error, StoreError};

/// The new file, which holds the name already. `why`: what redb says of the old one.
pub(super) fn mend(
    old: &Database,
    path: &Path,
    why: &::redb::Error,
) -> std::result::Result<Database, Error> {
    let refused = |error: ::redb::Error| {
        let text = format!(
            "{} is damaged ({why}), and its jobs cannot all be found",
            path.display()
        );
        Error::Store(StoreError::with(text, error))
    };
    let failed = |error: io::Error| {
        let text = format!("{} is damaged: cannot mend it", path.display());
        Error::Store(StoreError::with(text, error))
    };
    // A link stays one.
    let path = &fs::canonicalize(path).map_err(failed)?;
    let (temporary, kept) = (beside(path, ".mended"), beside(path, ".damaged"));
    // Left by a kill: nobody else gives that name to a file.
    remove(&temporary).map_err(failed)?;
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&temporary)
        .map_err(failed)?;
    let permissions = fs::metadata(path).map_err(failed)?.permissions();
    file.set_permissions(permissions).map_err(failed)?;
    let new = file.try_lock().map_err(io::Error::from).and_then(|()| {
        builder()
            .create_file(file)
            .map_err(|error| io::Error::other(::redb::Error::from(error)))
    });
    let new = new.map_err(failed)?;
    let copied = panic::catch_unwind(AssertUnwindSafe(|| {
        read_meta(old, &mut Kinds::default())?;
        copy(old, &new)?;
        let dead = upgrade::bury_damaged(&new)?;
        give_keys(&new)?;
        Ok(dead)
    }));
    let copied =
        copied.unwrap_or_else(|payload| Err(damaged(&crate::engine::panic_text(&*payload))));
    let dead = match copied {
        Ok(dead) => dead,
        Err(error) => {
            drop(new);
            let _ = fs::remove_file(&temporary);
            return Err(match error {
                ::redb::Error::Corrupted(_) => refused(error),
                other => failed(io::Error::other(other)),
            });
        }
    };
    remove(&kept)
        .and_then(|()| fs::hard_link(path, &kept))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path))
        .map_err(failed)?;
    log::error!(
        "{} was damaged ({why}): its jobs were copied to a new file, {dead} of them are damaged and are among the dead now; the old file is {}",
        path.display(),
        kept.display()
    );
    Ok(new)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies every table but that of keys, which follows from the others.
fn copy(old: &Database, new: &Database) -> Result<()> {
    let from = old.begin_read()?;
    rewrite(new, |work| {
        let mut last = 0;
        macro_rules! copy {
            ($($field:ident: $table:expr),*) => {
                $({
                    let table = from.open_table($table)?;
                    let mut rows = 0;
                    for row in table.iter()? {
                        let (key, value) = row?;
                        if work.$field.insert(key.value(), value.value())?.is_some() {
                            return Err(damaged("a row is met twice"));
                        }
                        rows += 1;
                    }
                    if rows != table.len()? {
                        return Err(damaged("a table does not have its rows"));
                    }
                })*
            };
        }
        copy!(meta: META, kind_numbers: KINDS, bodies: BODIES, due: DUE, suspects: SUSPECTS);
        copy!(recurring: RECURRING, rules: RULES, claims: CLAIMS, letters: LETTERS);
        copy!(errors: ERRORS, paused: PAUSED);
        // No number twice, even if what is known of the last one is damaged.
        for body in work.bodies.iter()?.rev() {
            let (id, body) = body?;
            if read_body(id.value(), body.value()).sound {
                last = id.value();
                break;
            }
        }
        for claim in work.claims.iter()? {
            last = last.max(super::layout::Claimed::decode(claim?.1.value()).token);
        }
        let known = work.meta.get("last")?.map_or(0, |last| last.value());
        if known < last {
            work.meta.insert("last", last)?;
        }
        Ok(())
    })
}

/// Gives every job that waits its key.
fn give_keys(new: &Database) -> Result<()> {
    rewrite(new, |work| {
        let mut held = Vec::new();
        for (_, state) in INDEXES {
            for entry in work.index(state).iter()? {
                let place = *entry?.0.value();
                held.push((place, state));
            }
        }
        for (place, state) in held {
            let body = work.bodies.get(id_of(&place))?;
            let body = body
                .as_ref()
                .map(|body| read_body(id_of(&place), body.value()));
            if let Some(body) = body
                && let (Some(key), false) = (body.key, body.run)
            {
                work.keys.insert(key, &holder(&place, state))?;
            }
        }
        Ok(())
    })
}
