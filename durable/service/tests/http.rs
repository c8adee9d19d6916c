//! The service over real HTTP, with a receiver of its calls.

mod common;

use std::time::{Duration, Instant};

use common::{Folder, HOUR, keys, receiver};
use delay_queue_service::harness::{eventually, most_in_a_second};
use serde_json::{Value, json};

#[test]
fn a_job_is_called_at_its_time_with_its_payload() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let before = Instant::now();
    let made = service
        .post(&json!({ "callback": receiver.url("/a?b=c"), "delay_ms": 300, "payload": { "n": [1, "ü"] }, "key": "k:1" }))
        .unwrap();
    assert_eq!(
        (&made["key"], &made["result"]),
        (&json!("k:1"), &json!("new"))
    );
    assert!(receiver.wait(|calls| !calls.is_empty()));
    let call = &receiver.calls()[0];
    assert!(call.at - before >= Duration::from_millis(300), "early");
    assert_eq!((call.path.as_str(), call.key.as_str()), ("/a?b=c", "k:1"));
    assert_eq!(call.body, json!({ "n": [1, "ü"] }));
    assert_eq!((json!(call.id), call.attempt), (made["id"].clone(), 1));
    eventually("it is forgotten", || Ok(service.pending()?.is_empty())).unwrap();
    assert_eq!(receiver.calls().len(), 1);
}

#[test]
fn a_moment_of_the_past_is_called_at_once_and_a_key_is_made_up() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let made = service
        .post(&json!({ "callback": receiver.url("/"), "at_ms": 1000 }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 1));
    let call = &receiver.calls()[0];
    assert_eq!(
        (json!(call.key), &call.body),
        (made["key"].clone(), &Value::Null)
    );
    assert!(call.key.starts_with("job-"));
}

#[test]
fn jobs_are_listed_moved_replaced_and_cancelled() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let job = |key: &str, delay: u64| json!({ "callback": receiver.url("/"), "delay_ms": delay, "key": key, "payload": key });
    for (key, delay) in [("c", 3), ("a", 1), ("b/?&ü #", 2), ("..", 4)] {
        service.post(&job(key, delay * HOUR)).unwrap();
    }
    let jobs = service.pending().unwrap();
    assert_eq!(keys(&jobs), ["a", "b/?&ü #", "c", ".."]);
    assert_eq!(
        (&jobs[0]["state"], &jobs[0]["failed"]),
        (&json!("waiting"), &json!(0))
    );
    assert_eq!(
        (&jobs[0]["callback"], &jobs[0]["payload"]),
        (&json!(receiver.url("/")), &json!("\"a\""))
    );
    let (_, body) = service.ask("GET", "/jobs?limit=2", None).unwrap();
    assert_eq!(
        (&body["pending"], body["jobs"].as_array().unwrap().len()),
        (&json!(4), 2)
    );

    // A key that waits is a conflict, unless it is to be replaced.
    let mut other = job("a", HOUR);
    other["payload"] = json!("b");
    let (status, body) = service.ask("POST", "/jobs", Some(&other)).unwrap();
    assert_eq!(status, 409, "{body}");
    assert!(body["error"].as_str().unwrap().contains("\"a\""), "{body}");
    let mut replacement = job("a", 9 * HOUR);
    replacement["replace"] = json!(true);
    let (status, body) = service.ask("POST", "/jobs", Some(&replacement)).unwrap();
    assert_eq!((status, &body["result"]), (200, &json!("replaced")));

    let awkward = "/jobs?key=b%2F%3F%26%C3%BC+%23";
    let (status, body) = service
        .ask("PATCH", awkward, Some(&json!({ "delay_ms": 20 * HOUR })))
        .unwrap();
    assert_eq!((status, &body["key"]), (200, &json!("b/?&ü #")));
    assert_eq!(
        keys(&service.pending().unwrap()),
        ["c", "..", "a", "b/?&ü #"]
    );
    for path in [awkward, "/jobs?key=..", "/jobs?key=a"] {
        assert_eq!(service.ask("DELETE", path, None).unwrap().0, 200, "{path}");
        assert_eq!(service.ask("DELETE", path, None).unwrap().0, 404, "{path}");
    }
    // To now: it is called, and nothing that was cancelled is.
    let (status, _) = service
        .ask("PATCH", "/jobs?key=c", Some(&json!({ "delay_ms": 0 })))
        .unwrap();
    assert_eq!(status, 200);
    assert!(receiver.wait(|calls| calls.iter().any(|call| call.key == "c")));
    eventually("nothing is left", || Ok(service.pending()?.is_empty())).unwrap();
    assert_eq!(receiver.calls().len(), 1);
    let (status, body) = service
        .ask("PATCH", "/jobs?key=c", Some(&json!({ "delay_ms": 0 })))
        .unwrap();
    assert_eq!(status, 404, "{body}");
}

