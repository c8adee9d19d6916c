use super::*;
use std::collections::HashMap;
use std::fmt::Write as _;

fn parse(line: &str) -> Result<Command, String> {
    Options::parse(line.split_whitespace().map(str::to_owned))
}

fn options(command: Result<Command, String>) -> Options {
    match command {
        Ok(Command::Serve(options)) => *options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_are_read() {
    let read = options(parse(
        "--listen [::1]:0 --file x.redb --rate 5 --attempts 3 --backoff 10 20 --timeout=500 --allow-host Example.org \
         --allow-net 10.0.0.0/8 --grace 300 --public-origin https://Queue.example.org/ --log warn",
    ));
    assert!(read.listen.is_ipv6());
    assert_eq!((read.rate, read.attempts), (5, 3));
    assert_eq!(read.backoff.1, Duration::from_millis(20));
    assert_eq!(read.timeout, Duration::from_millis(500));
    assert_eq!(read.allowed.len(), 2);
    assert_eq!(read.public_origins, ["https://queue.example.org"]);
    assert_eq!(read.log, Level::Warn);
    assert_eq!(options(parse("")), Options::default());
}

#[test]
fn bad_values_are_named_with_their_range() {
    for (line, words) in [
        (
            "--rate 0",
            "--rate is \"0\": it must be a number from 1 to 100000",
        ),
        ("--rate x", "\"x\""),
        ("--rate", "needs a value"),
        ("--attempts 1001", "1 to 1000"),
        ("--backoff 20 10", "20ms is longer than 10ms"),
        ("--backoff 20", "needs a value"),
        ("--timeout 0", "1 to 600000"),
        ("--grace 99", "100 to 600000"),
        ("--listen 0.0.0.0:80", "needs --token-file"),
        ("--listen here", "\"here\""),
        ("--allow-host http://x", "without a scheme"),
        ("--allow-net 10.0.0.0/33", "10.0.0.0/33"),
        ("--tls-cert x", "needs --tls-key"),
        ("--tls-key x", "needs --tls-cert"),
        (
            "--public-origin queue.example.org",
            "https://queue.example.org",
        ),
        (
            "--public-origin https://queue.example.org/path",
            "https://queue.example.org",
        ),
        ("--log loud", "\"loud\""),
        ("--demo --rate 3", "does not take --rate"),
        ("--quick", "needs --demo"),
        ("--no-such-option", "unknown option"),
        ("--config /no/such/file", "/no/such/file"),
    ] {
        let problem = parse(line).expect_err(line);
        assert!(problem.contains(words), "{line}: {problem}");
    }
}

#[test]
fn every_option_can_stand_in_the_environment_and_in_a_file() {
    for spec in SPECS {
        let values = match spec.name {
            "listen" => "127.0.0.1:9",
            "public-origin" => "https://a.example",
            "backoff" => "5 7",
            "allow-net" => "10.0.0.0/8",
            "log" => "debug",
            "postgres" if !cfg!(feature = "postgres") => continue,
            _ => "500",
        };
        // One of a pair alone is refused.
        let pair = match spec.name {
            "tls-cert" => "tls-key",
            "tls-key" => "tls-cert",
            _ => "log",
        };
        let mut line: Vec<String> = vec![format!("--{}", spec.name)];
        line.extend(values.split(' ').map(str::to_owned));
        line.extend([format!("--{pair}"), "debug".to_owned()]);
        let by_line = options(Options::parse(line));

        let variable =
            |name: &str| format!("DELAY_QUEUE_{}", name.replace('-', "_").to_uppercase());
        let environment = HashMap::from([
            (variable(pair), "debug".to_owned()),
            (variable(spec.name), values.to_owned()),
        ]);
        let by_environment = options(Options::read([], &environment));
        assert_eq!(by_environment, by_line, "{}", spec.name);

        let name = format!("delay-queue-options-{}-{}", std::process::id(), spec.name);
        let file = std::env::temp_dir().join(name);
        let mut text = format!("# a remark\n\n{} = {values}\n", spec.name);
        if pair != spec.name && spec.name != "log" {
            let _ = writeln!(text, "{pair} = debug");
        }
        std::fs::write(&file, text).unwrap();
        let by_file = options(Options::parse([
            "--config".to_owned(),
            file.display().to_string(),
        ]));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(by_file, by_line, "{}", spec.name);
        assert_ne!(by_file, Options::default(), "{}", spec.name);
    }
}

#[test]
fn the_nearer_place_wins_and_lists_are_split() {
    let file = std::env::temp_dir().join(format!("delay-queue-order-{}", std::process::id()));
    std::fs::write(
        &file,
        "rate = 1\nattempts = 1\ntimeout = 1\nallow-host = a.example\nallow-host = b.example\n",
    )
    .unwrap();
    let environment = HashMap::from([
        ("DELAY_QUEUE_CONFIG".to_owned(), file.display().to_string()),
        ("DELAY_QUEUE_RATE".to_owned(), "2".to_owned()),
        ("DELAY_QUEUE_ATTEMPTS".to_owned(), "2".to_owned()),
        ("DELAY_QUEUE_TOKEN_FILE".to_owned(), "a, b".to_owned()),
    ]);
    let line = ["--rate".to_owned(), "3".to_owned()];
    let read = options(Options::read(line, &environment));
    std::fs::remove_file(&file).unwrap();
    assert_eq!((read.rate, read.attempts), (3, 2));
    assert_eq!(read.timeout, Duration::from_millis(1));
    assert_eq!(read.allowed.len(), 2);
    assert_eq!(read.token_files, [PathBuf::from("a"), PathBuf::from("b")]);
}

#[test]
fn what_kubernetes_sets_for_a_service_of_this_name_is_no_option() {
    let variables = |name: &str| HashMap::from([(name.to_owned(), "tcp://10.0.0.1:80".to_owned())]);
    for name in [
        "DELAY_QUEUE_PORT",
        "DELAY_QUEUE_PORT_8085_TCP_ADDR",
        "DELAY_QUEUE_SERVICE_HOST",
        "DELAY_QUEUE_SERVICE_PORT_HTTP",
    ] {
        assert_eq!(
            options(Options::read([], &variables(name))),
            Options::default(),
            "{name}"
        );
    }
    for name in ["DELAY_QUEUE_PORTS", "DELAY_QUEUE_RAET"] {
        assert!(Options::read([], &variables(name)).is_err(), "{name}");
    }
}

#[test]
fn no_option_is_called_like_what_kubernetes_sets() {
    for spec in SPECS {
        assert!(
            !spec.name.starts_with("port") && !spec.name.starts_with("service"),
            "{}",
            spec.name
        );
    }
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() {
    let file = std::env::temp_dir().join(format!("delay-queue-mistake-{}", std::process::id()));
    for (text, words) in [
        ("rate = 1\nrte = 2\n", "line 2: unknown option \"rte\""),
        ("rate\n", "line 1: it must be NAME = VALUE"),
        ("rate = 1\nrate = 2\n", "line 2: rate stands twice"),
        ("\nrate = x\n", "line 2: rate is \"x\""),
    ] {
        std::fs::write(&file, text).unwrap();
        let line = ["--config".to_owned(), file.display().to_string()];
        let problem = Options::parse(line).expect_err(text);
        assert!(problem.contains(words), "{text}: {problem}");
    }
    std::fs::remove_file(&file).unwrap();
}
