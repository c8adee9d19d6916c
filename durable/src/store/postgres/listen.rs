//! Hears of jobs that other processes have stored: `LISTEN`, on a connection and a thread of its own.
//!
//! A notice is a hint: what it names may be gone, and what is stored may have had no notice. Then the regular look at the table finds it. After a
//! connection was made the table is looked at once, for what was said before.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ::postgres::fallible_iterator::FallibleIterator;
use ::postgres::{Client, Config, Error};
use parking_lot::{Condvar, Mutex};

use super::link::{Connect, reason};
use crate::store::{Wake, earlier};
use crate::time::Millis;

/// Pauses after which the thread looks whether it has to end, in case it was not told.
const TURN: Duration = Duration::from_secs(1);

/// What was heard.
#[derive(Debug, Default)]
pub(super) struct News {
    heard: Mutex<Heard>,
    changed: Condvar,
    /// The server's process that carries out our own transactions: its notices are no news.
    pub(super) own: AtomicI32,
}

#[derive(Debug, Default)]
struct Heard {
    earliest: Option<Millis>,
    /// Something may have been said that was not heard.
    missed: bool,
    stopping: bool,
}

impl News {
    /// The earliest due time that was heard of, and whether the table has to be looked at.
    pub(super) fn take(&self) -> (Option<Millis>, bool) {
        let mut heard = self.heard.lock();
        (heard.earliest.take(), std::mem::take(&mut heard.missed))
    }

    fn is_stopping(&self) -> bool {
        self.heard.lock().stopping
    }
}

pub(super) struct Listener {
    news: Arc<News>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(
        (connect, config): (Connect, Config),
        channel: String,
        kinds: Vec<String>,
        news: Arc<News>,
        wake: Wake,
    ) -> std::io::Result<Listener> {
        let ears = Ears {
            channel,
            kinds,
            news: Arc::clone(&news),
            wake,
        };
        let thread = thread::Builder::new()
            .name("durable-listen".to_owned())
            .spawn(move || ears.run(&connect, &config))?;
        Ok(Listener {
            news,
            thread: Some(thread),
        })
    }

    /// The thread ends with the next notice.
    pub(super) fn stop(&self) {
        self.news.heard.lock().stopping = true;
        self.news.changed.notify_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Ears {
    channel: String,
    kinds: Vec<String>,
    news: Arc<News>,
    wake: Wake,
}

impl Ears {
    fn run(&self, connect: &Connect, config: &Config) {
        let mut pause = Duration::from_millis(50);
        while !self.news.is_stopping() {
            match connect(config).and_then(|client| self.listen(client)) {
                Ok(()) => pause = Duration::from_millis(50),
                Err(error) => log::debug!("LISTEN {}: {}", self.channel, reason(&error)),
            }
            let mut heard = self.news.heard.lock();
            if !heard.stopping {
                self.news.changed.wait_for(&mut heard, pause);
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Until the connection is lost or the timer stops.
    fn listen(&self, mut client: Client) -> Result<(), Error> {
        client.batch_execute(&format!("LISTEN {}", self.channel))?;
        self.news.heard.lock().missed = true;
        (self.wake)();
        while !self.news.is_stopping() && !client.is_closed() {
            let mut notifications = client.notifications();
            let mut notices = notifications.timeout_iter(TURN);
            while let Some(notice) = notices.next()? {
                if notice.process_id() != self.news.own.load(Ordering::Relaxed) {
                    self.hear(notice.payload());
                }
                if self.news.is_stopping() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A notice has a due time and a kind.
    fn hear(&self, notice: &str) {
        let Some((due, kind)) = notice.split_once(' ') else {
            return;
        };
        if let Ok(due) = due.parse()
            && self.kinds.iter().any(|handled| handled == kind)
        {
            let mut heard = self.news.heard.lock();
            heard.earliest = earlier(heard.earliest, Some(due));
            drop(heard);
            (self.wake)();
        }
    }
}
