package cudasim

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"regexp"
	"strconv"
	"sync"

	"github.com/colligo-go/colligo/cuda"
)

type module struct {
	context *context
	sum     imageSum
	text    *imageText
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

// An imageSum tells images apart. It holds in this operating system process only.
type imageSum struct {
	hash  uint64
	bytes int
}

var imageSeed = maphash.MakeSeed()

// sumOf leaves out the zero byte that ends the image for the driver.
func sumOf(image []byte) imageSum {
	image = bytes.TrimSuffix(image, []byte{0})
	return imageSum{maphash.Bytes(imageSeed, image), len(image)}
}

var (
	versionLine = regexp.MustCompile(`(?m)^\s*\.version\s+(\d+)\.(\d+)`)
	targetLine  = regexp.MustCompile(`(?m)^\s*\.target\s+sm_(\d+)`)
	entryPoint  = regexp.MustCompile(`\.entry\s+([^({]*?)\s*[({]`)
)

// An imageText is what the simulator reads in PTX.
type imageText struct {
	versioned       bool // it has a version and a target
	version, target int  // each 10 × major + minor
	entries         map[string]bool
}

// imageTexts has an imageText for each imageSum: the ranks of all tests load the same images.
var imageTexts sync.Map

func readImage(image []byte, sum imageSum) *imageText {
	if t, ok := imageTexts.Load(sum); ok {
		return t.(*imageText)
	}
	t := &imageText{entries: map[string]bool{}}
	version, target := versionLine.FindSubmatch(image), targetLine.FindSubmatch(image)
	if version != nil && target != nil {
		t.versioned = true
		t.version, t.target = 10*number(version[1])+number(version[2]), number(target[1])
	}
	for _, m := range entryPoint.FindAllSubmatch(image, -1) {
		t.entries[string(m[1])] = true
	}
	imageTexts.Store(sum, t)
	return t
}

// newestPTX is the newest version that CUDA 13.0's driver compiles.
const newestPTX = 90

// moduleLoadDataEx looks at PTX only for its version, its target and the names in it.
func (c *call) moduleLoadDataEx(image []byte) (cuda.Module, string, cuda.Result) {
	if len(image) == 0 || image[len(image)-1] != 0 {
		return 0, "", cuda.InvalidImage
	}
	sum := sumOf(image)
	text := readImage(image, sum)
	if !text.versioned {
		return 0, "ptxas fatal : no .version and .target", cuda.InvalidPTX
	}
	if v := text.version; v > newestPTX {
		return 0, fmt.Sprintf("ptxas fatal : unsupported .version %d.%d", v/10, v%10), cuda.UnsupportedPTXVersion
	}
	have := 10*c.sim.attribute(cuda.ComputeCapabilityMajor) + c.sim.attribute(cuda.ComputeCapabilityMinor)
	if text.target > have {
		return 0, fmt.Sprintf("ptxas fatal : .target sm_%d is above this device's sm_%d", text.target, have), cuda.InvalidPTX
	}
	m := &module{context: c.context, sum: sum, text: text}
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
	if !m.text.entries[name] {
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
