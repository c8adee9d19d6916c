//! Opening and making the file.
//!
//! A new store is made as `NAME.new` in the same folder, under a lock, synced, and renamed only then: a kill at any moment leaves no store, or a
//! whole one, and perhaps a `NAME.new` that the next open takes over, unless it holds anything. A file that exists is looked at, read-only, before anything is
//! written to it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use ::redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableError, TableHandle,
};
use parking_lot::RwLock;

use super::layout::{FORMAT, KINDS, META, TABLES, old};
use super::work::damaged;
use super::{CACHE, Kinds, Numbers, Open, RedbStore, Shared, rewrite, upgrade};
use crate::error::{Error, StoreError};

/// The first bytes of every file of redb.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// How often a file that is in use is tried again: somebody may only be looking at it.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

impl RedbStore {
    /// Opens the store of this file, or makes it. `verify`: all of it is read and checked.
    pub(crate) fn open(path: &Path, handled: &[String], verify: bool) -> Result<RedbStore, Error> {
        let path = path.to_owned();
        let name = path.display().to_string();
        RedbStore::start(
            name,
            handled,
            verify,
            Box::new(move |verify| {
                let mut database = open_patiently(&path)?;
                guarded(path.display(), || {
                    let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                    upgrade::prepare(&mut database, &path, length, verify)
                })?;
                Ok(database)
            }),
        )
    }

    pub(super) fn start(
        name: String,
        handled: &[String],
        verify: bool,
        mut open: Open,
    ) -> Result<RedbStore, Error> {
        let database = open(verify)?;
        let mut store = RedbStore {
            shared: Arc::new(Shared {
                database: RwLock::new(None),
                name,
                damaged: AtomicBool::new(false),
            }),
            open,
            kinds: Kinds {
                handled: handled.iter().map(|kind| kind.as_str().into()).collect(),
                ..Kinds::default()
            },
            numbers: Numbers::default(),
            wake: None,
            loaded: Instant::now(),
        };
        store.load(database)?;
        Ok(store)
    }

    /// Reads what is kept in memory of a file that was just opened.
    pub(super) fn load(&mut self, database: Database) -> Result<(), StoreError> {
        self.kinds.numbers.clear();
        self.kinds.names.clear();
        let kinds = &mut self.kinds;
        let last = guarded(&self.shared.name, || {
            read_meta(&database, kinds).map_err(|error| self.shared.failed("cannot read", error))
        })?;
        self.numbers = Numbers {
            last,
            reserved: last,
        };
        *self.shared.database.write() = Some(database);
        Ok(())
    }
}

fn open_patiently(path: &Path) -> Result<Database, Error> {
    let mut tries = 0;
    loop {
        match guarded(path.display(), || open_or_create(path)) {
            Err(Error::InUse(_)) if tries < TRIES => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

pub(super) fn tables(transaction: &ReadTransaction) -> Result<HashSet<String>, ::redb::Error> {
    let tables = transaction.list_tables()?;
    Ok(tables.map(|table| table.name().to_owned()).collect())
}

/// Reads the kinds, and the last number that was given out.
pub(super) fn read_meta(database: &Database, kinds: &mut Kinds) -> Result<u64, ::redb::Error> {
    let transaction = database.begin_read()?;
    let tables = tables(&transaction)?;
    if tables.len() != TABLES.len() || !TABLES.iter().all(|name| tables.contains(*name)) {
        return Err(damaged("a table is missing, or has another name"));
    }
    for entry in transaction.open_table(KINDS)?.iter()? {
        let (name, number) = entry?;
        kinds.add(name.value(), number.value());
    }
    let meta = transaction.open_table(META)?;
    if let Some(sum) = meta.get("kinds")?
        && sum.value() != kinds.check()
    {
        return Err(damaged("the checksum of the kinds is wrong"));
    }
    Ok(meta.get("last")?.map_or(0, |last| last.value()))
}

/// Makes an error of a panic: redb asserts what a damaged file may break.
pub(super) fn guarded<T, E: From<StoreError>>(
    name: impl fmt::Display,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = crate::engine::panic_text(&*payload);
        Err(StoreError::new(format!("{name} is damaged: {text}")).into())
    })
}

/// The same, of the system.
pub(super) fn io_failed(path: &Path, what: &str, error: io::Error) -> Error {
    StoreError::with(format!("{}: cannot {what}", path.display()), error).into()
}

/// Something cannot be done with a file.
pub(super) fn failed(path: &Path, what: &str, error: impl Into<::redb::Error>) -> Error {
    StoreError::with(format!("{}: cannot {what}", path.display()), error.into()).into()
}

fn open_or_create(path: &Path) -> Result<Database, Error> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(StoreError::new(format!("{} is a folder, not a file", path.display())).into())
        }
        // Opening a named pipe would wait for its other end.
        Ok(metadata) if !metadata.is_file() => {
            Err(StoreError::new(format!("{} is not a regular file", path.display())).into())
        }
        Ok(metadata) if metadata.permissions().readonly() => {
            Err(StoreError::new(format!("{} is read-only", path.display())).into())
        }
        Ok(_) => open_existing(path),
        // A new file would take the place of the link.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            Err(StoreError::new(format!("{} is a link to nothing", path.display())).into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path),
        Err(error) => Err(io_failed(path, "open", error)),
    }
}

