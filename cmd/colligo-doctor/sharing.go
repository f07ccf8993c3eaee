package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/cuda"
)

// taskFlag stands before a part of a check that the doctor asks of another process of its own. It is no flag of the user's.
const taskFlag = "-task"

// The value that the process that owns memory writes, and the value that the other process writes back.
const (
	sharedBytes = 64 << 10
	asked       = 0x21
	answered    = 0x42
)

// sharing tries the two ways in which processes reach each other's device memory.
func (e *examiner) sharing() {
	d := e.devices[0]
	try := func(kind string, check func(t cuda.Thread) error) error {
		t, err := d.Enter()
		if err == nil {
			err = check(t)
			t.Leave()
		}
		answer := "works"
		if err != nil {
			answer = err.Error()
		}
		e.say("ipc", "%s between processes: %s", kind, answer)
		return err
	}
	if try("cuIpcGetMemHandle", e.byHandle) != nil {
		e.miss("let the containers of a host share namespaces (docker run --ipc host --pid host; in Kubernetes hostIPC and hostPID), or run a host's ranks in one process",
			"IPC handles of device memory: ranks on GPUs have to share one process")
	}
	// Only newer code paths use descriptors, so one way is enough.
	_ = try("cuMem file descriptor", e.byDescriptor)
}

func (e *examiner) byHandle(t cuda.Thread) (err error) {
	p, err := t.Alloc(sharedBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Free(p)) }()
	h, err := t.IPCHandle(p)
	if err != nil {
		return err
	}
	return e.ask(t, p, "handle:"+hex.EncodeToString(h[:]), nil)
}

func (e *examiner) byDescriptor(t cuda.Thread) (err error) {
	for _, a := range []cuda.Attribute{cuda.VirtualMemory, cuda.FileDescriptorHandles} {
		if v, err := t.Attribute(a); err != nil || v == 0 {
			return errors.Join(errors.New("the device does not support it"), err)
		}
	}
	m, err := t.AllocShared(sharedBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.FreeShared(m)) }()
	fd, err := t.ExportFD(m)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "device memory")
	defer func() { err = errors.Join(err, f.Close()) }()
	return e.ask(t, m.Pointer, fmt.Sprintf("descriptor:%d", m.Bytes), f)
}

// ask has another process read the memory and answer in it.
func (e *examiner) ask(t cuda.Thread, p cuda.Pointer, task string, f *os.File) error {
	if err := errors.Join(t.Set8(p, asked, sharedBytes, 0), t.Synchronize(0)); err != nil {
		return err
	}
	if err := e.another(task, f); err != nil {
		return err
	}
	return holds(t, p, answered)
}

// holds looks whether the memory is full of a byte.
func holds(t cuda.Thread, p cuda.Pointer, want byte) (err error) {
	h, err := t.AllocHost(sharedBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.FreeHost(h)) }()
	if err := errors.Join(t.Copy(h.Device, p, sharedBytes, 0), t.Synchronize(0)); err != nil {
		return err
	}
	for i, b := range h.Bytes {
		if b != want {
			return fmt.Errorf("byte %d of the shared memory is %#02x, not %#02x", i, b, want)
		}
	}
	return nil
}

// another runs this program again, with a file as its descriptor 3.
func another(task string, f *os.File) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, taskFlag, task)
	if f != nil {
		cmd.ExtraFiles = []*os.File{f}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the other process: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// doTask is the other process's part. The last device is used: the memory is on the first.
func doTask(task string, stderr io.Writer, open func() (*cuda.Driver, error)) int {
	if err := answer(open, task); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func answer(open func() (*cuda.Driver, error), task string) (err error) {
	driver, err := open()
	if err != nil {
		return err
	}
	n, err := driver.Devices()
	if err != nil {
		return err
	}
	d, err := driver.Device(n - 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	t, err := d.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	kind, rest, _ := strings.Cut(task, ":")
	switch kind {
	case "handle":
		return answerHandle(t, rest)
	case "descriptor":
		return answerDescriptor(t, rest)
	}
	return fmt.Errorf("no task %q", task)
}

func answerHandle(t cuda.Thread, text string) (err error) {
	var h cuda.IPCHandle
	if n, err := hex.Decode(h[:min(len(h), len(text)/2)], []byte(text)); err != nil || n != len(h) {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	p, err := t.OpenIPC(h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.CloseIPC(p)) }()
	return answerIn(t, p)
}

func answerDescriptor(t cuda.Thread, text string) (err error) {
	const inherited = 3
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	m, err := t.ImportShared(inherited, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.FreeShared(m)) }()
	return answerIn(t, m.Pointer)
}

func answerIn(t cuda.Thread, p cuda.Pointer) error {
	if err := holds(t, p, asked); err != nil {
		return err
	}
	return errors.Join(t.Set8(p, answered, sharedBytes, 0), t.Synchronize(0))
}