#[test]
fn failures_are_tried_again_with_back_off() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--backoff", "200", "10000"]);
    service
        .post(&json!({ "callback": receiver.url("/twice"), "delay_ms": 0, "key": "k" }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 1));
    eventually("it waits for its second attempt", || {
        let jobs = service.pending()?;
        Ok(receiver.calls().len() > 1
            || jobs
                .iter()
                .any(|job| job["state"] == "retrying" && job["failed"] == 1))
    })
    .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 3));
    let calls = receiver.calls();
    let attempts: Vec<u32> = calls.iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(calls.iter().all(|call| call.id == calls[0].id));
    // 200 ms and 400 ms, each shortened by up to a half.
    assert!(calls[1].began - calls[0].began >= 100, "{calls:?}");
    assert!(calls[2].began - calls[1].began >= 200, "{calls:?}");
    eventually("it is done", || Ok(service.pending()?.is_empty())).unwrap();
    assert!(service.dead().unwrap().is_empty());
}

#[test]
fn what_gives_up_is_a_dead_letter_that_can_be_revived_and_discarded() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--attempts", "2", "--backoff", "10", "10"]);
    for key in ["a", "b"] {
        service.post(&json!({ "callback": receiver.url("/fail"), "delay_ms": 0, "key": key, "payload": 7 })).unwrap();
    }
    eventually("both give up", || Ok(service.dead()?.len() == 2)).unwrap();
    let dead = service.dead().unwrap();
    let of = |key: &str| dead.iter().find(|job| job["key"] == key).unwrap();
    assert_eq!(
        (&of("a")["failed"], &of("a")["payload"]),
        (&json!(2), &json!("7"))
    );
    assert!(
        of("a")["error"].as_str().unwrap().contains("500"),
        "{dead:?}"
    );
    assert_eq!(receiver.of_key("a").len(), 2);
    assert!(service.pending().unwrap().is_empty());

    let path = |key: &str| format!("/dead/{}", of(key)["dead"].as_str().unwrap());
    let (status, body) = service.ask("POST", &path("a"), None).unwrap();
    assert_eq!((status, &body["result"]), (200, &json!("revived")));
    eventually("it is tried as often again", || {
        Ok(receiver.of_key("a").len() == 4)
    })
    .unwrap();
    assert_eq!(service.ask("DELETE", &path("b"), None).unwrap().0, 200);
    assert_eq!(service.ask("DELETE", &path("b"), None).unwrap().0, 404);
    assert_eq!(service.ask("POST", &path("b"), None).unwrap().0, 404);
    eventually("a is back", || Ok(keys(&service.dead()?) == ["a"])).unwrap();
    assert_eq!(receiver.of_key("b").len(), 2);
}

