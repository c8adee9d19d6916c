//! A signal that suspends one thread, and another that tells where the timer thread is.

use crate::evidence::{self, Snapshot};
use crate::world::{World, eventually};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::SeqCst;

/// The length of a suspension, in milliseconds.
pub(crate) const SUSPENSION: i32 = 200;

pub(crate) const NOT_SENT: u8 = 0;
pub(crate) const SUSPENDED: u8 = 1;
pub(crate) const RETURNED: u8 = 2;
/// The progress of the handler of the only signal under way.
pub(crate) static HANDLER: AtomicU8 = AtomicU8::new(NOT_SENT);
static SUSPENDED_AT: Snapshot = Snapshot::new();
static TIMER_AT: Snapshot = Snapshot::new();

/// Suspends the thread that it interrupts. All that it calls is async-signal-safe.
extern "C" fn suspend(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SUSPENDED_AT.take(context);
    // SAFETY: the pointer is that of this thread's `errno`, which `poll` may change under the interrupted code.
    let errno = unsafe { *libc::__errno_location() };
    HANDLER.store(SUSPENDED, SeqCst);
    // SAFETY: no descriptors are passed. It merely waits.
    unsafe { libc::poll(std::ptr::null_mut(), 0, SUSPENSION) };
    HANDLER.store(RETURNED, SeqCst);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Notes where the timer thread is.
extern "C" fn observe(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    TIMER_AT.take(context);
}

pub(crate) fn install_handlers() -> bool {
    install(libc::SIGUSR1, suspend) && install(libc::SIGUSR2, observe)
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn install(signal: libc::c_int, handler: Handler) -> bool {
    // SAFETY: all zero is a valid `sigaction`; its handler and mask are set before it is used, and the handler has
    // the signature that goes with SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// The places in the code of the suspended producer and of the timer thread.
pub(crate) fn evidence(world: &World) -> String {
    let timer = world.pulse.thread.load(SeqCst);
    let kernel = evidence::kernel(timer);
    TIMER_AT.forget();
    // SAFETY: only identifiers are passed.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), timer, libc::SIGUSR2) };
    eventually(|| TIMER_AT.is_taken());
    format!(
        "  the timer thread: {kernel}\n  {}\n  {}",
        TIMER_AT.describe("the timer thread is at"),
        SUSPENDED_AT.describe("the suspended one is at"),
    )
}
