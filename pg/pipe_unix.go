//go:build unix

package pg

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// pipe is a named pipe. Whatever is written to it asks for a dump.
type pipe struct {
	path string
	fd   int
}

// openPipe makes the pipe of this rank, nil if none is asked for or if it cannot be.
func openPipe(h *failureHandler) *pipe {
	beginning := h.config.Recorder.DumpPipe
	if beginning == "" {
		return nil
	}
	p := &pipe{path: beginning + strconv.Itoa(h.globalRank()) + ".pipe"}
	if err := p.open(); err != nil {
		h.log.Warn("no pipe to ask for dumps", "group", h.name, "rank", h.rank, "error", err)
		return nil
	}
	return p
}

func (p *pipe) open() error {
	if err := os.Remove(p.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := syscall.Mkfifo(p.path, 0o666); err != nil {
		return fmt.Errorf("mkfifo %s: %w", p.path, err)
	}
	fd, err := syscall.Open(p.path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.path, err)
	}
	p.fd = fd
	return nil
}

// asks reports whether something was written since the last look.
func (p *pipe) asks() bool {
	if p == nil {
		return false
	}
	asked := false
	var b [128]byte
	for {
		n, err := syscall.Read(p.fd, b[:])
		if n <= 0 || err != nil {
			return asked
		}
		asked = true
	}
}

func (p *pipe) close() {
	if p == nil {
		return
	}
	// The name is all that could outlive the process; whoever writes to it finds no reader.
	_ = syscall.Close(p.fd)
	_ = os.Remove(p.path)
}