#[test]
fn nobody_there_is_a_failure_with_its_reason() {
    let folder = Folder::new();
    let service = folder.start(&["--attempts", "1"]);
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let callback = format!("http://localhost:{port}/");
    service
        .post(&json!({ "callback": callback, "delay_ms": 0 }))
        .unwrap();
    eventually("it gives up", || Ok(service.dead()?.len() == 1)).unwrap();
    let error = service.dead().unwrap()[0]["error"].to_string();
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

#[test]
fn a_receiver_that_does_not_answer_is_left_and_the_others_are_served() {
    let folder = Folder::new();
    let service = folder.start(&["--attempts", "1", "--timeout", "700", "--rate", "1000"]);
    // Accepts and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let callback = format!("http://{}/", silent.local_addr().unwrap());
    for _ in 0..50 {
        service
            .post(&json!({ "callback": callback, "delay_ms": 0 }))
            .unwrap();
    }
    let receiver = receiver();
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": 0 }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 1));
    eventually("the first ones time out", || {
        Ok(!service.dead()?.is_empty())
    })
    .unwrap();
    let error = service.dead().unwrap()[0]["error"].to_string();
    assert!(error.contains("no answer within 700ms"), "{error}");
}

#[test]
fn a_host_gets_no_more_calls_a_second_than_its_rate_and_none_is_charged_for_waiting() {
    let (folder, one, other) = (Folder::new(), receiver(), receiver());
    let service = folder.start(&["--rate", "20", "--attempts", "2"]);
    for number in 0..50 {
        service
            .post(&json!({ "callback": one.url("/"), "delay_ms": 0, "key": format!("{number}") }))
            .unwrap();
    }
    // Another host does not wait for it.
    service
        .post(&json!({ "callback": other.url("/"), "delay_ms": 0 }))
        .unwrap();
    assert!(other.wait(|calls| !calls.is_empty()));
    assert!(one.calls().len() < 50);
    assert!(one.wait(|calls| calls.len() == 50));
    let calls = one.calls();
    assert!(
        most_in_a_second(&calls) <= 20,
        "{}",
        most_in_a_second(&calls)
    );
    assert!(calls.iter().all(|call| call.attempt == 1));
    let mut keys: Vec<&str> = calls.iter().map(|call| call.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 50, "each once");
    let took = calls.iter().map(|call| call.at).max().unwrap()
        - calls.iter().map(|call| call.at).min().unwrap();
    assert!(took >= Duration::from_millis(1500), "{took:?}");
}

#[test]
fn what_waits_for_its_turn_can_be_moved_and_cancelled() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--rate", "1"]);
    for number in 0..10 {
        service.post(&json!({ "callback": receiver.url("/"), "delay_ms": 0, "key": format!("{number}") })).unwrap();
    }
    let mut queued = Vec::new();
    eventually("most are queued", || {
        let jobs = service.pending()?;
        queued = jobs
            .into_iter()
            .filter(|job| job["state"] == "queued")
            .collect();
        Ok(queued.len() >= 6)
    })
    .unwrap();
    let last = keys(&queued)[queued.len() - 1].to_owned();
    assert_eq!(
        service
            .ask("DELETE", &format!("/jobs?key={last}"), None)
            .unwrap()
            .0,
        200
    );
    let before = keys(&queued)[queued.len() - 2].to_owned();
    let (status, _) = service
        .ask(
            "PATCH",
            &format!("/jobs?key={before}"),
            Some(&json!({ "delay_ms": HOUR })),
        )
        .unwrap();
    assert_eq!(status, 200);
    eventually(
        "the others are called",
        || Ok(service.pending()?.len() == 1),
    )
    .unwrap();
    assert_eq!(receiver.calls().len(), 8);
    assert!(receiver.of_key(&last).is_empty() && receiver.of_key(&before).is_empty());
}

#[test]
fn nothing_is_lost_by_a_kill() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--rate", "1000"]);
    for number in 0..60_u64 {
        service
            .post(&json!({ "callback": receiver.url("/"), "delay_ms": 20 * number, "key": format!("{number}") }))
            .unwrap();
    }
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": HOUR, "key": "far" }))
        .unwrap();
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": HOUR, "key": "cancelled" }))
        .unwrap();
    assert_eq!(
        service
            .ask("DELETE", "/jobs?key=cancelled", None)
            .unwrap()
            .0,
        200
    );
    assert!(receiver.wait(|calls| calls.len() >= 5));
    service.kill().unwrap();

    let service = folder.start(&["--rate", "1000"]);
    // Still listed.
    let jobs = service.pending().unwrap();
    assert!(keys(&jobs).contains(&"far") && !keys(&jobs).contains(&"cancelled"));
    eventually("all are called", || {
        Ok((0..60).all(|number| !receiver.of_key(&number.to_string()).is_empty()))
    })
    .unwrap();
    eventually("only the far one is left", || {
        Ok(keys(&service.pending()?) == ["far"])
    })
    .unwrap();
    // Called again: only what was under way at the kill, and under the same id.
    for number in 0..60 {
        let calls = receiver.of_key(&number.to_string());
        assert!(calls.iter().all(|call| call.id == calls[0].id));
        assert!(calls.len() <= 2, "{calls:?}");
    }
}

