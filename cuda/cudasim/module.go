package cudasim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"

	"github.com/colligo-go/colligo/cuda"
)

type module struct {
	context *context
	image   []byte
	sum     [sha256.Size]byte
}

type function struct {
	module *module
	kernel *kernel
	loaded bool
}

// Image returns PTX that has entry points of these names, for tests that have no kernels of their own.
func Image(entries ...string) []byte {
	b := []byte(".version 7.0\n.target sm_80\n.address_size 64\n")
	for _, e := range entries {
		b = fmt.Appendf(b, ".visible .entry %s(.param .b64 %s_param_0)\n{\n\tret;\n}\n", e, e)
	}
	return b
}

// imageSum leaves out the zero byte that ends the image for the driver.
func imageSum(image []byte) [sha256.Size]byte {
	return sha256.Sum256(bytes.TrimSuffix(image, []byte{0}))
}

var (
	versionLine = regexp.MustCompile(`(?m)^\s*\.version\s+(\d+)\.(\d+)`)
	targetLine  = regexp.MustCompile(`(?m)^\s*\.target\s+sm_(\d+)`)
)

// newestPTX is the newest version that CUDA 13.0's driver compiles.
const newestPTX = 90

// moduleLoadDataEx looks at PTX only for its version, its target and the names in it.
func (c *call) moduleLoadDataEx(image []byte) (cuda.Module, string, cuda.Result) {
	if len(image) == 0 || image[len(image)-1] != 0 {
		return 0, "", cuda.InvalidImage
	}
	version, target := versionLine.FindSubmatch(image), targetLine.FindSubmatch(image)
	if version == nil || target == nil {
		return 0, "ptxas fatal : no .version and .target", cuda.InvalidPTX
	}
	if v := 10*number(version[1]) + number(version[2]); v > newestPTX {
		return 0, fmt.Sprintf("ptxas fatal : unsupported .version %d.%d", v/10, v%10), cuda.UnsupportedPTXVersion
	}
	have := 10*c.sim.attribute(cuda.ComputeCapabilityMajor) + c.sim.attribute(cuda.ComputeCapabilityMinor)
	if want := number(target[1]); want > have {
		return 0, fmt.Sprintf("ptxas fatal : .target sm_%d is above this device's sm_%d", want, have), cuda.InvalidPTX
	}
	m := &module{context: c.context, image: bytes.Clone(image), sum: imageSum(image)}
	h := cuda.Module(c.sim.handle())
	c.process.modules[h] = m
	return h, "", cuda.Success
}

func number(digits []byte) int {
	n, err := strconv.Atoi(string(digits))
	if err != nil { // too many digits
		return 1 << 30
	}
	return n
}

func (c *call) moduleUnload(h cuda.Module) cuda.Result {
	m := c.process.modules[h]
	if m == nil {
		return cuda.InvalidHandle
	}
	delete(c.process.modules, h)
	for h, f := range c.process.functions {
		if f.module == m {
			delete(c.process.functions, h)
		}
	}
	return cuda.Success
}

func (c *call) moduleGetFunction(h cuda.Module, name string) (cuda.Function, cuda.Result) {
	m := c.process.modules[h]
	if m == nil {
		return 0, cuda.InvalidHandle
	}
	entry := regexp.MustCompile(`\.entry\s+` + regexp.QuoteMeta(name) + `\s*[({]`)
	if name == "" || !entry.Match(m.image) {
		return 0, cuda.NotFound
	}
	k := c.sim.kernels[kernelKey{m.sum, name}]
	if k == nil {
		k = c.sim.kernels[kernelKey{name: name}]
	}
	if k == nil {
		c.sim.fault("no model kernel is registered for entry point " + name)
		return 0, cuda.NotFound
	}
	for h, f := range c.process.functions {
		if f.module == m && f.kernel == k {
			return h, cuda.Success
		}
	}
	f := cuda.Function(c.sim.handle())
	c.process.functions[f] = &function{module: m, kernel: k, loaded: c.sim.config.EagerLoading}
	return f, cuda.Success
}

func (c *call) funcLoad(h cuda.Function) cuda.Result {
	f := c.process.functions[h]
	if f == nil {
		return cuda.InvalidHandle
	}
	return c.load(f)
}

// load puts a function on its device, which waits for the device with the process locked. So two devices that wait for
// one another deadlock, if what one of them waits for is enqueued later by another call of the process.
func (c *call) load(f *function) cuda.Result {
	if f.loaded {
		return cuda.Success
	}
	r := c.locked(func() cuda.Result { return c.idle(f.module.context) })
	f.loaded = r == cuda.Success
	return r
}
