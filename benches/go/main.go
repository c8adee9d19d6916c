// The workloads of benches/rivals on Go's timers: time.AfterFunc and Stop.
//
// Takes the arguments of a Rust child (churn flight=1000 producers=1 …) and prints the same line (RESULT wall_ns=…
// cpu_ns=…). Best use: one function for all timeouts where it captures nothing of its own, a slice as the ring of
// timers, producers (and the busy threads of oversubscribed) as goroutines. Go has no timer thread: what fires runs as a
// goroutine of its own on any thread, so counting is atomic, and "the timer's CPU time" is that of all threads but the caller's.
package main

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const hour = time.Hour

// Tasks that have run.
var run atomic.Int64

func count() { run.Add(1) }

// The arguments.
type numbers map[string]int64

func (n numbers) get(key string) int64 { return n[key] }

func (n numbers) duration(key string) time.Duration {
	return time.Duration(n[key]) * time.Millisecond
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: main WORKLOAD [key=value]...")
	}
	args := numbers{"producers": 1}
	for _, text := range os.Args[2:] {
		key, value, _ := strings.Cut(text, "=")
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			fail("`" + text + "` is not a number of a case")
		}
		args[key] = number
	}
	workloads := map[string]func(numbers) string{
		"churn":          churn,
		"growth":         churn,
		"producers":      producers,
		"tails":          tails,
		"fire":           fire,
		"lateness":       lateness,
		"at-once":        lateness,
		"boundary":       lateness,
		"hold":           rest,
		"idle":           rest,
		"memory-pending": memoryPending,
		"memory-churn":   memoryChurn,
		"oversubscribed": oversubscribed,
	}
	workload, found := workloads[os.Args[1]]
	if !found {
		fail("no workload `" + os.Args[1] + "`")
	}
	fmt.Println("RESULT " + workload(args))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}

// churn: F in flight per producer; every op schedules one at 30 s (+0..1 s) and cancels the oldest.

func churn(args numbers) string {
	wall, cpu, backlog := churnWarm(args, int(args.get("producers")))
	return fmt.Sprintf("wall_ns=%g cpu_ns=%g backlog_ms=%d", wall, cpu, backlog.Milliseconds())
}

// producers: the churn of one producer and of N, the order changing from run to run.

func producers(args numbers) string {
	all := int(args.get("producers"))
	var wall, cpu, one float64
	if args.get("round")%2 == 0 {
		_, one, _ = churnWarm(args, 1)
		wall, cpu, _ = churnWarm(args, all)
	} else {
		wall, cpu, _ = churnWarm(args, all)
		_, one, _ = churnWarm(args, 1)
	}
	return fmt.Sprintf("wall_ns=%g cpu_ns=%g one_cpu_ns=%g cpu_ratio=%g", wall, cpu, one, cpu/one)
}

// Nanoseconds per op of wall and CPU time, after a first round that lets the heap grow.
func churnWarm(args numbers, producers int) (float64, float64, time.Duration) {
	ops, flight := int(args.get("ops"))/producers, int(args.get("flight"))
	churnOnce(producers, ops, min(flight, 100_000), nil)
	runtime.GC()
	time.Sleep(300 * time.Millisecond)
	wall, cpu, backlog := churnOnce(producers, ops, flight, nil)
	check(run.Load() == 0, "a timeout of 30 s has fired")
	all := float64(ops * producers)
	return float64(wall) / all, float64(cpu) / all, backlog
}