fn no_store(path: &Path) -> Error {
    StoreError::new(format!(
        "{} is no store of timers; it was left as it is",
        path.display()
    ))
    .into()
}

fn engine_error(path: &Path, error: DatabaseError) -> Error {
    let what = match &error {
        DatabaseError::DatabaseAlreadyOpen => return Error::InUse(path.to_owned()),
        DatabaseError::Storage(StorageError::Corrupted(_)) => " is damaged or truncated",
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == io::ErrorKind::UnexpectedEof =>
        {
            " is truncated"
        }
        _ => ": cannot open",
    };
    StoreError::with(
        format!("{}{what}", path.display()),
        ::redb::Error::from(error),
    )
    .into()
}

fn open_existing(path: &Path) -> Result<Database, Error> {
    let mut start = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|error| io_failed(path, "open", error))?;
    match file.read_exact(&mut start) {
        Ok(()) if start == MAGIC => {}
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            return Err(io_failed(path, "open", error));
        }
        _ => return Err(no_store(path)),
    }
    drop(file);
    // Read-only first: a database of somebody else, or of a newer version, is not written to.
    match builder().open_read_only(path) {
        Ok(database) => check(path, &database)?,
        // Was not closed, or is not finished: only opening it for writing repairs it.
        Err(DatabaseError::RepairAborted) => {}
        Err(error) => return Err(engine_error(path, error)),
    }
    let database = builder()
        .open(path)
        .map_err(|error| engine_error(path, error))?;
    check(path, &database)?;
    Ok(database)
}

/// The version of the layout; `None` if there is none of ours.
pub(super) fn format(transaction: &ReadTransaction) -> Result<Option<u64>, ::redb::Error> {
    match transaction.open_table(META) {
        Ok(meta) => Ok(meta.get("format")?.map(|format| format.value())),
        Err(TableError::Storage(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

fn check(path: &Path, database: &impl ReadableDatabase) -> Result<(), Error> {
    let format = database
        .begin_read()
        .map_err(::redb::Error::from)
        .and_then(|transaction| format(&transaction));
    match format.map_err(|error| failed(path, "read", error))? {
        Some(old::FORMAT | FORMAT) => Ok(()),
        Some(newer) if newer > FORMAT => Err(StoreError::new(format!(
            "{} was written by a newer version: its format is {newer}, this version knows {FORMAT}",
            path.display()
        ))
        .into()),
        _ => Err(no_store(path)),
    }
}

pub(super) fn initialize(database: &Database) -> Result<(), ::redb::Error> {
    // Makes every table.
    rewrite(database, |work| {
        work.meta.insert("format", FORMAT)?;
        work.meta.insert("last", 0)?;
        Ok(())
    })
}

fn create(path: &Path) -> Result<Database, Error> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::new(format!("{} names no file", path.display())).into());
    };
    let mut temporary = OsString::from(name);
    temporary.push(".new");
    let temporary: PathBuf = path.with_file_name(temporary);

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&temporary)
        .map_err(|error| io_failed(path, "create", error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(io_failed(path, "lock", error)),
    }
    // Who held the lock before may have finished its store, and renamed the very file that is locked now.
    if path.exists() {
        drop(file);
        return open_existing(path);
    }
    let begun = is_begun(&file, &temporary).map_err(|error| io_failed(path, "create", error))??;
    if !begun {
        file.set_len(0)
            .map_err(|error| io_failed(path, "create", error))?;
    }
    let made = builder()
        .create_file(file)
        .map_err(|error| engine_error(if begun { &temporary } else { path }, error))
        .and_then(|database| {
            let bare = is_bare(&database).and_then(|bare| {
                if bare {
                    initialize(&database)?;
                }
                Ok(bare)
            });
            match bare {
                Ok(true) => Ok(database),
                Ok(false) => Err(in_the_way(&temporary)),
                Err(error) => Err(failed(path, "create", error)),
            }
        })
        .and_then(|database| {
            fs::rename(&temporary, path).map_err(|error| io_failed(path, "create", error))?;
            sync_folder(path).map_err(|error| io_failed(path, "create", error))?;
            Ok(database)
        });
    if made.is_err() && !begun {
        let _ = fs::remove_file(&temporary);
    }
    made
}

fn in_the_way(temporary: &Path) -> Error {
    StoreError::new(format!(
        "{} is in the way: it is not what a killed creation left, and was left as it is",
        temporary.display()
    ))
    .into()
}

/// Has redb made its file already? The magic number is what it writes last. What has neither that nor zeros in its place is somebody else's.
fn is_begun(file: &File, temporary: &Path) -> io::Result<Result<bool, Error>> {
    if !file.metadata()?.is_file() {
        return Ok(Err(in_the_way(temporary)));
    }
    let mut start = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(if start == MAGIC {
        Ok(true)
    } else if start.iter().all(|&byte| byte == 0) {
        Ok(false)
    } else {
        Err(in_the_way(temporary))
    })
}

/// Is it a database without a table, or a store that never had a job? A store with jobs may have that name as well.
fn is_bare(database: &Database) -> Result<bool, ::redb::Error> {
    let transaction = database.begin_read()?;
    if matches!(format(&transaction)?, Some(old::FORMAT | FORMAT)) {
        return Ok(transaction
            .open_table(META)?
            .get("last")?
            .is_some_and(|last| last.value() == 0));
    }
    Ok(transaction.list_tables()?.next().is_none())
}

/// Makes the new name durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
