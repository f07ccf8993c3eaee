//go:build amd64 || arm64

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's, not libc's: handler, flags, restorer, mask (asm-generic/signal.h, the same on both machines).
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	onStack    = 0x08000000 // SA_ONSTACK
	lastSignal = 64
)

// repairSignals makes every installed signal handler run on the alternate stack. Go's threads run on small stacks of their
// own, and the runtime aborts when a handler without the flag runs on one of them. Some drivers install such handlers in
// cuInit.
func repairSignals() error {
	for sig := 1; sig <= lastSignal; sig++ {
		var a sigaction
		if err := rtSigaction(sig, nil, &a); err != nil {
			return fmt.Errorf("cuda: reading the handler of signal %d: %w", sig, err)
		}
		if a.handler <= 1 || a.flags&onStack != 0 { // 0 is the default, 1 ignores
			continue
		}
		a.flags |= onStack
		if err := rtSigaction(sig, &a, nil); err != nil && !errors.Is(err, unix.EINVAL) { // SIGKILL and SIGSTOP
			return fmt.Errorf("cuda: putting the handler of signal %d on the alternate stack: %w", sig, err)
		}
	}
	return nil
}

func rtSigaction(sig int, set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), unsafe.Sizeof(sigaction{}.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