// With calls, every call is timed by itself.
func churnOnce(producers, ops, flight int, calls *calls) (wall, cpu, backlog time.Duration) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	var mutex sync.Mutex
	for number := range producers {
		ready.Add(1)
		done.Add(1)
		go func() {
			own := newFlight(number, flight)
			own.fill()
			var timed callTimes
			ready.Done()
			<-start
			if calls == nil {
				own.churn(ops)
			} else {
				own.churnTimed(ops, &timed)
				mutex.Lock()
				calls.merge(&timed)
				mutex.Unlock()
			}
			done.Done()
			own.stop()
		}()
	}
	ready.Wait()
	time.Sleep(100*time.Millisecond + time.Duration(flight*producers/5_000)*time.Millisecond)
	cpu = processCPU()
	began := time.Now()
	close(start)
	done.Wait()
	wall = time.Since(began)
	backlog = waitUntilQuiet()
	return wall, processCPU() - cpu, backlog
}

// The timeouts of one producer, oldest first.
type flight struct {
	ring   []*time.Timer
	oldest int
	random random
}

func newFlight(number, count int) *flight {
	return &flight{ring: make([]*time.Timer, count), random: newRandom(uint64(number + 1))}
}

func (f *flight) delay() time.Duration {
	return 30*time.Second + f.random.within(time.Second)
}

func (f *flight) fill() {
	for i := range f.ring {
		f.ring[i] = time.AfterFunc(f.delay(), count)
	}
}

// Puts the newest in the place of the oldest.
func (f *flight) exchange(next *time.Timer) *time.Timer {
	last := f.ring[f.oldest]
	f.ring[f.oldest] = next
	f.oldest++
	if f.oldest == len(f.ring) {
		f.oldest = 0
	}
	return last
}

func (f *flight) churn(ops int) {
	for range ops {
		f.exchange(time.AfterFunc(f.delay(), count)).Stop()
	}
}

func (f *flight) stop() {
	for _, timer := range f.ring {
		timer.Stop()
	}
}

// tails: single calls, each timed by itself; two readings of the clock in a row beside them.

type callTimes struct {
	clock, arm, cancel, reset histogram
}

type calls = callTimes

func (c *callTimes) merge(other *callTimes) {
	c.clock.merge(&other.clock)
	c.arm.merge(&other.arm)
	c.cancel.merge(&other.cancel)
	c.reset.merge(&other.reset)
}

func (f *flight) churnTimed(ops int, times *callTimes) {
	for range ops {
		start := time.Now()
		end := time.Now()
		times.clock.record(end.Sub(start))

		delay := f.delay()
		start = time.Now()
		next := time.AfterFunc(delay, count)
		end = time.Now()
		times.arm.record(end.Sub(start))

		last := f.exchange(next)
		start = time.Now()
		last.Stop()
		end = time.Now()
		times.cancel.record(end.Sub(start))

		middle := f.ring[(f.oldest+len(f.ring)/2)%len(f.ring)]
		delay = f.delay()
		start = time.Now()
		middle.Reset(delay)
		end = time.Now()
		times.reset.record(end.Sub(start))
	}
}

func tails(args numbers) string {
	producers, flight := int(args.get("producers")), int(args.get("flight"))
	ops := int(args.get("ops")) / producers
	churnOnce(producers, ops/4, min(flight, 100_000), &calls{})
	runtime.GC()
	time.Sleep(300 * time.Millisecond)
	var times calls
	churnOnce(producers, ops, flight, &times)
	check(run.Load() == 0, "a timeout of 30 s has fired")
	return times.arm.figures("new_timeout") + times.cancel.figures("cancel") +
		times.reset.figures("reset") + times.clock.figures("clock")
}

// fire: timeouts due over 2 s, 3 s from now, in random order; the task counts.

func fire(args numbers) string {
	fireOnce(100_000, time.Second/2, time.Second/2)
	runtime.GC()
	time.Sleep(300 * time.Millisecond)
	flight := args.get("flight")
	cpu := fireOnce(flight, args.duration("delay_ms"), args.duration("spread_ms"))
	return fmt.Sprintf("worker_cpu_ns=%g", float64(cpu)/float64(flight))
}

