//! Run by `cargo test --example watch`. The page is tested in a browser, by `test_page.py`.

use super::*;
use std::sync::mpsc;

fn serving() -> (SocketAddr, Arc<Show>) {
    let listener = listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    (address, start(listener).unwrap())
}

/// Sends bytes, and reads the answer to its end.
fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn value(state: &str, name: &str) -> u64 {
    let (_, rest) = state.split_once(&format!("\"{name}\":")).unwrap();
    let end = rest.find([',', '}']).unwrap();
    rest[..end].parse().unwrap()
}

/// All that the picture shows.
fn shown(state: &str) -> u64 {
    let (_, rest) = state.split_once("\"rows\":[").unwrap();
    let (rows, _) = rest.split_once("]]").unwrap();
    let numbers = rows.split(|char: char| !char.is_ascii_digit());
    numbers.filter_map(|text| text.parse::<u64>().ok()).sum()
}

#[test]
fn the_picture_shows_what_is_pending() {
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let (_, show) = serving();
        show.replace(Some(kind), None).unwrap();
        show.act("/burst").unwrap();
        let running = lock(&show.running);
        // Nothing is scheduled while the lock is held, but some may fire.
        let before = running.handle.stats();
        let state = draw(&running);
        let after = running.handle.stats();
        assert_eq!(before.scheduled, BURST as u64);
        assert_eq!(value(&state, "scheduled"), BURST as u64);
        assert!((after.pending..=before.pending).contains(&shown(&state)));
    }
}

#[test]
fn what_is_pending_is_shown_by_its_label() {
    let running = Running::new(Kind::Hashed, 50).unwrap();
    for (label, delay) in [("load", 60), ("burst", 60), ("load", 90)] {
        running.schedule(label, Duration::from_secs(delay)).unwrap();
    }
    let state = draw(&running);
    assert!(
        state.contains(r#","labels":{"burst": 1, "load": 2},"#),
        "{state}"
    );
}

#[test]
fn the_numbers_add_up() {
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let (_, show) = serving();
        show.replace(Some(kind), None).unwrap();
        show.act("/burst").unwrap();
        let running = lock(&show.running);
        // The timer fires all the while.
        while running.handle.stats().expired < 1_000 {
            thread::sleep(Duration::from_millis(1));
        }
        let state = draw(&running);
        let [scheduled, expired, cancelled, pending] =
            ["scheduled", "expired", "cancelled", "pending"].map(|name| value(&state, name));
        assert_eq!(scheduled, expired + cancelled + pending);
        assert_eq!(shown(&state), pending);
    }
}

#[test]
fn a_class_of_the_histogram_begins_at_most_an_eighth_below_its_end() {
    let ends = [(0, 0), (7, 7), (1_023, 960), (54_525_951, 50_331_648)];
    for (latest, begin) in ends {
        let found = lower_end(Duration::from_nanos(latest));
        assert_eq!(found, Duration::from_nanos(begin), "{latest}");
    }
}

#[test]
fn the_hand_stops_while_the_timer_thread_is_blocked() {
    let (_, show) = serving();
    let running = lock(&show.running);
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let task = move |_: &Timeout| {
        begun.send(()).unwrap();
        let _ = released.recv();
    };
    running.handle.new_timeout(task, Duration::ZERO).unwrap();
    has_begun.recv().unwrap();
    running.schedule("load", Duration::ZERO).unwrap();
    let stopped_at = value(&draw(&running), "tick");
    while value(&draw(&running), "overdue") == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    let blocked = draw(&running);
    assert_eq!(value(&blocked, "tick"), stopped_at);
    assert_eq!(value(&blocked, "overdue"), 1);
    assert_eq!(shown(&blocked), 1);

    drop(release);
    while value(&draw(&running), "pending") > 0 {
        thread::sleep(Duration::from_millis(10));
    }
    let after = draw(&running);
    assert!(value(&after, "tick") > stopped_at);
    assert_eq!(value(&after, "overdue"), 0);
}

#[test]
fn while_nobody_looks_nothing_happens() {
    let (address, show) = serving();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(lock(&show.running).handle.stats().scheduled, 0);
    ask(address, "GET", "/").unwrap();
    assert_eq!(lock(&show.running).handle.stats().scheduled, 0);
    ask(address, "GET", "/state").unwrap();
    while lock(&show.running).handle.stats().scheduled == 0 {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_port_in_use_is_named() {
    let listener = listen(0).unwrap();
    let port = listener.local_addr().unwrap().port();
    let why = listen(port).unwrap_err();
    assert!(why.contains(&format!("port {port} is in use")), "{why}");
}

#[test]
fn a_second_viewer_sees_the_same_timer() {
    let (address, _) = serving();
    ask(address, "GET", "/state").unwrap();
    ask(address, "POST", "/burst").unwrap();
    thread::sleep(FRAME);
    let state = ask(address, "GET", "/state").unwrap();
    assert!(value(&state, "scheduled") >= BURST as u64, "{state}");
}

#[test]
fn a_viewer_may_go_away() {
    let (address, _) = serving();
    for request in ["", "GET /st", "GET /state HTTP/1.1\r\n\r\n"] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
        }
    }
    ask(address, "GET", "/state").unwrap();
}

#[test]
fn what_is_no_http_is_told_so() {
    let (address, _) = serving();
    let many = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &vec![b'a'; 20_000]].concat();
    let rows: [(&[u8], &str, &str); 9] = [
        (b"\x16\x03\x01\x02\x00\x01\x00", "400", "no HTTP/1 request"),
        (b"hello\n", "400", "no HTTP/1 request"),
        (b"GET /\r\n\r\n", "400", "no HTTP/1 request"),
        (b"GET / HTTP/1.1\r\n\xFF\r\n\r\n", "400", "no HTTP request"),
        (&many, "431", "8192 bytes"),
        (b"GET / HTTP/1.1\r\n", "408", "within 2s"),
        (b"GET /x HTTP/1.1\r\n\r\n", "404", "there is no /x here"),
        (b"PUT / HTTP/1.1\r\n\r\n", "405", "GET or POST"),
        (
            b"POST /tick?7 HTTP/1.1\r\n\r\n",
            "400",
            "`7` is no tick: one of [5, 10, 20, 50, 100, 200] ms",
        ),
    ];
    for (request, status, words) in rows {
        let answer = send(address, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains(words), "{answer}");
    }
    ask(address, "GET", "/state").unwrap();
}

#[test]
fn a_hundred_viewers_are_served_beside_connections_that_say_nothing() {
    let (address, show) = serving();
    let silent: Vec<_> = (0..REQUESTS + 20)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let viewers: Vec<_> = (0..100)
        .map(|_| {
            thread::spawn(move || {
                assert!(ask(address, "GET", "/").unwrap().contains("<svg"));
                for _ in 0..3 {
                    let state = ask(address, "GET", "/state").unwrap();
                    assert!(state.ends_with("]}"), "{state}");
                }
            })
        })
        .collect();
    for viewer in viewers {
        viewer.join().unwrap();
    }
    drop(silent);
    // The timer has not been held up for good.
    let (ran, has_run) = mpsc::channel();
    let task = move |_: &Timeout| ran.send(()).unwrap();
    let handle = lock(&show.running).handle.clone();
    handle.new_timeout(task, Duration::ZERO).unwrap();
    has_run.recv().unwrap();
}
