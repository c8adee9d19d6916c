//! The contestants: how each opens its store, stores a job and runs it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::child::handle;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Handlers at a time.
const HANDLERS: usize = 4;

pub(crate) trait Contestant: Send + Sync + Sized + 'static {
    /// Opens the store, and makes it if it is empty; with `work`, runs what is due.
    fn open(store: &str, work: bool) -> impl Future<Output = Result<Self>> + Send;

    /// Stores a job, which is durable when this is ready.
    fn schedule(&self, id: u64, delay: Duration) -> impl Future<Output = Result<()>> + Send;
}

/// This crate. A store that does not begin with `postgres:` is a file.
pub(crate) struct Own(Arc<hashed_wheel_durable::DurableTimer>);

impl Contestant for Own {
    async fn open(store: &str, work: bool) -> Result<Own> {
        let store = store.to_owned();
        let timer = tokio::task::spawn_blocking(move || {
            let mut builder = hashed_wheel_durable::DurableTimer::builder().threads(HANDLERS);
            if work {
                builder = builder.on("job", |job| {
                    handle(String::from_utf8_lossy(job.payload()).parse().unwrap_or(0));
                    hashed_wheel_durable::Outcome::Done
                });
            }
            if store.starts_with("postgres:") {
                builder.open_postgres(&store)
            } else {
                builder.open(&store)
            }
        });
        Ok(Own(Arc::new(timer.await??)))
    }

    async fn schedule(&self, id: u64, delay: Duration) -> Result<()> {
        let timer = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || timer.job("job").payload(id.to_string()).after(delay))
            .await??;
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Numbered {
    id: u64,
}

async fn run_apalis(job: Numbered) -> std::result::Result<(), apalis::prelude::BoxDynError> {
    tokio::task::block_in_place(|| handle(job.id));
    Ok(())
}

/// How often a worker of apalis looks, if it is told to.
const POLL: Duration = Duration::from_millis(100);

/// Runs a worker on this backend.
macro_rules! run_worker {
    ($backend:expr) => {{
        let worker = WorkerBuilder::new(worker_name())
            .backend($backend)
            .concurrency(HANDLERS)
            .parallelize(tokio::spawn)
            .build(run_apalis);
        // On a thread of its own: the compiler cannot see that this future may change its thread.
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            if let Err(error) = runtime.block_on(worker.run()) {
                eprintln!("apalis: {error}");
            }
        });
    }};
}

/// The name of a worker: one of the same name that was killed counts as alive for a while.
fn worker_name() -> String {
    format!("worker-{}", std::process::id())
}

/// With `POLLS`, it looks every 100 ms, as one of its examples does; without, as its first example.
pub(crate) struct ApalisSqlite<const POLLS: bool>(apalis_sqlite::SqliteStorage<Numbered>);

impl<const POLLS: bool> Contestant for ApalisSqlite<POLLS> {
    async fn open(store: &str, work: bool) -> Result<Self> {
        use apalis::prelude::*;
        // The mode that its users are advised to take; `synchronous` is FULL unless told.
        let url = format!("sqlite://{store}?mode=rwc");
        let pool = apalis_sqlite::SqlitePool::connect(&url).await?;
        sqlx::query("PRAGMA journal_mode = WAL")
            .execute(&pool)
            .await?;
        apalis_sqlite::SqliteStorage::setup(&pool).await?;
        let storage = apalis_sqlite::SqliteStorage::new(&pool);
        if work && POLLS {
            run_worker!(storage.clone().poll_with_interval(POLL));
        } else if work {
            run_worker!(storage.clone());
        }
        Ok(ApalisSqlite(storage))
    }

    async fn schedule(&self, id: u64, delay: Duration) -> Result<()> {
        use apalis::prelude::*;
        let task = TaskBuilder::new(Numbered { id }).run_after(delay).build();
        self.0
            .clone()
            .push_task(task)
            .await
            .map_err(|error| error.to_string().into())
    }
}

/// With `POLLS`, it looks every 100 ms, as one of its examples does; without, as its first example.
pub(crate) struct ApalisPostgres<const POLLS: bool>(apalis_postgres::PostgresStorage<Numbered>);

impl<const POLLS: bool> Contestant for ApalisPostgres<POLLS> {
    async fn open(store: &str, work: bool) -> Result<Self> {
        use apalis::prelude::*;
        let pool = apalis_postgres::PgPool::connect(store).await?;
        apalis_postgres::PostgresStorage::setup(&pool).await?;
        let storage = apalis_postgres::PostgresStorage::new(&pool);
        if work && POLLS {
            run_worker!(storage.clone().poll_with_interval(POLL));
        } else if work {
            run_worker!(storage.clone());
        }
        Ok(ApalisPostgres(storage))
    }

    async fn schedule(&self, id: u64, delay: Duration) -> Result<()> {
        use apalis::prelude::*;
        let task = TaskBuilder::new(Numbered { id }).run_after(delay).build();
        self.0
            .clone()
            .push_task(task)
            .await
            .map_err(|error| error.to_string().into())
    }
}

/// The table of fang, from its migrations.
const FANG_TABLE: &str = "
CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\";
CREATE TYPE fang_task_state AS ENUM ('new', 'in_progress', 'failed', 'finished', 'retried');
CREATE TABLE fang_tasks (
     id uuid PRIMARY KEY DEFAULT uuid_generate_v4(),
     metadata jsonb NOT NULL,
     error_message TEXT,
     state fang_task_state DEFAULT 'new' NOT NULL,
     task_type TEXT DEFAULT 'common' NOT NULL,
     uniq_hash TEXT,
     retries INTEGER DEFAULT 0 NOT NULL,
     scheduled_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
     created_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
     updated_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW()
);
CREATE INDEX fang_tasks_state_index ON fang_tasks(state);
CREATE INDEX fang_tasks_type_index ON fang_tasks(task_type);
CREATE INDEX fang_tasks_scheduled_at_index ON fang_tasks(scheduled_at);
CREATE INDEX fang_tasks_uniq_hash ON fang_tasks(uniq_hash);";

