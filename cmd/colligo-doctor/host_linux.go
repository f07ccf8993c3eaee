package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// limits prints what bounds descriptors and locked memory; shm and IPC use both.
func limits() string {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Sprintf("open files: %v", err)
	}
	return fmt.Sprintf("open files %d, at most %d", files.Cur, files.Max)
}

// sharedMemory links two ranks over it.
func sharedMemory() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	meeting := store.NewHash()
	errs := make(chan error, 2)
	for rank := range 2 {
		go func() { errs <- handshake(ctx, meeting, rank) }()
	}
	return errors.Join(<-errs, <-errs)
}

func handshake(ctx context.Context, meeting store.Store, rank int) error {
	g, err := pg.Init(ctx, pg.Config{Store: meeting, Rank: rank, Size: 2, Transport: "shm"})
	if err != nil {
		return err
	}
	x := []int32{int32(1 + rank)}
	err = g.AllReduce(ctx, colligo.Of(x), colligo.Sum)
	if err == nil && x[0] != 3 {
		err = fmt.Errorf("the sum of 1 and 2 is %d", x[0])
	}
	return errors.Join(err, g.Close())
}

// mappedFile returns the file with a name that this process has mapped, or what it was asked for.
func mappedFile(name, unknown string) string {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return unknown
	}
	defer maps.Close()
	for s := bufio.NewScanner(maps); s.Scan(); {
		if i := strings.IndexByte(s.Text(), '/'); i >= 0 && strings.Contains(s.Text()[i:], name) {
			return s.Text()[i:]
		}
	}
	return unknown
}
