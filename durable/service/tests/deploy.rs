//! The files for whoever deploys it name options and variables that there are.

mod common;

use std::process::Command;

use common::Folder;
use delay_queue_service::harness::Service;

const UNIT: &str = include_str!("../deploy/delay-queue.service");
const IMAGE: &str = include_str!("../deploy/Dockerfile");
const CONFIG: &str = include_str!("../deploy/config.example");

/// The variables that a file sets, by name and value.
fn variables(text: &str) -> Vec<(&str, &str)> {
    text.split_whitespace()
        .filter_map(|word| {
            word.strip_prefix("Environment=")
                .unwrap_or(word)
                .split_once('=')
        })
        .filter(|(name, _)| name.starts_with("DELAY_QUEUE_"))
        .collect()
}

#[test]
fn the_unit_and_the_image_start_it() {
    for text in [UNIT, IMAGE] {
        let folder = Folder::new();
        folder.write("tokens", common::TOKEN);
        folder.write("signing-keys", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let mut command = Command::new(common::program());
        let found = variables(text);
        assert!(found.len() >= 3, "{found:?}");
        for (name, value) in found {
            let path = |file: &str| folder.path(file);
            let value = match value.rsplit_once('/') {
                Some((_, file)) => path(file),
                None => value.replace(":8085", ":0"),
            };
            command.env(name, value);
        }
        command.args(["--log", "error", "--listen", "127.0.0.1:0"]);
        let service = Service::spawn(&mut command).unwrap();
        assert_eq!(service.send("GET", "/jobs", "", "").unwrap().0, 401);
    }
}

#[test]
fn every_line_of_the_example_is_an_option() {
    let folder = Folder::new();
    // Those that are commented out, too, but for what excludes each other.
    let all: String = CONFIG
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| rest.contains(" = "))
                .unwrap_or(line)
        })
        .filter(|line| {
            !line.starts_with("listen = 0")
                && !line.starts_with("tls")
                && !line.starts_with("postgres")
        })
        .map(|line| line.replace(":8085", ":0") + "\n")
        .collect();
    let config = folder.write("config", &all);
    let file = folder.path("jobs.redb");
    let mut command = Command::new(common::program());
    let service =
        Service::spawn(command.args(["--config", &config, "--file", &file, "--log", "error"]))
            .unwrap();
    assert_eq!(
        service
            .send("GET", "/readyz", "Host: queue.example.org\r\n", "")
            .unwrap()
            .0,
        200
    );
}