#[test]
fn a_second_service_on_the_same_file_is_refused() {
    let folder = Folder::new();
    let _service = folder.start(&[]);
    let file = folder.0.join("jobs.redb");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_delay-queue-service"))
        .args(["--listen", "127.0.0.1:0", "--log", "off", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains(&file.display().to_string()), "{said}");
}

#[test]
fn bad_input_is_named_with_what_is_allowed() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let ok = receiver.url("/");
    let too_late = 3653_u64 * 86_400_000 + 1;
    for (body, words) in [
        (
            json!({ "callback": ok, "delay_ms": -1 }),
            "delay_ms is -1: it must be a whole number from 0 to",
        ),
        (
            json!({ "callback": ok, "delay_ms": 1.5 }),
            "delay_ms is 1.5",
        ),
        (
            json!({ "callback": ok, "delay_ms": too_late }),
            "0 to 315619200000",
        ),
        (json!({ "callback": ok, "delay_ms": "5" }), "the body: "),
        (
            json!({ "callback": ok, "at_ms": u64::MAX }),
            "at_ms is 18446744073709551615",
        ),
        (json!({ "callback": ok }), "delay_ms or at_ms is missing"),
        (json!({ "callback": ok, "delay_ms": 1, "at_ms": 1 }), "both"),
        (json!({ "delay_ms": 1 }), "callback is missing"),
        (
            json!({ "callback": "ftp://127.0.0.1/", "delay_ms": 1 }),
            "must begin with http:// or https://",
        ),
        (json!({ "callback": ok, "delay_ms": 1, "key": "" }), "key"),
        (
            json!({ "callback": ok, "delay_ms": 1, "key": "x".repeat(513) }),
            "512",
        ),
        (
            json!({ "callback": ok, "delay_ms": 1, "dely_ms": 1 }),
            "dely_ms",
        ),
        (json!([]), "the body has 0 jobs"),
    ] {
        let (status, answer) = service.ask("POST", "/jobs", Some(&body)).unwrap();
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(
            answer["error"].as_str().unwrap().contains(words),
            "{body}: {answer}"
        );
    }
    assert!(service.pending().unwrap().is_empty() && receiver.calls().is_empty());
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let folder = Folder::new();
    let service = folder.start(&[]);
    let json_type = "Content-Type: application/json\r\n";
    for (method, path, headers, body, wanted, words) in [
        ("POST", "/jobs", json_type, "{", 400, "the body: EOF"),
        (
            "POST",
            "/jobs",
            "Content-Type: text/plain\r\n",
            "{}",
            415,
            "application/json",
        ),
        ("PATCH", "/jobs", json_type, "{}", 400, "key is missing"),
        (
            "PATCH",
            "/jobs?key=a",
            json_type,
            "{\"delay_ms\":1,\"payload\":2}",
            400,
            "only delay_ms",
        ),
        (
            "PATCH",
            "/jobs?key=a",
            json_type,
            "{\"delay_ms\":1}",
            404,
            "\"a\"",
        ),
        ("DELETE", "/jobs?key=", "", "", 400, "key"),
        ("DELETE", "/jobs?kee=a", "", "", 400, "\"kee\""),
        ("GET", "/jobs?limit=0", "", "", 400, "1 to 500"),
        ("GET", "/dead?limit=501", "", "", 400, "1 to 500"),
        ("POST", "/dead/x", "", "", 400, "\"x\""),
        ("POST", "/dead/7", "", "", 404, "no dead letter 7"),
        ("GET", "/nothing", "", "", 404, "/nothing"),
        ("PUT", "/jobs", "", "", 405, "method"),
        ("GET", "/jobs", "Host: evil.test\r\n", "", 403, "evil.test"),
        (
            "DELETE",
            "/jobs?key=a",
            "Origin: http://evil.test\r\n",
            "",
            403,
            "origin",
        ),
    ] {
        let (status, answer) = service.send(method, path, headers, body).unwrap();
        let case = format!("{method} {path} {headers:?}: {status} {answer}");
        assert_eq!(status, wanted, "{case}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{case}");
    }
}

#[test]
fn a_payload_that_is_too_large_is_refused() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let ok = receiver.url("/");
    for length in [(64 << 10) + 1, 10 << 20] {
        let body = json!({ "callback": ok, "delay_ms": 1, "payload": "x".repeat(length) });
        let (status, answer) = service.ask("POST", "/jobs", Some(&body)).unwrap();
        assert_eq!(status, 413, "{answer}");
        assert!(
            answer["error"].as_str().unwrap().contains("65536"),
            "{answer}"
        );
    }
    assert!(service.pending().unwrap().is_empty() && receiver.calls().is_empty());
}

#[test]
fn the_largest_payload_arrives() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let payload = json!("x".repeat((64 << 10) - 2));
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": 0, "payload": payload }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 1));
    assert_eq!(receiver.calls()[0].body, payload);
}

