import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;

/**
 * The workloads of {@code benches/rivals} on Netty's own {@code HashedWheelTimer}.
 *
 * <p>Takes the same arguments as a Rust child ({@code churn flight=1000 producers=1 …}) and prints the same line
 * ({@code RESULT wall_ns=… cpu_ns=…}). Before it measures, it runs the same workload on another timer until the
 * compiler has seen it. Best use: one task object for all timeouts where the task captures nothing of its own, an
 * array as the ring of handles, leak detection off, and no limit on pending timeouts.
 */
public final class NettyTimers {
    private static final long SECOND = 1_000_000_000L;
    private static final long HOUR = 3600 * SECOND;
    
    /** Tasks that have run. Written by the timer's thread only, so a plain addition does. */
    private static volatile long run;

    /** The worker's own count; published through {@link #run}. */
    private static final TimerTask COUNT = timeout -> run = run + 1;

    private final Map<String, Long> numbers = new HashMap<>();
    private final long tickMillis;
    private final int slots;
    private final int flight;
    private final int producers;

    private NettyTimers(String[] args) {
        for (int i = 1; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            numbers.put(args[i].substring(0, equals), Long.parseLong(args[i].substring(equals + 1)));
        }
        tickMillis = number("tick_ms");
        slots = (int) number("slots");
        flight = (int) number("flight");
        producers = (int) number("producers");
    }