func fireOnce(flight int64, delay, spread time.Duration) time.Duration {
	run.Store(0)
	random := newRandom(1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := workerCPU()
	for range flight {
		time.AfterFunc(delay+random.within(spread), count)
	}
	waitForTasks(flight)
	return workerCPU() - cpu
}

// lateness, at-once and boundary: the task stores how late it is; a bare goroutine sleeps until each boundary.

func lateness(args numbers) string {
	latenessOnce(20_000, time.Second/2, time.Second/2)
	runtime.GC()
	time.Sleep(300 * time.Millisecond)
	var bare histogram
	var over atomic.Bool
	var ended sync.WaitGroup
	ended.Add(1)
	go func() {
		sleepBare(&bare, time.Duration(args.get("tick_us"))*time.Microsecond, &over)
		ended.Done()
	}()
	late := latenessOnce(int(args.get("flight")), args.duration("delay_ms"), args.duration("spread_ms"))
	over.Store(true)
	ended.Wait()
	slices.Sort(late)
	early, _ := slices.BinarySearch(late, 0)
	at := func(share float64) float64 { return float64(late[int(float64(len(late)-1)*share)]) / 1_000 }
	return fmt.Sprintf("p50_us=%g p99_us=%g p99.9_us=%g max_us=%g early=%d bare_p50_us=%g bare_p99.9_us=%g bare_max_us=%g",
		at(0.5), at(0.99), at(0.999), at(1), early,
		float64(bare.at(0.5))/1_000, float64(bare.at(0.999))/1_000, float64(bare.max)/1_000)
}

// Due over spread; all at one moment if that is zero.
func latenessOnce(flight int, delay, spread time.Duration) []time.Duration {
	run.Store(0)
	late := make([]time.Duration, flight)
	random := newRandom(1)
	moment := time.Now().Add(delay)
	for i := range late {
		now := time.Now()
		deadline, wait := moment, moment.Sub(now)
		if spread > 0 {
			wait = delay + random.within(spread)
			deadline = now.Add(wait)
		}
		time.AfterFunc(wait, func() {
			late[i] = time.Since(deadline)
			count()
		})
	}
	waitForTasks(int64(flight))
	return late
}

func sleepBare(late *histogram, tick time.Duration, over *atomic.Bool) {
	runtime.LockOSThread()
	start := time.Now()
	boundary := tick
	for !over.Load() {
		if left := boundary - time.Since(start); left > 0 {
			spec := syscall.NsecToTimespec(int64(left))
			_ = syscall.Nanosleep(&spec, nil)
			continue
		}
		now := time.Since(start)
		late.record(now - boundary)
		boundary = (now/tick + 1) * tick
	}
}

// hold and idle: timers at rest, watched.

func rest(args numbers) string {
	time.AfterFunc(20*time.Millisecond, count)
	random := newRandom(1)
	kept := make([]*time.Timer, args.get("flight"))
	for i := range kept {
		kept[i] = time.AfterFunc(hour+random.within(23*hour), count)
	}
	waitForTasks(1)
	runtime.GC()
	time.Sleep(2 * time.Second)
	runtime.LockOSThread()
	start, cpu, sleeps := time.Now(), workerCPU(), workerSleeps()
	spec := syscall.NsecToTimespec(int64(args.duration("watch_ms")))
	_ = syscall.Nanosleep(&spec, nil)
	cpu, sleeps = workerCPU()-cpu, workerSleeps()-sleeps
	seconds := time.Since(start).Seconds()
	runtime.KeepAlive(kept)
	return fmt.Sprintf("worker_cpu_percent=%g wakeups_per_s=%g", 100*cpu.Seconds()/seconds, float64(sleeps)/seconds)
}

// memory: the live heap after a collection.

func memoryPending(args numbers) string {
	flight := args.get("flight")
	before := liveHeap()
	random := newRandom(1)
	for i := range flight {
		a, b, c := i, i+1, i+2
		time.AfterFunc(hour+random.within(hour), func() { run.Store(a + b + c) })
	}
	time.Sleep(time.Second)
	return fmt.Sprintf("bytes_per_timeout=%g", float64(liveHeap()-before)/float64(flight))
}

func memoryChurn(args numbers) string {
	own := newFlight(0, int(args.get("flight")))
	own.fill()
	ops := int(args.get("ops"))
	own.churn(ops)
	less := float64(liveHeap())
	own.churn(9 * ops)
	more := float64(liveHeap())
	return fmt.Sprintf("rss_mb_short=%g rss_mb_long=%g growth=%g", less/1e6, more/1e6, more/less)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// oversubscribed: a task every 1 ms beside threads that compute, and beside threads that use the timers.

type half struct {
	gaps []int64
	rate float64
}

func oversubscribed(args numbers) string {
	var spinning, scheduling half
	if args.get("round")%2 == 0 {
		spinning = runHalf(args, true)
		scheduling = runHalf(args, false)
	} else {
		scheduling = runHalf(args, false)
		spinning = runHalf(args, true)
	}
	return spinning.figures("spinning") + scheduling.figures("scheduling") +
		fmt.Sprintf(" scheduling/p99_ratio=%g scheduling/mops_per_s=%g",
			scheduling.gap(0.99)/spinning.gap(0.99), scheduling.rate)
}

func runHalf(args numbers, spinning bool) half {
	var stop atomic.Bool
	var ops atomic.Int64
	var ended sync.WaitGroup
	began := time.Now()
	for number := range int(args.get("producers")) {
		ended.Add(1)
		go func() {
			if spinning {
				random := newRandom(1)
				sum := time.Duration(0)
				for !stop.Load() {
					sum += random.within(time.Second)
				}
				runtime.KeepAlive(sum)
			} else {
				ops.Add(schedule(number, int(args.get("flight")), &stop))
			}
			ended.Done()
		}()
	}
	time.Sleep(200 * time.Millisecond)
	times := make([]int64, 0, 4*args.get("watch_ms"))
	start := time.Now()
	ticker := time.NewTicker(time.Millisecond)
	var mutex sync.Mutex
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				mutex.Lock()
				if len(times) < cap(times) {
					times = append(times, int64(time.Since(start)))
				}
				mutex.Unlock()
			case <-over:
				return
			}
		}
	}()
	spec := syscall.NsecToTimespec(int64(args.duration("watch_ms")))
	_ = syscall.Nanosleep(&spec, nil)
	end := int64(time.Since(start))
	stop.Store(true)
	close(over)
	ticker.Stop()
	ended.Wait()
	mutex.Lock()
	defer mutex.Unlock()
	return half{gaps(times, end), float64(ops.Load()) / time.Since(began).Seconds() / 1e6}
}