#[test]
fn posting_twice_under_a_key_is_posting_once() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let job = json!({ "callback": receiver.url("/"), "delay_ms": HOUR, "key": "k", "payload": 1, "headers": { "X-A": "b" } });
    let made = service.post(&job).unwrap();
    let (status, again) = service.ask("POST", "/jobs", Some(&job)).unwrap();
    assert_eq!((status, &again["result"]), (200, &json!("kept")));
    assert_eq!(again["id"], made["id"]);
    // Something else under the same key is no repetition.
    for (field, value) in [
        ("payload", json!(2)),
        ("callback", json!(receiver.url("/other"))),
        ("headers", json!({})),
    ] {
        let mut other = job.clone();
        other[field] = value;
        let (status, body) = service.ask("POST", "/jobs", Some(&other)).unwrap();
        assert_eq!(
            (status, &body["result"], &body["id"]),
            (409, &json!("conflict"), &made["id"]),
            "{field}"
        );
    }
    assert_eq!(service.pending().unwrap().len(), 1);
}

#[test]
fn jobs_are_found_by_key_by_text_and_in_pages() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    for number in 0..25 {
        let path = if number % 5 == 0 { "/bills" } else { "/orders" };
        let job = json!({ "callback": receiver.url(path), "delay_ms": HOUR, "key": format!("job {number:02}") });
        service.post(&job).unwrap();
    }
    let list = |query: &str| {
        service
            .ask("GET", &format!("/jobs?{query}"), None)
            .unwrap()
            .1
    };
    let (mut after, mut seen) = (json!("0"), Vec::new());
    while let Some(number) = after.as_str() {
        let page = list(&format!("limit=10&after={number}"));
        let jobs = page["jobs"].as_array().unwrap().clone();
        assert!(jobs.len() <= 10);
        seen.extend(keys(&jobs).iter().map(|key| (*key).to_owned()));
        after = page["next"].clone();
    }
    assert_eq!(
        seen,
        (0..25)
            .map(|number| format!("job {number:02}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(list("search=bills")["jobs"].as_array().unwrap().len(), 5);
    assert_eq!(list("search=job%201")["jobs"].as_array().unwrap().len(), 10);
    let found = list("key=job%2007");
    assert_eq!(keys(found["jobs"].as_array().unwrap()), ["job 07"]);
    let id = found["jobs"][0]["id"].as_str().unwrap();
    assert_eq!(
        list(&format!("search={id}"))["jobs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(
        list("search=nothing")["jobs"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    for query in ["search=", "after=x", "after=-1", "limit=1&limit=2"] {
        let (status, body) = service.ask("GET", &format!("/jobs?{query}"), None).unwrap();
        assert_eq!(status, 400, "{query}: {body}");
    }
}

#[test]
fn dead_letters_are_found_revived_and_discarded_together() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--attempts", "1", "--rate", "1000"]);
    for number in 0..12 {
        let job = json!({ "callback": receiver.url("/fail"), "delay_ms": 0, "key": format!("{}:{number}", ["bill", "order"][number % 2]) });
        service.post(&job).unwrap();
    }
    eventually("all have failed", || Ok(service.dead()?.len() == 12)).unwrap();
    let page = service
        .ask("GET", "/dead?limit=5&search=bill", None)
        .unwrap()
        .1;
    assert_eq!(page["dead"].as_array().unwrap().len(), 5);
    let rest = format!("/dead?search=bill&after={}", page["next"].as_str().unwrap());
    let rest = service.ask("GET", &rest, None).unwrap().1;
    assert_eq!(
        (rest["dead"].as_array().unwrap().len(), &rest["next"]),
        (1, &Value::Null)
    );

    for path in [
        "/dead",
        "/dead?all=false",
        "/dead?search=x",
        "/dead?all=yes",
        "/dead?limit=5&all=true",
    ] {
        assert_eq!(service.ask("DELETE", path, None).unwrap().0, 400, "{path}");
        assert_eq!(service.ask("POST", path, None).unwrap().0, 400, "{path}");
    }
    let (status, body) = service
        .ask("DELETE", "/dead?all=true&search=bill", None)
        .unwrap();
    assert_eq!((status, &body["count"]), (200, &json!(6)));
    let (status, body) = service
        .ask("POST", "/dead?all=true&key=order:1", None)
        .unwrap();
    assert_eq!(
        (status, &body["result"], &body["count"]),
        (200, &json!("revived"), &json!(1))
    );
    eventually("it has failed again", || {
        Ok(receiver.of_key("order:1").len() == 2 && service.dead()?.len() == 6)
    })
    .unwrap();
    assert_eq!(
        service.ask("POST", "/dead?all=true", None).unwrap().1["count"],
        6
    );
    eventually("all have failed again", || Ok(service.dead()?.len() == 6)).unwrap();
    assert_eq!(
        service.ask("DELETE", "/dead?all=true", None).unwrap().1["count"],
        6
    );
    assert!(service.dead().unwrap().is_empty() && service.pending().unwrap().is_empty());
}

#[test]
fn many_jobs_are_posted_at_once_all_or_none() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--rate", "10000"]);
    let job = |key: &str, delay: u64| json!({ "callback": receiver.url("/"), "delay_ms": delay, "key": key });
    let post = |jobs: Vec<Value>| {
        service
            .ask("POST", "/jobs", Some(&Value::Array(jobs)))
            .unwrap()
    };
    let (status, body) = post(
        (0..300)
            .map(|number| job(&format!("{number}"), 10 * number))
            .collect(),
    );
    assert_eq!(
        (status, body["results"].as_array().unwrap().len()),
        (200, 300),
        "{body}"
    );
    assert_eq!(body["results"][7]["key"], "7");
    assert!(
        body["results"]
            .as_array()
            .unwrap()
            .iter()
            .all(|result| result["result"] == "new")
    );
    assert!(receiver.wait(|calls| calls.len() == 300));
    // One that is wrong keeps all of them out.
    let (status, body) = post(vec![
        job("a", HOUR),
        json!({ "callback": receiver.url("/"), "delay_ms": -1 }),
        job("b", HOUR),
    ]);
    assert_eq!((status, &body["job"]), (400, &json!(1)), "{body}");
    assert!(
        body["error"]
            .as_str()
            .unwrap()
            .starts_with("job 1: delay_ms is -1"),
        "{body}"
    );
    let (status, _) = post(vec![job("a", HOUR), job(&"x".repeat(600), HOUR)]);
    assert_eq!(status, 400);
    eventually("nothing waits", || Ok(service.pending()?.is_empty())).unwrap();
    // Each has its own result.
    let mut other = job("c", HOUR);
    other["payload"] = json!(1);
    let (status, body) = post(vec![job("c", HOUR), job("c", HOUR), other]);
    let results: Vec<&str> = body["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|result| result["result"].as_str())
        .collect();
    assert_eq!((status, results), (200, vec!["new", "kept", "conflict"]));
    for jobs in [
        vec![],
        (0..1001)
            .map(|number| job(&format!("{number}"), HOUR))
            .collect(),
    ] {
        assert_eq!(post(jobs).0, 400);
    }
}

#[test]
fn a_recurring_job_comes_again_until_it_is_cancelled() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--rate", "1000"]);
    let job = json!({ "callback": receiver.url("/"), "delay_ms": 200, "key": "r", "every_ms": 1000, "payload": 7 });
    service.post(&job).unwrap();
    assert_eq!(
        service.ask("POST", "/jobs", Some(&job)).unwrap().1["result"],
        "kept"
    );
    assert!(receiver.wait(|calls| calls.len() >= 2));
    // A kill does not end it.
    service.kill().unwrap();
    let service = folder.start(&["--rate", "1000"]);
    assert!(receiver.wait(|calls| calls.len() >= 4));
    let calls = receiver.calls();
    let mut ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() >= 3, "each run has an id of its own: {ids:?}");
    assert!(
        calls
            .iter()
            .all(|call| call.body == json!(7) && call.key.starts_with("r@"))
    );
    let listed = service.ask("GET", "/jobs?key=r", None).unwrap().1;
    assert_eq!(
        (&listed["jobs"][0]["every_ms"], &listed["jobs"][0]["failed"]),
        (&json!(1000), &json!(0))
    );
    assert_eq!(service.ask("DELETE", "/jobs?key=r", None).unwrap().0, 200);
    eventually("nothing waits", || Ok(service.pending()?.is_empty())).unwrap();
    let mut bad = job.clone();
    bad["every_ms"] = json!(999);
    let (status, body) = service.ask("POST", "/jobs", Some(&bad)).unwrap();
    assert_eq!(
        (status, &body["field"]),
        (400, &json!("every_ms")),
        "{body}"
    );
}
