package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// Values of -device.
const (
	onCPU      = "cpu"
	onCUDA     = "cuda"
	whatThere  = "auto"
	nvlsSwitch = "NCCL_NVLS_ENABLE" // NVLink multicast in NCCL; the comparison leaves it off
)

// machine is the GPUs that this process sees.
type machine struct {
	driver  *cuda.Driver // nil on the CPU
	devices int
}

// resolve opens the driver if -device may need it, and replaces auto. It says so where it falls back to the CPU.
func (o *options) resolve(p process) error {
	if o.device == whatThere && o.isExternal() {
		o.device = onCPU
	}
	switch o.device {
	case onCPU:
		return nil
	case onCUDA, whatThere:
	default:
		return fmt.Errorf("-device %s: there are auto, cpu and cuda", o.device)
	}
	m, err := openMachine(p.open)
	if err == nil {
		o.device, o.machine = onCUDA, m
		return nil
	}
	if o.device == onCUDA {
		return fmt.Errorf("-device cuda: %w", err)
	}
	o.device = onCPU
	if !o.joins || p.getenv("RANK") == "0" {
		fmt.Fprintf(p.stderr, "bench: -device auto takes the CPU: %s\n", shortly(err))
	}
	return nil
}

func openMachine(open func() (*cuda.Driver, error)) (machine, error) {
	d, err := open()
	if err != nil {
		return machine{}, err
	}
	n, err := d.Devices()
	if err == nil && n == 0 {
		err = fmt.Errorf("the driver %s shows no device", d.Path)
	}
	return machine{d, n}, err
}

// shortly leaves out what was searched for a driver.
func shortly(err error) string {
	if errors.Is(err, cuda.ErrNoDriver) {
		return cuda.ErrNoDriver.Error()
	}
	return strings.TrimSpace(err.Error())
}

// checkDevice refuses flags that the device does not go with. It comes after resolve.
func (o *options) checkDevice() error {
	switch {
	case o.compare != "" && o.compare != "nccl" && !o.isExternal():
		return fmt.Errorf("-compare %s: there is nccl on GPUs, openmpi and gloo on the CPU", o.compare)
	case o.isExternal() && o.device == onCUDA:
		return fmt.Errorf("-compare %s: it is compared on the CPU; this is -device cuda", o.compare)
	case o.isExternal() && o.inOneProcess():
		return fmt.Errorf("-compare %s: it has a process for each rank, and so must colligo have", o.compare)
	case o.isExternal():
		return o.checkMemory(hostBytes())
	case o.nccl != "" && o.compare == "" && !o.onNCCL():
		return fmt.Errorf("-nccl %s: only -compare nccl, -backend nccl and -transport nccl use it", o.nccl)
	case o.graph < 0:
		return fmt.Errorf("-graph %d: the number of operations is at least 1", o.graph)
	case o.device == onCUDA && o.compare != "" && o.ranks > o.machine.devices:
		return fmt.Errorf("-compare nccl: NCCL needs a GPU for each rank; these are %d ranks and %d GPUs", o.ranks, o.machine.devices)
	case o.device == onCUDA:
		return nil
	case o.compare != "":
		return fmt.Errorf("-compare nccl: NCCL knows tensors on GPUs only; this is -device %s", o.device)
	case o.register:
		return fmt.Errorf("-register: only memory of GPUs can be registered; this is -device %s", o.device)
	case o.graph > 0:
		return fmt.Errorf("-graph: only operations on GPUs can be captured; this is -device %s", o.device)
	case o.heap > 0:
		return fmt.Errorf("-heap %v: only GPUs take part through one; this is -device %s", &o.heap, o.device)
	}
	return o.checkMemory(hostBytes())
}

// checkMemory refuses sizes that a host with so many bytes cannot hold; the system would end the process that takes the
// memory, without a word.
func (o *options) checkMemory(host uint64) error {
	here := uint64(o.ranks)
	if o.joins {
		here = 1 // others may be elsewhere
	}
	if largest := o.largest(); host > 0 && uint64(largest) > host/(uint64(stretches)*here) {
		return fmt.Errorf("-e %v: %d ranks with %d tensors of %s each need more than the %s of this machine", &o.end, here, stretches,
			colligo.FormatBytes(int64(largest)), colligo.FormatBytes(int64(host)))
	}
	return nil
}