    private long number(String key) {
        return numbers.getOrDefault(key, 1L);
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            System.err.println("usage: NettyTimers WORKLOAD [key=value]...");
            System.exit(2);
        }
        System.setProperty("io.netty.leakDetection.level", "disabled");
        NettyTimers timers = new NettyTimers(args);
        String line = switch (args[0]) {
            case "churn", "growth" -> timers.churn();
            case "fire" -> timers.fire();
            case "lateness" -> timers.lateness();
            case "hold", "idle" -> timers.rest();
            case "memory-pending" -> timers.memoryPending();
            case "memory-churn" -> timers.memoryChurn();
            default -> throw new IllegalArgumentException("no workload " + args[0]);
        };
        System.out.println("RESULT " + line);
        System.exit(0);
    }

    private HashedWheelTimer timer() {
        return new HashedWheelTimer(
                task -> {
                    Thread thread = new Thread(task, Machine.WORKER);
                    thread.setDaemon(true);
                    return thread;
                },
                tickMillis,
                TimeUnit.MILLISECONDS,
                slots,
                false);
    }

    // churn: F in flight per producer; every op schedules one at 30 s (+0..1 s) and cancels the oldest.

    private String churn() throws Exception {
        long ops = number("ops") / producers;
        long warm = Math.max(ops, 3_000_000 / producers);
        int warmFlight = Math.min(flight, 100_000);
        for (int round = 0; round < 3; round++) {
            churnOnce(warm, warmFlight);
        }
        System.gc();
        Thread.sleep(300);
        long[] times = churnOnce(ops, flight);
        check(run == 0, "a timeout of 30 s has fired");
        double all = (double) ops * producers;
        return "wall_ns=" + times[0] / all + " cpu_ns=" + times[1] / all + " backlog_ms=" + times[2] / 1_000_000;
    }

    /**
     * Wall and CPU nanoseconds of all ops, and how long the worker went on after the last one. The CPU time includes
     * that and the garbage collector.
     */
    private long[] churnOnce(long ops, int flight) throws Exception {
        HashedWheelTimer timer = timer();
        CyclicBarrier meeting = new CyclicBarrier(producers + 1);
        Thread[] threads = new Thread[producers];
        for (int i = 0; i < producers; i++) {
            Flight own = new Flight(timer, i, flight);
            threads[i] = new Thread(() -> {
                try {
                    own.fill();
                    meeting.await();
                    meeting.await();
                    own.churn(ops);
                    meeting.await();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            threads[i].start();
        }
        meeting.await();
        Thread.sleep(100 + (long) flight * producers / 5_000);
        Machine.waitUntilQuiet();
        long cpu = Machine.processCpu();
        long start = System.nanoTime();
        meeting.await();
        meeting.await();
        long wall = System.nanoTime() - start;
        long backlog = Machine.waitUntilQuiet();
        cpu = Machine.processCpu() - cpu;
        for (Thread thread : threads) {
            thread.join();
        }
        timer.stop();
        return new long[] {wall, cpu, backlog};
    }

    /** The timeouts of one producer, oldest first. */
    private static final class Flight {
        private final HashedWheelTimer timer;
        private final Timeout[] ring;
        private final SameRandom random;
        private int oldest;

        Flight(HashedWheelTimer timer, int number, int count) {
            this.timer = timer;
            this.ring = new Timeout[count];
            this.random = new SameRandom(number + 1);
        }

        private Timeout schedule() {
            return timer.newTimeout(COUNT, 30 * SECOND + random.below(SECOND), TimeUnit.NANOSECONDS);
        }

        void fill() {
            for (int i = 0; i < ring.length; i++) {
                ring[i] = schedule();
            }
        }

        void churn(long ops) {
            for (long op = 0; op < ops; op++) {
                Timeout next = schedule();
                Timeout last = ring[oldest];
                ring[oldest] = next;
                oldest = oldest + 1 == ring.length ? 0 : oldest + 1;
                last.cancel();
            }
        }
    }

    // fire: timeouts due over 2 s, 3 s from now, in random order; the task counts.

    private String fire() throws Exception {
        for (int round = 0; round < 2; round++) {
            fireOnce(300_000, SECOND / 2, SECOND / 2);
        }
        System.gc();
        Thread.sleep(300);
        long cpu = fireOnce(flight, 3 * SECOND, 2 * SECOND);
        return "worker_cpu_ns=" + (double) cpu / flight;
    }

    private long fireOnce(int count, long delay, long spread) throws Exception {
        run = 0;
        HashedWheelTimer timer = timer();
        SameRandom random = new SameRandom(1);
        timer.start();
        long cpu = Machine.workerCpu();
        for (int i = 0; i < count; i++) {
            timer.newTimeout(COUNT, delay + random.below(spread), TimeUnit.NANOSECONDS);
        }
        waitForTasks(count);
        cpu = Machine.workerCpu() - cpu;
        timer.stop();
        return cpu;
    }

    // lateness: timeouts due over 2 s, 1 s from now; the task stores how late it is.

    private String lateness() throws Exception {
        latenessOnce(100_000, SECOND / 2);
        System.gc();
        Thread.sleep(300);
        long[] late = latenessOnce(flight, 2 * SECOND);
        Arrays.sort(late);
        int early = 0;
        while (early < late.length && late[early] < 0) {
            early++;
        }
        return "p50_us=" + at(late, 0.5) + " p99_us=" + at(late, 0.99) + " max_us=" + at(late, 1.0) + " early=" + early;
    }

    private static double at(long[] sorted, double share) {
        return sorted[(int) ((sorted.length - 1) * share)] / 1000.0;
    }

    private long[] latenessOnce(int count, long spread) throws Exception {
        run = 0;
        long[] late = new long[count];
        HashedWheelTimer timer = timer();
        timer.start();
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < count; i++) {
            int index = i;
            long delay = SECOND + random.below(spread);
            long deadline = System.nanoTime() + delay;
            timer.newTimeout(
                    timeout -> {
                        late[index] = System.nanoTime() - deadline;
                        run = run + 1;
                    },
                    delay,
                    TimeUnit.NANOSECONDS);
        }
        waitForTasks(count);
        timer.stop();
        return late;
    }

    // hold and idle: a timer at rest, watched.

    private String rest() throws Exception {
        HashedWheelTimer timer = timer();
        timer.newTimeout(COUNT, 20_000_000, TimeUnit.NANOSECONDS);
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < flight; i++) {
            timer.newTimeout(COUNT, HOUR + random.below(23 * HOUR), TimeUnit.NANOSECONDS);
        }
        waitForTasks(1);
        // Long enough for the compiler to have seen the walk over the buckets.
        Thread.sleep(flight == 0 ? 1000 : 3000);
        long start = System.nanoTime();
        long cpu = Machine.workerCpu();
        long sleeps = Machine.workerSleeps();
        Thread.sleep(number("watch_ms"));
        cpu = Machine.workerCpu() - cpu;
        sleeps = Machine.workerSleeps() - sleeps;
        double wall = System.nanoTime() - start;
        return "worker_cpu_percent=" + 100 * cpu / wall + " wakeups_per_s=" + sleeps * SECOND / wall;
    }

    // memory: the live heap after a collection, because what a JVM keeps resident is its own choice.

    private String memoryPending() throws Exception {
        HashedWheelTimer timer = timer();
        timer.start();
        long before = Machine.liveHeap();
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < flight; i++) {
            long a = i;
            long b = i + 1;
            long c = i + 2;
            timer.newTimeout(timeout -> run = a + b + c, HOUR + random.below(HOUR), TimeUnit.NANOSECONDS);
        }
        Thread.sleep(1000);
        long bytes = Machine.liveHeap() - before;
        check(timer.pendingTimeouts() == flight, "not all are pending");
        return "bytes_per_timeout=" + (double) bytes / flight;
    }

    private String memoryChurn() throws Exception {
        HashedWheelTimer timer = timer();
        Flight own = new Flight(timer, 0, flight);
        own.fill();
        own.churn(number("ops"));
        double less = settledHeap();
        own.churn(9 * number("ops"));
        double more = settledHeap();
        return "rss_mb_short=" + less / 1e6 + " rss_mb_long=" + more / 1e6 + " growth=" + more / less;
    }

    private static long settledHeap() throws Exception {
        Thread.sleep(1000);
        Machine.waitUntilQuiet();
        return Machine.liveHeap();
    }

    private static void waitForTasks(long count) throws Exception {
        long start = System.nanoTime();
        while (run < count) {
            check(System.nanoTime() - start < 100 * SECOND, run + " of " + count + " have fired");
            Thread.sleep(10);
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }
}
