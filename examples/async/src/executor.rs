//! Futures under any executor: tokio's, smol's, and one that is made by hand in forty lines.
//!
//! The futures of `hashed_wheel` know no runtime. What they need is a waker, and every executor has
//! one: the timer thread calls it when the time has come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};

/// A task for an executor.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that runs futures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// tokio, all on the calling thread.
    TokioCurrentThread,
    /// tokio with two worker threads.
    TokioMultiThread,
    /// smol's executor on the calling thread.
    Smol,
    /// The one of this module.
    HandMade,
}

impl Executor {
    /// Runs each future as a task of its own, until all have ended.
    ///
    /// # Panics
    /// If a task panics or the runtime cannot be started.
    pub fn run(self, futures: Vec<BoxFuture>) {
        match self {
            Executor::TokioCurrentThread => {
                // No `enable_time`: tokio's own timers are not needed.
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                run_on_tokio(&runtime.expect("a runtime"), futures);
            }
            Executor::TokioMultiThread => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(2).build();
                run_on_tokio(&runtime.expect("a runtime"), futures);
            }
            Executor::Smol => {
                let executor = smol::Executor::new();
                let tasks: Vec<_> = futures.into_iter().map(|f| executor.spawn(f)).collect();
                smol::block_on(executor.run(async {
                    for task in tasks {
                        task.await;
                    }
                }));
            }
            Executor::HandMade => HandMade::default().run(futures),
        }
    }
}

fn run_on_tokio(runtime: &tokio::runtime::Runtime, futures: Vec<BoxFuture>) {
    runtime.block_on(async {
        let tasks: Vec<_> = futures.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await.expect("a task that does not panic");
        }
    });
}

/// A queue of tasks that want to be polled.
#[derive(Debug, Default)]
struct HandMade(Arc<Ready>);

#[derive(Debug, Default)]
struct Ready {
    tasks: Mutex<VecDeque<usize>>,
    pushed: Condvar,
}

/// Puts its task into the queue when it is woken, from whatever thread.
struct TaskWaker {
    ready: Arc<Ready>,
    task: usize,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut tasks = self.ready.tasks.lock().expect("no panic under the lock");
        tasks.push_back(self.task);
        self.ready.pushed.notify_one();
    }
}

impl HandMade {
    fn run(&self, futures: Vec<BoxFuture>) {
        let mut left = futures.len();
        let mut tasks: Vec<_> = futures.into_iter().map(Some).collect();
        let wakers: Vec<Waker> = (0..left).map(|task| self.waker(task)).collect();
        wakers.iter().for_each(Waker::wake_by_ref);
        while left > 0 {
            let task = self.next();
            // One that has ended may be woken once more.
            if let Some(future) = &mut tasks[task] {
                let mut context = Context::from_waker(&wakers[task]);
                if future.as_mut().poll(&mut context).is_ready() {
                    tasks[task] = None;
                    left -= 1;
                }
            }
        }
    }

    fn waker(&self, task: usize) -> Waker {
        let ready = Arc::clone(&self.0);
        Waker::from(Arc::new(TaskWaker { ready, task }))
    }

    /// The next task that was woken, as soon as there is one.
    fn next(&self) -> usize {
        let mut tasks = self.0.tasks.lock().expect("no panic under the lock");
        loop {
            if let Some(task) = tasks.pop_front() {
                return task;
            }
            tasks = self.0.pushed.wait(tasks).expect("no panic under the lock");
        }
    }
}
