// Redsync step by step: each line of standard input is a step, and has a line as its answer.
//
//	steps UNIX_SOCKET...      lock KEY MS    ok MS (for how long it is valid), or refused
//	                          unlock KEY     ok or refused
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func step(sync *redsync.Redsync, held map[string]*redsync.Mutex, line string) string {
	var verb, key string
	var ms int64
	fmt.Sscan(line, &verb, &key, &ms)
	switch {
	case verb == "lock":
		expiry := time.Duration(ms) * time.Millisecond
		mutex := sync.NewMutex(key, redsync.WithExpiry(expiry))
		if mutex.TryLock() != nil {
			return "refused"
		}
		held[key] = mutex
		return fmt.Sprintf("ok %d", time.Until(mutex.Until()).Milliseconds())
	case verb == "unlock" && held[key] != nil:
		if ok, err := held[key].Unlock(); !ok || err != nil {
			return "refused"
		}
		return "ok"
	}
	return "no such step"
}

func main() {
	var pools []redis.Pool
	for _, socket := range os.Args[1:] {
		client := goredislib.NewClient(&goredislib.Options{Network: "unix", Addr: socket})
		pools = append(pools, goredis.NewPool(client))
	}
	sync, held := redsync.New(pools...), map[string]*redsync.Mutex{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(step(sync, held, lines.Text()))
	}
}
