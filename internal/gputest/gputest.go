// Package gputest prepares processes that test on real GPUs.
//
// Invariant: it does nothing unless COLLIGO_GPU is set, as the tests that open real GPUs do.
package gputest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// connections is the driver's variable for how many hardware queues a process has on a device. The driver's own number is 8,
// and a stream beyond it shares a queue with another. Ranks that share a device have more streams. A kernel of one rank that
// waits for another rank then keeps that rank's kernel, behind it in the queue, from starting: the test hangs.
const connections = "CUDA_DEVICE_MAX_CONNECTIONS"

// Prepare gives a process that tests on real GPUs as many hardware queues as the driver has. The driver reads the environment
// of the process's start, so Prepare runs the program again, and ends with its exit status. A TestMain calls it first.
func Prepare() {
	if os.Getenv("COLLIGO_GPU") == "" || os.Getenv(connections) != "" {
		return
	}
	again := exec.Command(os.Args[0], os.Args[1:]...)
	again.Env = append(os.Environ(), connections+"=32")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := again.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "gputest:", err)
	os.Exit(1)
}