func schedule(number, pending int, stop *atomic.Bool) int64 {
	own := newFlight(number, pending)
	own.fill()
	ops := int64(0)
	for !stop.Load() {
		own.churn(64)
		ops += 64
		time.AfterFunc(time.Millisecond+own.random.within(49*time.Millisecond), count)
	}
	own.stop()
	return ops
}

// The gaps between the runs before end, and to the start and the end; smallest first.
func gaps(times []int64, end int64) []int64 {
	var all []int64
	last := int64(0)
	for _, moment := range times {
		if moment < end {
			all = append(all, moment-last)
			last = moment
		}
	}
	all = append(all, end-last)
	slices.Sort(all)
	return all
}

func (h half) gap(share float64) float64 {
	rank := int(math.Ceil(share * float64(len(h.gaps))))
	return float64(h.gaps[min(max(rank, 1), len(h.gaps))-1]) / 1_000
}

func (h half) figures(name string) string {
	return fmt.Sprintf(" %[1]s/runs=%[2]d %[1]s/p99_gap_us=%[3]g %[1]s/max_gap_us=%[4]g",
		name, len(h.gaps)-1, h.gap(0.99), h.gap(1))
}

// What the operating system knows about this process.

func processCPU() time.Duration { return usage(syscall.RUSAGE_SELF) }

