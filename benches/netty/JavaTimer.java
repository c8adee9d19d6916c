import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;

import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/** A timer of the JVM, with what the workloads need of it. */
abstract class JavaTimer {
    /** A task that every timer takes as it is. */
    abstract static class Task implements Runnable, TimerTask {
        @Override
        public final void run(Timeout timeout) {
            run();
        }
    }

    /** The timer with this name. Those without a wheel ignore its measures. */
    static JavaTimer of(String name, long tickMicros, int slots) {
        return switch (name) {
            case "netty", "netty42" -> new Netty(tickMicros, slots);
            case "stpe" -> new Executor();
            default -> throw new IllegalArgumentException("no timer " + name);
        };
    }

    abstract void start();

    abstract Object arm(Task task, long nanos);

    abstract void cancel(Object handle);

    /** Runs {@code task} every {@code period} nanoseconds, phase kept, missed runs skipped. */
    abstract void every(long period, Runnable task);

    abstract long pending();

    abstract void stop();

    private static ThreadFactory threads() {
        return task -> {
            Thread thread = new Thread(task, Machine.WORKER);
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Netty's wheel. It has no repeated tasks: one schedules itself again. */
    private static final class Netty extends JavaTimer {
        private final HashedWheelTimer timer;

        Netty(long tickMicros, int slots) {
            timer = new HashedWheelTimer(threads(), tickMicros, TimeUnit.MICROSECONDS, slots, false);
        }

        @Override
        void start() {
            timer.start();
        }

        @Override
        Object arm(Task task, long nanos) {
            return timer.newTimeout(task, nanos, TimeUnit.NANOSECONDS);
        }

        @Override
        void cancel(Object handle) {
            ((Timeout) handle).cancel();
        }

        @Override
        void every(long period, Runnable task) {
            long start = System.nanoTime();
            Task again = new Task() {
                @Override
                public void run() {
                    task.run();
                    long now = System.nanoTime();
                    long next = start + ((now - start) / period + 1) * period;
                    try {
                        arm(this, next - now);
                    } catch (IllegalStateException stopped) {
                        // The end of the workload.
                    }
                }
            };
            arm(again, period);
        }

        @Override
        long pending() {
            return timer.pendingTimeouts();
        }

        @Override
        void stop() {
            timer.stop();
        }
    }

    /** The JDK's own: a heap behind a lock. Best use: one thread, and cancelled tasks are removed. */
    private static final class Executor extends JavaTimer {
        private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, threads());

        Executor() {
            executor.setRemoveOnCancelPolicy(true);
        }

        @Override
        void start() {
            executor.prestartCoreThread();
        }

        @Override
        Object arm(Task task, long nanos) {
            return executor.schedule((Runnable) task, nanos, TimeUnit.NANOSECONDS);
        }

        @Override
        void cancel(Object handle) {
            ((ScheduledFuture<?>) handle).cancel(false);
        }

        @Override
        void every(long period, Runnable task) {
            executor.scheduleAtFixedRate(task, period, period, TimeUnit.NANOSECONDS);
        }

        @Override
        long pending() {
            return executor.getQueue().size();
        }

        @Override
        void stop() {
            executor.shutdownNow();
        }
    }
}
