//! Hears of jobs that other processes have stored: `LISTEN`, on a connection and a thread of its own.
//!
//! A notice is a hint: what it names may be gone, and what is stored may have had no notice. Then the regular look at the table finds it. After a
//! connection was made the table is looked at once, for what was said before.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Config, Error};

use super::link::reason;
use super::session::Connect;
use crate::store::{Wake, earlier};
use crate::time::Millis;

/// What was heard.
#[derive(Debug, Default)]
pub(super) struct News {
    heard: Mutex<Heard>,
    /// The listener has to end.
    end: Notify,
    /// The server's process that carries out our own transactions: its notices are no news.
    pub(super) own: AtomicI32,
}

#[derive(Debug, Default)]
struct Heard {
    earliest: Option<Millis>,
    /// Something may have been said that was not heard.
    missed: bool,
}

impl News {
    /// The earliest due time that was heard of, and whether the table has to be looked at.
    pub(super) fn take(&self) -> (Option<Millis>, bool) {
        let mut heard = self.heard.lock();
        (heard.earliest.take(), std::mem::take(&mut heard.missed))
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
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new()
            .name("durable-listen".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = ears.run(&connect, &config) => {}
                        () = ears.news.end.notified() => {}
                    }
                });
            })?;
        Ok(Listener {
            news,
            thread: Some(thread),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.news.end.notify_one();
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
    async fn run(&self, connect: &Connect, config: &Config) {
        let mut pause = Duration::from_millis(50);
        loop {
            match self.listen(connect, config).await {
                Ok(()) => pause = Duration::from_millis(50),
                Err(error) => log::debug!("LISTEN {}: {}", self.channel, reason(&error)),
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Until the connection is lost.
    async fn listen(&self, connect: &Connect, config: &Config) -> Result<(), Error> {
        let (client, mut messages) = connect(config.clone()).await?;
        let command = format!("LISTEN {}", self.channel);
        let mut listening = Some(Box::pin(client.batch_execute(&command)));
        poll_fn(|context| {
            loop {
                match messages(context) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(notice)))) => {
                        if notice.process_id() != self.news.own.load(Ordering::Relaxed) {
                            self.hear(notice.payload());
                        }
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => break,
                }
            }
            if let Some(answer) = &mut listening
                && let Poll::Ready(answer) = answer.as_mut().poll(context)
            {
                listening = None;
                if let Err(error) = answer {
                    return Poll::Ready(Err(error));
                }
                self.news.heard.lock().missed = true;
                (self.wake)();
            }
            Poll::Pending
        })
        .await
    }

    /// A notice has a due time and a kind.
    fn hear(&self, notice: &str) {
        let Some((due, kind)) = notice.split_once(' ') else {
            // Something other than a job has changed.
            self.news.heard.lock().missed = true;
            return (self.wake)();
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
