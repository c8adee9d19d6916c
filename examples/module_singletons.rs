//! Two modules, each with a timer of its own in a `static`: made at the first use, shared by every
//! thread, and stopped by whoever decides that the module is done.
//!
//! One timer per process is usually enough (each is a thread). Two make sense when they differ: here
//! sessions are coarse and many, so a tick of 100 ms does; mail is retried with a tick of 5 ms.
//!
//! ```text
//! cargo run --example module_singletons             # about two seconds
//! cargo run --example module_singletons -- --quick  # half a second
//! ```

mod options;

use std::error::Error;
use std::thread;
use std::time::Duration;

const USAGE: &str = "\
usage: module_singletons [--quick]

Two modules, each with a timer of its own in a `static`: sessions that end after a silence, and mail
that is sent again.

  --quick    in half a second instead of two";

/// Logs a user out after a silence.
mod sessions {
    use hashed_wheel::{HashedWheelTimer, Rejected, Timeout};
    use std::sync::LazyLock;
    use std::time::Duration;

    /// Dropping an owner stops its timer, but a `static` is never dropped: this timer lives until
    /// [`close`] or the end of the process, whichever comes first.
    static TIMER: LazyLock<HashedWheelTimer> =
        LazyLock::new(|| HashedWheelTimer::new(Duration::from_millis(100), 512));

    pub(super) fn open(user: &'static str, silence: Duration) -> Option<Timeout> {
        let logged_out = move |_: &Timeout| super::say("sessions", &format!("{user} logged out"));
        match TIMER.new_timeout(logged_out, silence) {
            Ok(timeout) => {
                super::say(
                    "sessions",
                    &format!("{user} logged in, {silence:?} of silence allowed"),
                );
                Some(timeout)
            }
            // The task comes back with the error; nothing is lost silently.
            Err(Rejected { reason, .. }) => {
                super::say("sessions", &format!("{user} turned away: {reason}"));
                None
            }
        }
    }

    pub(super) fn close() -> usize {
        // `stop` fails only when a task calls it on the timer's own thread.
        TIMER.stop().map_or(0, |unprocessed| unprocessed.len())
    }
}

/// Sends a letter, and again a little later if the first attempts fail.
mod mail {
    use hashed_wheel::{HashedWheelTimer, Timeout, TimerHandle, TimerState};
    use std::sync::LazyLock;
    use std::time::Duration;

    static TIMER: LazyLock<HashedWheelTimer> = LazyLock::new(|| {
        HashedWheelTimer::builder()
            .tick_duration(Duration::from_millis(5))
            .ticks_per_wheel(256)
            .max_pending_timeouts(10_000)
            .thread_name("mail-timer")
            .build()
            .expect("the settings above are valid")
    });

    pub(super) fn send(to: &'static str, retry_after: Duration) {
        attempt(&TIMER.handle(), to, 1, retry_after);
    }

    /// The handle given to the task does not keep the timer alive.
    fn attempt(timer: &TimerHandle, to: &'static str, number: u32, retry_after: Duration) {
        if number == 3 {
            super::say("mail", &format!("to {to}: attempt {number}, delivered"));
            return;
        }
        super::say(
            "mail",
            &format!("to {to}: attempt {number} failed, again in {retry_after:?}"),
        );
        let again = move |timeout: &Timeout| {
            attempt(&timeout.timer(), to, number + 1, retry_after * 2);
        };
        if let Err(rejected) = timer.new_timeout(again, retry_after) {
            super::say("mail", &format!("to {to}: given up, {rejected}"));
        }
    }

    pub(super) fn close() -> usize {
        TIMER.stop().map_or(0, |unprocessed| unprocessed.len())
    }

    pub(super) fn state() -> TimerState {
        TIMER.state()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let unit = Duration::from_millis(if options::quick(USAGE) { 25 } else { 100 });
    println!("two modules, each with its own timer in a `static`\n");
    println!("module    thread                what happened");

    let ada = sessions::open("ada", unit * 8);
    sessions::open("bob", unit * 4);
    mail::send("carol", unit * 2);

    // Any thread may use a module's timer: a `static` needs no passing around.
    let other = thread::Builder::new().name("another-thread".into());
    other
        .spawn(move || mail::send("dave", unit * 3))?
        .join()
        .map_err(|_| "the thread panicked")?;

    thread::sleep(unit * 5);
    if ada.is_some_and(|session| session.reset(unit * 20)) {
        say("sessions", "ada clicked: her silence starts anew");
    }

    thread::sleep(unit * 5);
    say(
        "main",
        &format!("closing sessions: {} was still open", sessions::close()),
    );
    sessions::open("erin", unit);
    say(
        "main",
        &format!("mail is not affected: {:?}", mail::state()),
    );
    mail::send("frank", unit);

    thread::sleep(unit * 6);
    say(
        "main",
        &format!(
            "closing mail: {} letters were still to be sent",
            mail::close()
        ),
    );
    Ok(())
}

fn say(module: &str, text: &str) {
    let thread = thread::current();
    println!("{module:<8}  {:<20}  {text}", thread.name().unwrap_or("?"));
}