#[derive(Serialize, Deserialize)]
#[serde(crate = "fang::serde")]
struct FangJob {
    id: u64,
    at: Option<fang::chrono::DateTime<fang::chrono::Utc>>,
}

#[typetag::serde]
#[fang::async_trait]
impl fang::AsyncRunnable for FangJob {
    async fn run(&self, _: &dyn fang::AsyncQueueable) -> std::result::Result<(), fang::FangError> {
        tokio::task::block_in_place(|| handle(self.id));
        Ok(())
    }

    fn cron(&self) -> Option<fang::Scheduled> {
        self.at.map(fang::Scheduled::ScheduleOnce)
    }
}

pub(crate) struct Fang(fang::AsyncQueue);

impl Contestant for Fang {
    async fn open(store: &str, work: bool) -> Result<Fang> {
        let pool = sqlx::PgPool::connect(store).await?;
        // It is there if another process has been here before.
        let _ = sqlx::raw_sql(FANG_TABLE).execute(&pool).await;
        pool.close().await;
        let mut queue = fang::AsyncQueue::builder()
            .uri(store)
            .max_pool_size(20_u32)
            .build();
        queue.connect().await.map_err(|error| error.to_string())?;
        if work {
            let mut pool: fang::AsyncWorkerPool<fang::AsyncQueue> =
                fang::AsyncWorkerPool::builder()
                    .number_of_workers(HANDLERS as u32)
                    .queue(queue.clone())
                    .build();
            pool.start().await;
        }
        Ok(Fang(queue))
    }

    async fn schedule(&self, id: u64, delay: Duration) -> Result<()> {
        use fang::AsyncQueueable;
        let job = FangJob {
            id,
            at: Some(fang::chrono::Utc::now() + delay),
        };
        self.0
            .schedule_task(&job)
            .await
            .map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct GraphileJob {
    id: u64,
}

impl graphile_worker::TaskHandler for GraphileJob {
    const IDENTIFIER: &'static str = "numbered";

    async fn run(
        self,
        _: graphile_worker::WorkerContext,
    ) -> impl graphile_worker::IntoTaskHandlerResult {
        tokio::task::block_in_place(|| handle(self.id));
        Ok::<(), String>(())
    }
}

/// With `LOAD`, it has the local queue, the batches and the poll that its documentation shows for bursts of jobs; without, its defaults.
pub(crate) struct Graphile<const LOAD: bool>(Arc<graphile_worker::Worker>);

impl<const LOAD: bool> Contestant for Graphile<LOAD> {
    async fn open(store: &str, work: bool) -> Result<Self> {
        let mut options = graphile_worker::WorkerOptions::default()
            .database_url(store)
            .concurrency(HANDLERS)
            .schema("graphile_worker")
            .define_job::<GraphileJob>();
        if LOAD {
            let queue = graphile_worker::LocalQueueConfig::default()
                .with_size(100)
                .with_ttl(Duration::from_secs(60));
            options = options
                .poll_interval(Duration::from_millis(500))
                .complete_job_batch_delay(Duration::from_millis(5))
                .fail_job_batch_delay(Duration::from_millis(5))
                .local_queue(queue);
        }
        let worker = options.init().await.map_err(|error| error.to_string())?;
        let worker = Arc::new(worker);
        if work {
            let runner = Arc::clone(&worker);
            tokio::spawn(async move {
                if let Err(error) = runner.run().await {
                    eprintln!("graphile_worker: {error}");
                }
            });
        }
        Ok(Graphile(worker))
    }

    async fn schedule(&self, id: u64, delay: Duration) -> Result<()> {
        let spec = graphile_worker::JobSpec {
            run_at: Some(fang::chrono::Utc::now() + delay),
            ..graphile_worker::JobSpec::default()
        };
        self.0
            .create_utils()
            .add_job(GraphileJob { id }, spec)
            .await
            .map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[derive(Serialize, Deserialize, awa::JobArgs)]
struct AwaJob {
    id: u64,
}

pub(crate) struct Awa {
    pool: awa_sqlx::PgPool,
    /// It stops when it is dropped.
    _client: Option<awa::Client>,
}

impl Contestant for Awa {
    async fn open(store: &str, work: bool) -> Result<Awa> {
        let pool = awa_sqlx::PgPool::connect(store).await?;
        // On this thread: the compiler cannot see that this future may change its thread.
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| runtime.block_on(awa::migrations::run(&pool)))?;
        let mut running = None;
        if work {
            let config = awa::QueueConfig {
                max_workers: HANDLERS as u32,
                ..awa::QueueConfig::default()
            };
            let client = awa::Client::builder(pool.clone())
                .queue("default", config)
                .register::<AwaJob, _, _>(|job, _| async move {
                    tokio::task::block_in_place(|| handle(job.id));
                    Ok(awa::JobResult::Completed)
                })
                .build()?;
            client.start().await?;
            running = Some(client);
        }
        Ok(Awa {
            pool,
            _client: running,
        })
    }

    async fn schedule(&self, id: u64, delay: Duration) -> Result<()> {
        let options = awa::InsertOpts {
            run_at: Some(fang::chrono::Utc::now() + delay),
            ..awa::InsertOpts::default()
        };
        awa::insert_with(&self.pool, &AwaJob { id }, options).await?;
        Ok(())
    }
}
