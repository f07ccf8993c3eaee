package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/colligo-go/colligo/store/tcpstore"
)

// programs are what the tests start, by name.
var programs = map[string]func() int{
	"environment": printEnvironment,
	"meet":        meet,
	"fail":        failAsRankOne,
	"heed":        heedRankOne,
	"stubborn":    ignoreSignals,
	"graceful":    endOnSignal,
	"family":      leaveAChild,
	"sleep":       sleep,
	"pid":         sayWho,
	"launcher":    launchOne,
}

func printEnvironment() int {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, mode) {
			fmt.Println(v)
		}
	}
	return 0
}

// meet counts all ranks in the launcher's store.
func meet() int {
	if err := await("here/0", "here/1", "here/2"); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("met")
	return 0
}

// await says in the launcher's store that this rank is here, and waits there until others are.
func await(keys ...string) error {
	ctx := context.Background()
	addr := os.Getenv("MASTER_ADDR") + ":" + os.Getenv("MASTER_PORT")
	s, err := tcpstore.Dial(ctx, addr, tcpstore.ClientOptions{})
	if err == nil {
		err = s.Set(ctx, "here/"+os.Getenv("RANK"), nil)
	}
	if err == nil {
		err = s.Wait(ctx, keys...)
	}
	return err
}

func failAsRankOne() int {
	if os.Getenv("RANK") == "1" {
		fmt.Println("giving up")
		return 7
	}
	return sleep()
}

// heedRankOne fails as rank 1, and as rank 0 soon knows of it.
func heedRankOne() int {
	if err := await("here/0", "here/1"); err != nil {
		fmt.Println(err)
		return 1
	}
	if os.Getenv("RANK") != "0" {
		return failAsRankOne()
	}
	time.Sleep(5 * time.Second) // long after rank 1 has failed, on a busy machine as well
	fmt.Println("rank 1 is gone")
	return 1
}

func sleep() int {
	time.Sleep(5 * time.Minute)
	return 0
}

// ignoreSignals fails as rank 1; the other ranks have to be killed.
func ignoreSignals() int {
	if os.Getenv("RANK") == "0" {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		fmt.Println("deaf")
	}
	if err := await("here/0", "here/1"); err != nil { // so that rank 0 is deaf when rank 1 fails
		fmt.Println(err)
		return 1
	}
	return failAsRankOne()
}

// endOnSignal says which signal it got.
func endOnSignal() int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, os.Interrupt)
	fmt.Println("ready")
	fmt.Println("got", <-c)
	return 0
}

// leaveAChild starts a sleeper that keeps the output open, says its id, and fails.
func leaveAChild() int {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), mode+"=sleep")
	c.Stdout = os.Stdout
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("child", c.Process.Pid)
	return 3
}

func sayWho() int {
	fmt.Println(os.Getpid())
	return sleep()
}

// launchOne is a launcher, to be killed.
func launchOne() int {
	j := Job{Program: os.Args[0], Ranks: 1, Env: append(os.Environ(), mode+"=pid"),
		Output: func(int) (stdout, stderr io.Writer) { return os.Stdout, os.Stderr }}
	fmt.Println(j.Run(context.Background()))
	return 0
}
