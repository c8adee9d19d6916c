//! Random cases: the same seed, the same case, and a case that fails is made smaller before it is
//! shown.
//!
//! | variable | what it does |
//! |---|---|
//! | `HASHED_WHEEL_SEED` | runs the case of this seed alone, or the first of `HASHED_WHEEL_CASES` |
//! | `HASHED_WHEEL_CASES` | how many seeds are run, instead of the few that fit into a test run |

use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use super::{Rng, WATCHDOG, message_of, ms};

/// Something that can be made at random, tried, and made smaller.
pub(crate) trait Case: Clone + Debug {
    fn random(random: &mut Rng) -> Self;

    /// Cases that are a little smaller, those that are much smaller first.
    fn smaller(&self) -> Vec<Self>;

    /// What went wrong, if anything did. A panic is as good as an error.
    fn run(&self) -> Result<(), String>;
}

/// A case that fails, and why.
#[derive(Debug)]
pub(crate) struct Failure<C> {
    pub(crate) case: C,
    pub(crate) why: String,
}

/// How many cases are tried to make one that fails smaller.
const TRIES: usize = 20_000;

/// Runs the kept seeds, and then as many others as were asked for.
pub(crate) fn check<C: Case>(kept: &[u64], cases: u64) {
    let started = Instant::now();
    let (first, cases) = match (number("HASHED_WHEEL_SEED"), number("HASHED_WHEEL_CASES")) {
        (Some(seed), cases) => (seed, cases.unwrap_or(1)),
        (None, asked) => (0, asked.unwrap_or(cases)),
    };
    let alone = number("HASHED_WHEEL_SEED").is_some();
    let kept = kept.iter().copied().filter(|_| !alone);
    let watch = Watch::start();
    for seed in kept.chain(first..first.saturating_add(cases)) {
        watch.begin(format!("seed {seed}"));
        let case = C::random(&mut Rng(seed));
        if let Err(why) = attempt(&case) {
            let failure = shrink(Failure { case, why }, &watch);
            panic!(
                "seed {seed}: {}\nthe smallest case that fails:\n{:#?}",
                failure.why, failure.case
            );
        }
    }
    println!("{cases} cases in {:.1?}", started.elapsed());
}

/// Whether neither of the variables asks for another run than the usual one.
pub(crate) fn is_usual() -> bool {
    number("HASHED_WHEEL_SEED")
        .or(number("HASHED_WHEEL_CASES"))
        .is_none()
}

/// Runs one case that was written down.
#[track_caller]
pub(crate) fn check_one<C: Case>(case: &C) {
    if let Err(why) = attempt(case) {
        panic!("{why}");
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is {text:?}; it must be a number")))
}

fn attempt<C: Case>(case: &C) -> Result<(), String> {
    quiet(|| catch_unwind(AssertUnwindSafe(|| case.run())))
        .unwrap_or_else(|payload| Err(format!("a panic: {}", message_of(&*payload))))
}

/// Takes the first smaller case that fails as well, again and again.
fn shrink<C: Case>(mut failure: Failure<C>, watch: &Watch) -> Failure<C> {
    let mut tries = 0;
    'smaller: loop {
        for case in failure.case.smaller() {
            tries += 1;
            if tries > TRIES {
                return failure;
            }
            watch.begin(format!("{case:#?}"));
            if let Err(why) = attempt(&case) {
                failure = Failure { case, why };
                continue 'smaller;
            }
        }
        return failure;
    }
}

/// The list without some of its items: halves, quarters, and so on down to single ones.
pub(crate) fn without_some<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    let lengths = std::iter::successors(Some(items.len()), |&length| Some(length / 2));
    lengths
        .take_while(|&length| length > 0)
        .flat_map(move |length| {
            let starts = (0..items.len()).step_by(length);
            starts.map(move |start| {
                let end = items.len().min(start + length);
                [&items[..start], &items[end..]].concat()
            })
        })
}

/// The list with one item replaced by each of its `simpler` ones.
pub(crate) fn with_one_simpler<T: Clone>(
    items: &[T],
    simpler: impl Fn(&T) -> Vec<T>,
) -> impl Iterator<Item = Vec<T>> {
    let places = items.iter().enumerate();
    places.flat_map(move |(place, item)| {
        simpler(item).into_iter().map(move |simple| {
            let mut items = items.to_vec();
            items[place] = simple;
            items
        })
    })
}

/// Smaller numbers: nothing, a millisecond, round ones, and then closer and closer to it.
pub(crate) fn smaller_numbers(number: u64) -> Vec<u64> {
    let mut smaller = vec![0, 1, 1_000_000, 10_000_000];
    smaller.extend([1_000_000_000, 1_000_000, 1_000].map(|unit| number / unit * unit));
    let steps = std::iter::successors(Some(number / 2), |step| Some(step / 2));
    smaller.extend(steps.take_while(|&step| step > 0).map(|step| number - step));
    smaller.retain(|&less| less < number);
    smaller.dedup();
    smaller
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` without a word on its panics.
pub(crate) fn quiet<R>(f: impl FnOnce() -> R) -> R {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let result = f();
    QUIET.set(before);
    result
}

/// Ends the process, with a word on what it was doing, when a case takes for ever.
struct Watch(Sender<String>);

impl Watch {
    fn start() -> Watch {
        let (begin, news) = mpsc::channel::<String>();
        thread::spawn(move || {
            let mut current = String::new();
            loop {
                match news.recv_timeout(WATCHDOG) {
                    Ok(next) => current = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("this takes for ever: {current}");
                        thread::sleep(ms(100));
                        std::process::abort();
                    }
                }
            }
        });
        Watch(begin)
    }

    fn begin(&self, what: String) {
        self.0.send(what).expect("the watch lives as long as this");
    }
}
