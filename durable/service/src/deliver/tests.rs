//! What a call that failed costs its job, and what names cost the others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Condvar, Mutex};

use hashed_wheel::HashedWheelTimer;
use serde_json::value::RawValue;

use super::*;
use crate::call::allowed::{Allowed, Rule};
use crate::call::resolve::Resolver;
use crate::harness::Receiver;
use crate::secrets::{Reloaded, SigningKeys};
use crate::tls;

/// Names that begin with `silent` have no answer until this is true.
static OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

fn lookup(name: &str) -> io::Result<Vec<IpAddr>> {
    let text = match name.split('.').next().unwrap_or_default() {
        "good" => return Ok(vec![Ipv4Addr::LOCALHOST.into()]),
        "unknown" => "Name or service not known",
        "empty" => return Ok(Vec::new()),
        "down" => "Temporary failure in name resolution",
        _ => {
            let open = OPEN.0.lock().unwrap();
            drop(OPEN.1.wait_while(open, |open| !*open).unwrap());
            "Temporary failure in name resolution"
        }
    };
    Err(io::Error::other(text))
}

struct Fixture {
    deliverer: Arc<Deliverer>,
    runtime: tokio::runtime::Runtime,
    _cut: watch::Sender<bool>,
    _wheel: HashedWheelTimer,
}

impl Fixture {
    fn new() -> Fixture {
        let wheel = HashedWheelTimer::builder()
            .tick_duration(Duration::from_millis(1))
            .build()
            .unwrap();
        wheel.start().unwrap();
        let rules = [Rule::host("*"), Rule::net("127.0.0.0/8")].map(Result::unwrap);
        let keys = Arc::new(Reloaded::open(&[], SigningKeys::load).unwrap());
        let allowed = Allowed::new(rules.to_vec(), &[]);
        let tls = tls::client(None).unwrap();
        let timeout = Duration::from_millis(500);
        let resolver = Resolver::with(64, lookup);
        let caller = Caller::new(allowed, resolver, wheel.handle(), tls, keys, timeout, 16);
        let (cut, cutting) = watch::channel(false);
        let deliverer = Arc::new(Deliverer {
            caller,
            hosts: Hosts::new(1000, 8, 512),
            names: Hosts::new(1000, 1, 128),
            put_off: PutOff::default(),
            metrics: Arc::default(),
            timer: wheel.handle(),
            cut: cutting,
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_io()
            .build()
            .unwrap();
        Fixture {
            deliverer,
            runtime,
            _cut: cut,
            _wheel: wheel,
        }
    }

    fn begin(&self, callback: &str) -> tokio::task::JoinHandle<End> {
        let payload = RawValue::from_string("1".to_owned()).unwrap();
        let due = Due {
            envelope: Envelope::new(
                callback.to_owned(),
                std::collections::BTreeMap::new(),
                payload,
            ),
            key: None,
            due: SystemTime::now(),
            attempt: 1,
        };
        let deliverer = Arc::clone(&self.deliverer);
        self.runtime
            .spawn(async move { deliverer.deliver(due).await })
    }

    fn deliver(&self, callback: &str) -> End {
        self.runtime.block_on(self.begin(callback)).unwrap()
    }
}

#[test]
fn what_the_receiver_does_is_charged_and_what_is_no_fault_of_it_is_not() {
    let fixture = Fixture::new();
    let receiver = Receiver::start(|call| if call.path == "/fail" { 500 } else { 200 }).unwrap();
    let port = receiver.address.port();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    for (callback, expected) in [
        (format!("http://good.example:{port}/"), Ok("")),
        (
            format!("http://good.example:{port}/fail"),
            Err("answered 500"),
        ),
        (
            format!("http://{}/", silent.local_addr().unwrap()),
            Err("no answer within"),
        ),
        (
            format!("http://{}/", closed.unwrap()),
            Err("cannot connect"),
        ),
        ("http://unknown.example/".to_owned(), Err("not known")),
        ("http://empty.example/".to_owned(), Err("no address")),
        ("http://down.example/".to_owned(), Ok("put off")),
    ] {
        let end = fixture.deliver(&callback);
        match expected {
            Ok("") => assert_eq!(end, End::Done, "{callback}"),
            Ok(_) => assert_eq!(end, End::PutOff(OWN_SIDE), "{callback}"),
            Err(words) => {
                assert!(
                    matches!(&end, End::Failed(reason) if reason.contains(words)),
                    "{callback}: {end:?}"
                );
            }
        }
    }
}

#[test]
fn names_without_an_answer_hold_up_no_other() {
    let fixture = Fixture::new();
    let receiver = Receiver::start(|_| 200).unwrap();
    let port = receiver.address.port();
    assert_eq!(
        fixture.deliver(&format!("http://good.example:{port}/")),
        End::Done
    );
    let begun: Vec<_> = (0..500)
        .map(|number| fixture.begin(&format!("http://silent.{}.example/", number % 100)))
        .collect();
    // Most of them wait for their turn, and hold no thread.
    let waits = |begun: &[tokio::task::JoinHandle<End>]| {
        begun.iter().filter(|one| !one.is_finished()).count()
    };
    while waits(&begun) > 64 {
        std::thread::yield_now();
    }
    // What was found is used, though nobody could look it up now; and addresses need no name.
    for host in ["good.example", "127.0.0.1"] {
        assert_eq!(
            fixture.deliver(&format!("http://{host}:{port}/")),
            End::Done,
            "{host}"
        );
    }
    *OPEN.0.lock().unwrap() = true;
    OPEN.1.notify_all();
    for one in begun {
        let end = fixture.runtime.block_on(one).unwrap();
        assert!(matches!(end, End::PutOff(_)), "{end:?}");
    }
}
