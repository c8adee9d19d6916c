//! A logger that keeps what was logged, and can be told to misbehave.

use std::sync::{Arc, Mutex, Once};
use std::thread::{self, ThreadId};

use log::{Level, LevelFilter, Log, Metadata, Record};

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) thread: ThreadId,
    pub(crate) level: Level,
    pub(crate) text: String,
}

type Hook = Arc<dyn Fn(&Line) + Send + Sync>;

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());
static HOOKS: Mutex<Vec<Hook>> = Mutex::new(Vec::new());

struct Keeper;

impl Log for Keeper {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        if !record.target().starts_with("hashed_wheel") {
            return;
        }
        let (thread, level) = (thread::current().id(), record.level());
        let line = Line {
            thread,
            level,
            text: record.args().to_string(),
        };
        LINES.lock().unwrap().push(line.clone());
        // No lock is held around the hooks: what they call may log.
        let hooks = HOOKS.lock().unwrap().clone();
        for hook in hooks {
            hook(&line);
        }
    }

    fn flush(&self) {}
}

/// From here on every line of the crate is kept.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Keeper).expect("the only logger");
        log::set_max_level(LevelFilter::Trace);
    });
}

/// Calls `hook` from within the logger at each line.
pub(crate) fn on_each_line(hook: impl Fn(&Line) + Send + Sync + 'static) {
    keep();
    HOOKS.lock().unwrap().push(Arc::new(hook));
}

/// The lines so far that contain this text.
pub(crate) fn containing(text: &str) -> Vec<Line> {
    LINES
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.text.contains(text))
        .cloned()
        .collect()
}

/// The lines so far that this thread logged, of this level or of all.
pub(crate) fn of_this_thread(level: Option<Level>) -> Vec<Line> {
    let me = thread::current().id();
    let wanted = |line: &&Line| line.thread == me && level.is_none_or(|level| line.level == level);
    LINES
        .lock()
        .unwrap()
        .iter()
        .filter(wanted)
        .cloned()
        .collect()
}

/// The lines so far of this level.
pub(crate) fn at(level: Level) -> Vec<Line> {
    LINES
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.level == level)
        .cloned()
        .collect()
}
