//! The places in the code of two threads, when one of them may wait for the other: the instruction and the return addresses on the
//! stack, as offsets into the files that they belong to. `addr2line -Cfe FILE OFFSET` names them.

use std::fmt::Write;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Words of the stack that are kept.
const WORDS: usize = 256;
/// Return addresses that are printed.
const FRAMES: usize = 24;

/// The registers of a thread, and the top of its stack, when a signal interrupted it.
pub(crate) struct Snapshot {
    taken: AtomicBool,
    instruction: AtomicUsize,
    stack: [AtomicUsize; WORDS],
}

impl Snapshot {
    pub(crate) const fn new() -> Snapshot {
        Snapshot {
            taken: AtomicBool::new(false),
            instruction: AtomicUsize::new(0),
            stack: [const { AtomicUsize::new(0) }; WORDS],
        }
    }

    /// For a handler: notes where the interrupted code is. Async-signal-safe.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(clippy::cast_sign_loss, reason = "registers hold addresses")
    )]
    pub(crate) fn take(&self, context: *mut libc::c_void) {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: the third argument of a handler with SA_SIGINFO is this.
            let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            let instruction = registers[libc::REG_RIP as usize] as usize;
            let stack = registers[libc::REG_RSP as usize] as usize as *const usize;
            self.instruction.store(instruction, Relaxed);
            for (place, word) in self.stack.iter().enumerate() {
                // SAFETY: above a thread's stack lies its control block, of more than 2 KiB.
                word.store(unsafe { stack.add(place).read_volatile() }, Relaxed);
            }
        }
        self.taken.store(true, SeqCst);
    }

    pub(crate) fn forget(&self) {
        self.taken.store(false, SeqCst);
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(SeqCst)
    }

    /// The instruction, and what may be return addresses, innermost first.
    pub(crate) fn describe(&self, name: &str) -> String {
        let code = Code::read();
        let mut text = format!(
            "{name}: {}",
            code.place(self.instruction.load(Relaxed))
                .unwrap_or_default()
        );
        let places = self
            .stack
            .iter()
            .filter_map(|word| code.place(word.load(Relaxed)));
        for place in places.take(FRAMES) {
            let _ = write!(text, " {place}");
        }
        text
    }
}

/// The executable mappings of this process, and where the file of each begins.
struct Code(Vec<(std::ops::Range<usize>, usize, String)>);

impl Code {
    fn read() -> Code {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mut begin = 0;
        let mut mapping = |line: &str| {
            let hex = |text: &str| usize::from_str_radix(text, 16).ok();
            let mut fields = line.split_whitespace();
            let (from, to) = fields.next()?.split_once('-')?;
            let executable = fields.next()?.contains('x');
            if hex(fields.next()?)? == 0 {
                begin = hex(from)?;
            }
            let file = fields.nth(2)?.to_owned();
            executable.then_some((hex(from)?..hex(to)?, begin, file))
        };
        Code(maps.lines().filter_map(&mut mapping).collect())
    }

    fn place(&self, address: usize) -> Option<String> {
        let (_, begin, file) = self.0.iter().find(|(range, ..)| range.contains(&address))?;
        let file = file.rsplit('/').next().unwrap_or(file);
        Some(format!("{file}+{:#x}", address - begin))
    }
}

/// The kernel's view of a thread: its state, the system call it is in, and what it waits for.
pub(crate) fn kernel(thread: i32) -> String {
    let read = |what: &str| {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/{what}"));
        text.unwrap_or_default().trim().to_owned()
    };
    let stat = read("stat");
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    format!(
        "state {}, syscall {}, waits in {}",
        state.unwrap_or_default(),
        read("syscall"),
        read("wchan")
    )
}
