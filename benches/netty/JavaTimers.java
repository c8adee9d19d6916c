import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * The workloads of {@code benches/rivals} on the timers of the JVM.
 *
 * <p>Takes the name of a timer and the arguments of a Rust child ({@code netty churn flight=1000 producers=1 …}) and
 * prints the same line ({@code RESULT wall_ns=… cpu_ns=…}). Before it measures, it runs the same workload on another
 * timer until the compiler has seen it. Best use: one task object for all timeouts where the task captures nothing of
 * its own, an array as the ring of handles, leak detection off, and no limit on pending timeouts. One process uses one
 * kind of timer, so the calls through {@link JavaTimer} cost what direct ones do.
 */
public final class JavaTimers {
    private static final long SECOND = 1_000_000_000L;
    private static final long MILLI = 1_000_000L;
    private static final long HOUR = 3600 * SECOND;

    /** Tasks that have run. Written by the timer's thread only, so a plain addition does. */
    private static volatile long run;

    /** The worker's own count; published through {@link #run}. */
    private static final JavaTimer.Task COUNT = new JavaTimer.Task() {
        @Override
        public void run() {
            run = run + 1;
        }
    };

    private final String kind;
    private final Map<String, Long> numbers = new HashMap<>();
    private final long tickMicros;
    private final int slots;
    private final int flight;
    private final int producers;

    private JavaTimers(String[] args) {
        kind = args[0];
        for (int i = 2; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            numbers.put(args[i].substring(0, equals), Long.parseLong(args[i].substring(equals + 1)));
        }
        tickMicros = number("tick_us");
        slots = (int) number("slots");
        flight = (int) number("flight");
        producers = (int) number("producers");
    }