// CPU time of all threads but the calling one, which is locked to its goroutine.
func workerCPU() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	return usage(syscall.RUSAGE_SELF) - usage(thread)
}

func usage(who int) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		fail("getrusage: " + err.Error())
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// How often all threads but the calling one have gone to sleep of their own accord.
func workerSleeps() int64 {
	own := strconv.Itoa(syscall.Gettid())
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		fail(err.Error())
	}
	sum := int64(0)
	for _, task := range tasks {
		status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil || task.Name() == own {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if value, found := strings.CutPrefix(line, "voluntary_ctxt_switches:"); found {
				number, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				sum += number
			}
		}
	}
	return sum
}

// Waits until the process uses less than a fifth of a core, but no longer than 20 s.
func waitUntilQuiet() time.Duration {
	const window = 20 * time.Millisecond
	start := time.Now()
	for {
		cpu, waited := processCPU(), time.Since(start)
		time.Sleep(window)
		if waited > 20*time.Second || processCPU()-cpu < window/5 {
			return waited
		}
	}
}

func waitForTasks(count int64) {
	start := time.Now()
	for run.Load() < count {
		check(time.Since(start) < 100*time.Second, fmt.Sprintf("%d of %d have fired", run.Load(), count))
		time.Sleep(10 * time.Millisecond)
	}
}

func check(holds bool, otherwise string) {
	if !holds {
		fail(otherwise)
	}
}

// The generator of the Rust program: the same sequence.
type random uint64

func newRandom(seed uint64) random { return random(seed*0x9E3779B97F4A7C15 | 1) }

func (r *random) within(span time.Duration) time.Duration {
	state := uint64(*r)
	state ^= state << 13
	state ^= state >> 7
	state ^= state << 17
	*r = random(state)
	high, _ := bits.Mul64(state, uint64(span))
	return time.Duration(high)
}

// The histogram of the Rust program.
type histogram struct {
	counts [(top - steps2 + 1) << steps2]uint64
	max    time.Duration
}

const (
	steps2 = 5
	top    = 40
)

func (h *histogram) record(value time.Duration) {
	h.counts[index(uint64(value))]++
	h.max = max(h.max, value)
}

func (h *histogram) merge(other *histogram) {
	for i, count := range other.counts {
		h.counts[i] += count
	}
	h.max = max(h.max, other.max)
}

// The value that this share of all recorded values does not exceed; the upper end of its step.
func (h *histogram) at(share float64) time.Duration {
	all := uint64(0)
	for _, count := range h.counts {
		all += count
	}
	wanted := max(1, uint64(math.Ceil(share*float64(all))))
	seen := uint64(0)
	for i, count := range h.counts {
		if seen += count; seen >= wanted {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

func (h *histogram) figures(name string) string {
	return fmt.Sprintf(" %[1]s/p50_ns=%[2]d %[1]s/p99_ns=%[3]d %[1]s/p99.9_ns=%[4]d %[1]s/p99.99_ns=%[5]d %[1]s/p99.999_ns=%[6]d %[1]s/max_ns=%[7]d",
		name, h.at(0.5), h.at(0.99), h.at(0.999), h.at(0.9999), h.at(0.99999), h.max)
}

func index(value uint64) int {
	high := bits.Len64(value|1) - 1
	if high < steps2 {
		return int(value)
	}
	shift := high - steps2
	step := int(value>>shift) - 1<<steps2
	return min((shift+1)<<steps2+step, (top-steps2+1)<<steps2-1)
}

func upper(index int) time.Duration {
	if index < 1<<steps2 {
		return time.Duration(index)
	}
	shift, step := index>>steps2-1, index&(1<<steps2-1)
	return time.Duration((1<<steps2+step+1)<<shift - 1)
}
