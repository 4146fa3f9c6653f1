// Redsync under the load of the benchmark: callers that each take and give back a lock of their own,
// over and over, in the window that tests/bench/measure.h describes, with its words as the result.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

// So often a window is prolonged in which no pair has ended yet.
const prolongedMax = 9

// More connections to a master than this make it slower here, not faster.
const connectionsMax = 256

type words []string

func (list *words) String() string        { return strings.Join(*list, ",") }
func (list *words) Set(word string) error { *list = append(*list, word); return nil }

func die(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "redsync: "+format+"\n", arguments...)
	os.Exit(2)
}

// The CPU time of a process, of all its threads; 0 when it is gone.
func cpuOf(pid int) time.Duration {
	var spent syscall.Timespec
	clock := uintptr((^pid << 3) | 2)
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&spent)), 0)
	return time.Duration(spent.Nano())
}

type watched struct {
	names []string
	pids  []int
}

func (w *watched) cpu() map[string]time.Duration {
	sum := map[string]time.Duration{"client": cpuOf(os.Getpid())}
	for i, name := range w.names {
		sum[name] += cpuOf(w.pids[i])
	}
	return sum
}

func parseWatched(list words) (w watched) {
	for _, word := range list {
		name, number, _ := strings.Cut(word, ":")
		var pid int
		if n, err := fmt.Sscan(number, &pid); n != 1 || err != nil {
			die("--watch wants NAME:PID")
		}
		w.names, w.pids = append(w.names, name), append(w.pids, pid)
	}
	return w
}

// One caller's pairs inside the window.
type caller struct {
	acquires, pairs []time.Duration
	refused         int
	lastError       error
}

func (c *caller) run(mutex *redsync.Mutex, open, over *atomic.Bool, done *atomic.Int64) {
	for !over.Load() {
		counts := open.Load()
		began := time.Now()
		err := mutex.Lock()
		acquired := time.Since(began)
		if err == nil {
			_, err = mutex.Unlock()
		}
		switch {
		case !counts || over.Load():
		case err != nil:
			c.refused, c.lastError = c.refused+1, err
		default:
			c.acquires = append(c.acquires, acquired)
			c.pairs = append(c.pairs, time.Since(began))
			done.Add(1)
		}
	}
}

func quantile(sorted []time.Duration, share float64) float64 {
	return float64(sorted[int(share*float64(len(sorted)-1))].Nanoseconds()) / 1000
}

func printLatencies(name string, list []time.Duration) {
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	fmt.Printf(" %s_p50_us=%.1f %s_p99_us=%.1f %s_max_us=%.1f", name, quantile(list, .5), name,
		quantile(list, .99), name, quantile(list, 1))
}

func pools(masters words, callers int) (list []redis.Pool) {
	connections := callers
	if connections > connectionsMax {
		connections = connectionsMax
	}
	for _, port := range masters {
		list = append(list, goredis.NewPool(goredislib.NewClient(&goredislib.Options{
			Addr:        "127.0.0.1:" + port,
			PoolSize:    connections,
			PoolTimeout: 30 * time.Second,
		})))
	}
	return list
}

func report(callers []caller, seconds float64, before, after map[string]time.Duration) {
	var acquires, pairs []time.Duration
	var refused int
	var lastError error
	for i := range callers {
		acquires = append(acquires, callers[i].acquires...)
		pairs = append(pairs, callers[i].pairs...)
		refused += callers[i].refused
		if callers[i].lastError != nil {
			lastError = callers[i].lastError
		}
	}
	if len(pairs) == 0 {
		die("not one pair in the window: nothing was measured (%v)", lastError)
	}
	fmt.Printf("pairs=%d seconds=%.3f pairs_per_s=%.1f", len(pairs), seconds, float64(len(pairs))/seconds)
	printLatencies("acquire", acquires)
	printLatencies("pair", pairs)
	for name := range after {
		us := float64((after[name] - before[name]).Nanoseconds()) / 1000
		fmt.Printf(" %s_cpu_us=%.2f", name, us/float64(len(pairs)))
	}
	fmt.Printf(" refused=%d\n", refused)
}

func main() {
	var masters, watches words
	var open, over atomic.Bool
	var done atomic.Int64
	var all sync.WaitGroup
	flag.Var(&masters, "master", "port of a master")
	flag.Var(&watches, "watch", "NAME:PID whose CPU time is read")
	count := flag.Int("callers", 1, "pairs under way at once")
	prefix := flag.String("prefix", "redsync-", "of the keys")
	seconds := flag.Float64("seconds", 2, "length of the window")
	warmup := flag.Float64("warmup", .3, "seconds before it")
	flag.Parse()
	if len(masters) == 0 || *count < 1 {
		die("--master PORT... is missing")
	}
	watching := parseWatched(watches)
	sync := redsync.New(pools(masters, *count)...)
	callers := make([]caller, *count)
	for i := range callers {
		mutex := sync.NewMutex(fmt.Sprintf("lock:%s%d", *prefix, i), redsync.WithExpiry(30*time.Second),
			redsync.WithTries(1))
		all.Add(1)
		go func(c *caller) {
			defer all.Done()
			c.run(mutex, &open, &over, &done)
		}(&callers[i])
	}
	time.Sleep(time.Duration(*warmup * float64(time.Second)))
	before, began := watching.cpu(), time.Now()
	open.Store(true)
	for i := 0; i <= prolongedMax && done.Load() == 0; i++ {
		time.Sleep(time.Duration(*seconds * float64(time.Second)))
	}
	over.Store(true)
	after, lasted := watching.cpu(), time.Since(began).Seconds()
	all.Wait()
	report(callers, lasted, before, after)
}