    private long number(String key) {
        return numbers.getOrDefault(key, 1L);
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 2) {
            System.err.println("usage: JavaTimers TIMER WORKLOAD [key=value]...");
            System.exit(2);
        }
        System.setProperty("io.netty.leakDetection.level", "disabled");
        JavaTimers timers = new JavaTimers(args);
        String line = switch (args[1]) {
            case "churn", "growth" -> timers.churn();
            case "fire" -> timers.fire();
            case "tails" -> timers.tails();
            case "oversubscribed" -> timers.oversubscribed();
            case "producers" -> timers.producers();
            case "lateness", "at-once", "boundary" -> timers.lateness();
            case "hold", "idle" -> timers.rest();
            case "memory-pending" -> timers.memoryPending();
            case "memory-churn" -> timers.memoryChurn();
            default -> throw new IllegalArgumentException("no workload " + args[1]);
        };
        System.out.println("RESULT " + line);
        System.exit(0);
    }

    private JavaTimer timer() {
        return JavaTimer.of(kind, tickMicros, slots);
    }

    // churn: F in flight per producer; every op schedules one at 30 s (+0..1 s) and cancels the oldest.

    private String churn() throws Exception {
        double[] costs = churnWarm(producers);
        return "wall_ns=" + costs[0] + " cpu_ns=" + costs[1] + " backlog_ms=" + costs[2];
    }

    // producers: the churn of one producer and of N, the order changing from run to run.

    private String producers() throws Exception {
        boolean oneFirst = number("round") % 2 == 0;
        double[] first = churnWarm(oneFirst ? 1 : producers);
        double[] second = churnWarm(oneFirst ? producers : 1);
        double one = oneFirst ? first[1] : second[1];
        double[] many = oneFirst ? second : first;
        return "wall_ns=" + many[0] + " cpu_ns=" + many[1] + " one_cpu_ns=" + one + " cpu_ratio=" + many[1] / one;
    }

    /** Wall and CPU nanoseconds per op, and milliseconds of backlog, of a JVM that has seen it three times. */
    private double[] churnWarm(int producers) throws Exception {
        long ops = number("ops") / producers;
        long warm = Math.max(ops, 3_000_000 / producers);
        int warmFlight = Math.min(flight, 100_000);
        for (int round = 0; round < 3; round++) {
            churnOnce(producers, warm, warmFlight, null);
        }
        System.gc();
        Thread.sleep(300);
        long[] times = churnOnce(producers, ops, flight, null);
        check(run == 0, "a timeout of 30 s has fired");
        double all = (double) ops * producers;
        return new double[] {times[0] / all, times[1] / all, times[2] / 1_000_000};
    }

    /**
     * Wall and CPU nanoseconds of all ops, and how long the worker went on after the last one. The CPU time includes
     * that and the garbage collector. With {@code tails}, every call is timed by itself.
     */
    private long[] churnOnce(int producers, long ops, int flight, Tails tails) throws Exception {
        JavaTimer timer = timer();
        CyclicBarrier meeting = new CyclicBarrier(producers + 1);
        Thread[] threads = new Thread[producers];
        Tails[] each = new Tails[producers];
        for (int i = 0; i < producers; i++) {
            Flight own = new Flight(timer, i, flight);
            Tails ownTails = each[i] = new Tails();
            threads[i] = new Thread(() -> {
                try {
                    own.fill();
                    meeting.await();
                    meeting.await();
                    if (tails == null) {
                        own.churn(ops);
                    } else {
                        own.churnTimed(ops, ownTails);
                    }
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
        for (int i = 0; i < producers; i++) {
            threads[i].join();
            if (tails != null) {
                tails.merge(each[i]);
            }
        }
        timer.stop();
        return new long[] {wall, cpu, backlog};
    }

    // tails: single calls, each timed by itself; two readings of the clock in a row beside them.

    private String tails() throws Exception {
        long ops = number("ops") / producers;
        long warm = Math.max(ops / 4, 1_000_000 / producers);
        for (int round = 0; round < 3; round++) {
            churnOnce(producers, warm, Math.min(flight, 100_000), new Tails());
        }
        System.gc();
        Thread.sleep(300);
        Tails tails = new Tails();
        churnOnce(producers, ops, flight, tails);
        check(run == 0, "a timeout of 30 s has fired");
        return tails.arm.figures("new_timeout") + tails.cancel.figures("cancel") + tails.clock.figures("clock");
    }

    private static final class Tails {
        final Histogram clock = new Histogram();
        final Histogram arm = new Histogram();
        final Histogram cancel = new Histogram();

        void merge(Tails other) {
            clock.merge(other.clock);
            arm.merge(other.arm);
            cancel.merge(other.cancel);
        }
    }

    /** The timeouts of one producer, oldest first. */
    private static final class Flight {
        private final JavaTimer timer;
        private final Object[] ring;
        private final SameRandom random;
        private int oldest;

        Flight(JavaTimer timer, int number, int count) {
            this.timer = timer;
            this.ring = new Object[count];
            this.random = new SameRandom(number + 1);
        }

        private Object schedule() {
            return timer.arm(COUNT, 30 * SECOND + random.below(SECOND));
        }

        void fill() {
            for (int i = 0; i < ring.length; i++) {
                ring[i] = schedule();
            }
        }

        void churn(long ops) {
            for (long op = 0; op < ops; op++) {
                timer.cancel(exchange(schedule()));
            }
        }

        /** Puts the newest in the place of the oldest. */
        private Object exchange(Object next) {
            Object last = ring[oldest];
            ring[oldest] = next;
            oldest = oldest + 1 == ring.length ? 0 : oldest + 1;
            return last;
        }

        void churnTimed(long ops, Tails tails) {
            for (long op = 0; op < ops; op++) {
                long start = System.nanoTime();
                long end = System.nanoTime();
                tails.clock.record(end - start);
                long delay = 30 * SECOND + random.below(SECOND);
                start = System.nanoTime();
                Object next = timer.arm(COUNT, delay);
                end = System.nanoTime();
                tails.arm.record(end - start);
                Object last = exchange(next);
                start = System.nanoTime();
                timer.cancel(last);
                end = System.nanoTime();
                tails.cancel.record(end - start);
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
        long cpu = fireOnce(flight, number("delay_ms") * MILLI, number("spread_ms") * MILLI);
        return "worker_cpu_ns=" + (double) cpu / flight;
    }

    private long fireOnce(int count, long delay, long spread) throws Exception {
        run = 0;
        JavaTimer timer = timer();
        SameRandom random = new SameRandom(1);
        timer.start();
        long cpu = Machine.workerCpu();
        for (int i = 0; i < count; i++) {
            timer.arm(COUNT, delay + random.below(spread));
        }
        waitForTasks(count);
        cpu = Machine.workerCpu() - cpu;
        timer.stop();
        return cpu;
    }

    // lateness, at-once and boundary: the task stores how late it is; a bare thread parks until each boundary.

    private String lateness() throws Exception {
        long delay = number("delay_ms") * MILLI;
        long spread = numbers.get("spread_ms") * MILLI;
        latenessOnce(100_000, SECOND, SECOND / 2);
        System.gc();
        Thread.sleep(300);
        Bare bare = new Bare(tickMicros * 1_000);
        bare.start();
        long[] late = latenessOnce(flight, delay, spread);
        bare.done = true;
        bare.join();
        Arrays.sort(late);
        int early = 0;
        while (early < late.length && late[early] < 0) {
            early++;
        }
        return "p50_us=" + at(late, 0.5) + " p99_us=" + at(late, 0.99) + " p99.9_us=" + at(late, 0.999)
                + " max_us=" + at(late, 1.0) + " early=" + early
                + " bare_p50_us=" + bare.late.at(0.5) / 1000.0
                + " bare_p99.9_us=" + bare.late.at(0.999) / 1000.0
                + " bare_max_us=" + bare.late.max() / 1000.0;
    }

    private static double at(long[] sorted, double share) {
        return sorted[(int) ((sorted.length - 1) * share)] / 1000.0;
    }

    /** Due over {@code spread}; all at one moment if that is zero. */
    private long[] latenessOnce(int count, long delay, long spread) throws Exception {
        run = 0;
        long[] late = new long[count];
        JavaTimer timer = timer();
        timer.start();
        SameRandom random = new SameRandom(1);
        long moment = System.nanoTime() + delay;
        for (int i = 0; i < count; i++) {
            long now = System.nanoTime();
            long wait = spread == 0 ? Math.max(0, moment - now) : delay + random.below(spread);
            timer.arm(new Late(late, i, spread == 0 ? moment : now + wait), wait);
        }
        waitForTasks(count);
        timer.stop();
        return late;
    }

    private static final class Late extends JavaTimer.Task {
        private final long[] late;
        private final int index;
        private final long deadline;

        Late(long[] late, int index, long deadline) {
            this.late = late;
            this.index = index;
            this.deadline = deadline;
        }

        @Override
        public void run() {
            late[index] = System.nanoTime() - deadline;
            run = run + 1;
        }
    }

    /** A thread that parks until each boundary and notes how late it wakes. */
    private static final class Bare extends Thread {
        final Histogram late = new Histogram();
        volatile boolean done;
        private final long tick;

        Bare(long tick) {
            this.tick = tick;
        }

        @Override
        public void run() {
            long start = System.nanoTime();
            long boundary = start + tick;
            while (!done) {
                long now = System.nanoTime();
                if (now < boundary) {
                    LockSupport.parkNanos(boundary - now);
                    continue;
                }
                late.record(now - boundary);
                boundary = start + tick * ((now - start) / tick + 1);
            }
        }
    }

    // oversubscribed: a task every 1 ms beside threads that compute, and beside threads that use the timer.

    private String oversubscribed() throws Exception {
        churnOnce(2, 1_000_000, flight, null);
        churnOnce(2, 1_000_000, flight, null);
        System.gc();
        boolean spinFirst = number("round") % 2 == 0;
        Half first = new Half(spinFirst);
        Half second = new Half(!spinFirst);
        Half spinning = spinFirst ? first : second;
        Half scheduling = spinFirst ? second : first;
        return spinning.figures("spinning") + scheduling.figures("scheduling")
                + " scheduling/p99_ratio=" + scheduling.gap(0.99) / spinning.gap(0.99)
                + " scheduling/mops_per_s=" + scheduling.ops.get() / (scheduling.seconds * 1e6);
    }

    private final class Half {
        final AtomicLong ops = new AtomicLong();
        double seconds;
        private volatile boolean stop;
        private final long[] times = new long[(int) (4 * number("watch_ms"))];
        private volatile int count;
        private long[] gaps;

        Half(boolean spinning) throws Exception {
            JavaTimer timer = timer();
            timer.start();
            Thread[] threads = new Thread[producers];
            long begin = System.nanoTime();
            for (int i = 0; i < producers; i++) {
                int number = i;
                threads[i] = new Thread(() -> {
                    if (spinning) {
                        spin();
                    } else {
                        schedule(timer, number);
                    }
                });
                threads[i].start();
            }
            Thread.sleep(200);
            long start = System.nanoTime();
            timer.every(MILLI, () -> {
                int next = count;
                if (next < times.length) {
                    times[next] = System.nanoTime() - start;
                    count = next + 1;
                }
            });
            Thread.sleep(number("watch_ms"));
            long end = System.nanoTime() - start;
            stop = true;
            for (Thread thread : threads) {
                thread.join();
            }
            seconds = (System.nanoTime() - begin) / 1e9;
            fillGaps(end);
            timer.stop();
        }

        private void spin() {
            SameRandom random = new SameRandom(1);
            long sum = 0;
            while (!stop) {
                sum += random.below(1 << 20);
            }
            ops.addAndGet(sum & 1);
        }

        private void schedule(JavaTimer timer, int number) {
            Flight own = new Flight(timer, number, flight);
            own.fill();
            long done = 0;
            while (!stop) {
                own.churn(64);
                timer.arm(COUNT, MILLI + own.random.below(49 * MILLI));
                done += 64;
            }
            ops.addAndGet(done);
        }

        private void fillGaps(long end) {
            int runs = count;
            while (runs > 0 && times[runs - 1] >= end) {
                runs--;
            }
            gaps = new long[runs + 1];
            long last = 0;
            for (int i = 0; i <= runs; i++) {
                long time = i == runs ? end : times[i];
                gaps[i] = time - last;
                last = time;
            }
            Arrays.sort(gaps);
        }

        double gap(double share) {
            int rank = (int) Math.ceil(share * gaps.length);
            return gaps[Math.min(Math.max(rank, 1), gaps.length) - 1] / 1000.0;
        }

        String figures(String name) {
            return " " + name + "/runs=" + (gaps.length - 1)
                    + " " + name + "/p99_gap_us=" + gap(0.99)
                    + " " + name + "/max_gap_us=" + gap(1.0);
        }
    }

    // hold and idle: a timer at rest, watched.

    private String rest() throws Exception {
        JavaTimer timer = timer();
        timer.arm(COUNT, 20_000_000);
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < flight; i++) {
            timer.arm(COUNT, HOUR + random.below(23 * HOUR));
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
        JavaTimer timer = timer();
        timer.start();
        long before = Machine.liveHeap();
        SameRandom random = new SameRandom(1);
        for (int i = 0; i < flight; i++) {
            timer.arm(new Capture(i, i + 1, i + 2), HOUR + random.below(HOUR));
        }
        Thread.sleep(1000);
        long bytes = Machine.liveHeap() - before;
        check(timer.pending() == flight, "not all are pending");
        return "bytes_per_timeout=" + (double) bytes / flight;
    }

    /** A task that captures 24 bytes. */
    private static final class Capture extends JavaTimer.Task {
        private final long a;
        private final long b;
        private final long c;

        Capture(long a, long b, long c) {
            this.a = a;
            this.b = b;
            this.c = c;
        }

        @Override
        public void run() {
            run = a + b + c;
        }
    }

    private String memoryChurn() throws Exception {
        JavaTimer timer = timer();
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
