//! A way to the server that takes its time: what is said arrives later, in each direction.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// How late a sleep may end.
const LATE: Duration = Duration::from_micros(150);

/// Listens in a folder of its own below `parent`, and passes everything on to the server in `behind`. The folder.
pub(crate) fn start(parent: &Path, behind: &Path, round_trip: Duration) -> io::Result<PathBuf> {
    let name = format!("slow-{}-{}", std::process::id(), round_trip.as_micros());
    let folder = parent.join(name);
    fs::create_dir_all(&folder)?;
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432"))?;
    let behind = behind.join(".s.PGSQL.5432");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = UnixStream::connect(&behind) else {
                continue;
            };
            if let (Ok(back), Ok(there)) = (client.try_clone(), server.try_clone()) {
                pass(client, there, round_trip / 2);
                pass(server, back, round_trip / 2);
            }
        }
    });
    Ok(folder)
}

fn pass(mut from: UnixStream, mut to: UnixStream, delay: Duration) {
    let (sender, messages) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let at = Instant::now() + delay;
            if sender.send((at, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (at, message) in messages {
            // A sleep ends late.
            thread::sleep(at.saturating_duration_since(Instant::now() + LATE));
            while Instant::now() < at {
                thread::yield_now();
            }
            if to.write_all(&message).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
