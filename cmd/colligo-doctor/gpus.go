package main

import (
	"errors"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// gpus looks for the driver and its devices.
func (e *examiner) gpus(open func() (*cuda.Driver, error)) {
	d, err := open()
	card := e.card()
	switch {
	case errors.Is(err, cuda.ErrNoDriver) && card == "":
		e.say("driver", "none, and no NVIDIA device in this system: collectives run on the CPU")
		return
	case err != nil:
		e.say("driver", "%v", err)
		e.miss("install the NVIDIA driver of this GPU and load it (nvidia-smi must list it); start containers with the NVIDIA runtime (docker run --gpus all)",
			"a working NVIDIA driver%s", card)
		return
	}
	e.driver = d
	major, minor, err := d.Version()
	if e.check(err) {
		e.say("driver", "CUDA %d.%d, %s", major, minor, d.Path)
	}
	n, err := d.Devices()
	if e.check(err) && n == 0 {
		e.say("devices", "none")
		e.miss("see what nvidia-smi -L lists; unset CUDA_VISIBLE_DEVICES or name devices that exist; start containers with --gpus all",
			"a device: the driver shows none%s", card)
	}
	for i := range n {
		e.device(i)
	}
}

// card says which sign of a GPU there is without the driver's help.
func (e *examiner) card() string {
	for _, path := range []string{"/dev/nvidia0", "/dev/dxg"} {
		if e.exists(path) {
			return ", for there is " + path
		}
	}
	return ""
}

// device opens a device and describes it.
func (e *examiner) device(i int) {
	d, err := e.driver.Device(i)
	if !e.check(err) {
		return
	}
	e.devices = append(e.devices, d)
	name, err1 := d.Name()
	uuid, err2 := d.UUID()
	bus, err3 := d.PCIBusID()
	memory, err4 := d.Memory()
	major, err5 := d.Attribute(cuda.ComputeCapabilityMajor)
	minor, err6 := d.Attribute(cuda.ComputeCapabilityMinor)
	processors, err7 := d.Attribute(cuda.MultiprocessorCount)
	if !e.check(errors.Join(err1, err2, err3, err4, err5, err6, err7)) {
		return
	}
	e.say("device "+strings.TrimPrefix(d.String(), "cuda:"), "%s\t%s\t%s\tcompute capability %d.%d\t%d multiprocessors\t%s", name,
		colligo.FormatBytes(int64(memory)), uuid, major, minor, processors, bus)
	if major < 7 {
		e.miss("leave the device out with CUDA_VISIBLE_DEVICES, or use NCCL on it",
			"a newer device: kernels need compute capability 7.0, %v has %d.%d", d, major, minor)
	}
}
