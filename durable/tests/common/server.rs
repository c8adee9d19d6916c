//! A PostgreSQL server of one's own, for tests and programs: in a temporary folder, with a socket and no port.
//!
//! It ends with the process that started it, however that ends: a shell waits for the end of a pipe. PostgreSQL does not run as root; root starts it as the user
//! `postgres` or `nobody`.
#![allow(dead_code, reason = "not every program uses all of it")]

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

pub(crate) struct Server {
    bin: PathBuf,
    folder: PathBuf,
    /// Whom it runs as, if we are root.
    user: Option<(u32, u32)>,
    /// Closed at the end of this process, or of the server.
    lifeline: Option<ChildStdin>,
    /// Ends the server and removes its folder when the lifeline is closed.
    keeper: Child,
}

/// The folder with `initdb` and `pg_ctl`: of the path, or where Debian has it.
fn programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    versions.sort_by_key(|path| {
        path.file_name()
            .and_then(OsStr::to_str)?
            .parse::<u32>()
            .ok()
    });
    env::split_paths(&path)
        .chain(versions.into_iter().rev().map(|path| path.join("bin")))
        .find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists())
}

/// The numbers of a user that is not root.
fn other_user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].iter().find_map(|name| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

impl Server {
    /// `None`, and one line that says so, if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Server> {
        Server::start_in(&env::temp_dir(), &[])
    }

    /// In this folder, with settings of its own such as `fsync=off`.
    pub(crate) fn start_in(parent: &Path, settings: &[&str]) -> Option<Server> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(bin) = programs() else {
            // Not captured, as the output of a test would be.
            use io::Write;
            let _ = writeln!(
                io::stderr(),
                "PostgreSQL is not installed: what needs a server is skipped"
            );
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("durable-pg-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder can be made");
        let mut user = None;
        if fs::metadata(&folder).expect("it was just made").uid() == 0 {
            user = other_user();
            let (id, group) = user.expect("root needs a user postgres or nobody");
            chown(&folder, Some(id), Some(group)).expect("root may do this");
        }
        // In a group of its own: the signals of a terminal do not reach it.
        let mut keeper = command(Path::new("sh"), user, Path::new("/"))
            .arg("-c")
            .arg("read -r _; \"$0\" stop -s -m immediate -D \"$1/data\" 2>/dev/null; rm -rf \"$1\"")
            .args([bin.join("pg_ctl"), folder.clone()])
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell can be started");
        let server = Server {
            bin,
            folder,
            user,
            lifeline: keeper.stdin.take(),
            keeper,
        };
        let data = server.folder.join("data");
        server.run(
            "initdb",
            &[
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
            ],
            &data,
        );
        let mut text = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nmax_connections = 200\nautovacuum_naptime = 5s\n",
            server.folder.display()
        );
        for setting in settings {
            text += setting;
            text.push('\n');
        }
        let file = data.join("postgresql.auto.conf");
        fs::write(file, text).expect("its settings can be written");
        server.begin();
        Some(server)
    }

    /// One for all tests of a program.
    pub(crate) fn shared() -> Option<&'static Server> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(Server::start).as_ref()
    }

    fn run(&self, program: &str, arguments: &[&str], last: &Path) {
        let log = fs::File::create(self.folder.join(format!("{program}.out")))
            .expect("a log can be made");
        let status = command(&self.bin.join(program), self.user, &self.folder)
            .args(arguments)
            .arg(last)
            .stdout(log.try_clone().expect("a handle can be copied"))
            .stderr(log)
            .status();
        if !status.as_ref().is_ok_and(process::ExitStatus::success) {
            let said = fs::read_to_string(self.folder.join(format!("{program}.out")));
            panic!("{program} {arguments:?}: {status:?}: {said:?}");
        }
    }

    /// Starts it, and waits until it answers.
    pub(crate) fn begin(&self) {
        let log = self.folder.join("log");
        let log = log.to_str().expect("a plain path");
        self.run(
            "pg_ctl",
            &["start", "-s", "-w", "-l", log, "-D"],
            &self.folder.join("data"),
        );
    }

    /// Stops it: `fast`, or `immediate` as in a crash.
    pub(crate) fn end(&self, mode: &str) {
        self.run(
            "pg_ctl",
            &["stop", "-s", "-w", "-m", mode, "-D"],
            &self.folder.join("data"),
        );
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The connection string.
    pub(crate) fn url(&self) -> String {
        format!(
            "host={} user=postgres dbname=postgres",
            self.folder.display()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.keeper.wait();
    }
}

fn command(program: &Path, user: Option<(u32, u32)>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}
