package ptx

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/colligo-go/colligo"
)

//go:generate go run -C ../_gen ./ptx

// Target is the compute capability that the GPU kernels need, 10 × major + minor; newer devices run them too.
const Target = 80

//go:embed *.ptx.zst
var files embed.FS

type archive struct {
	name    string
	bytes   int
	sum     string // SHA-256 of what the archive holds
	modules []module
}

type module struct {
	name       string
	start, end int
}

// Family names the entry points of a kind of reduction that are loaded together.
type Family string

// The families.
const (
	LocalFamily    Family = "local"    // ReduceTwo
	LLFamily       Family = "ll"       // AllReduceLL, AllReduceLLTwoShot, ReduceScatterLL, ReduceScatterLLEven
	TileFamily     Family = "tiles"    // AllReduceTiles, ReduceScatterTiles
	LL128Family    Family = "ll128"    // AllReduceLL128, AllReduceLL128TwoShot
	SentinelFamily Family = "sentinel" // AllReduceSentinel
	FusedFamily    Family = "fused"    // AllReduceFused
	DirectFamily   Family = "direct"   // AllReduceDirect
)

// A Module is GPU kernels that are loaded together. The zero Module has no kernels.
type Module struct {
	archive *archive
	module  module
	entries []Entry
}

// ReduceModule returns the GPU kernels of kind k on elements of type d, or the error of OpKind.Check. An average is the sum
// with a divisor, a premultiplied sum is the sum; complex elements are pairs of reals.
func ReduceModule(d colligo.DType, k colligo.OpKind, f Family) (Module, error) {
	if _, _, err := k.Check(d); err != nil {
		return Module{}, err
	}
	name := k.String()
	switch k {
	case colligo.KindAvg, colligo.KindPremulSum:
		name = colligo.KindSum.String()
	}
	if d == colligo.Bool {
		switch k {
		case colligo.KindSum, colligo.KindMax:
			name = colligo.KindBOr.String()
		case colligo.KindProd, colligo.KindMin:
			name = colligo.KindBAnd.String()
		}
	}
	return find(d.Real().String(), string(f)+"/"+name, familyEntries(f)), nil
}

// UnaryModule returns the GPU kernel of one source, Scale, for floating point types. Complex elements are pairs of reals.
// There is none for integers and bools.
func UnaryModule(d colligo.DType) (Module, error) {
	if !d.Float() && !d.Complex() {
		return Module{}, fmt.Errorf("kernels/ptx: no kernels of one source for %v elements", d)
	}
	return find(d.Real().String(), "unary", unaryEntries), nil
}

// MoveModule returns the GPU kernels that know no element type: Copy, the Exchanges and Broadcasts.
func MoveModule() Module { return find("move", "move", moveEntries) }

func find(archive, module string, entries []Entry) Module {
	for i := range archives {
		a := &archives[i]
		for _, m := range a.modules {
			if a.name == archive && m.name == module {
				return Module{a, m, entries}
			}
		}
	}
	panic("kernels/ptx: no module " + module + " for " + archive)
}

// Name returns, for example, "float32/ll/sum".
func (m Module) Name() string { return m.archive.name + "/" + m.module.name }

// Entries returns the entry points. The slice is shared and must not be changed.
func (m Module) Entries() []Entry { return m.entries }

// PTX returns the module's source for the driver's compiler, for all devices. The slice is shared and must not be changed. The archive of
// an element type, some 2 MB, is decompressed once in a process.
func (m Module) PTX() ([]byte, error) {
	return m.text(false, func(source []byte) []byte {
		return bytes.ReplaceAll(source, []byte("\t.pragma \"griddepcontrol.wait\";\n"), nil)
	})
}

// AheadPTX returns a module's code for devices of compute capability 9.0 and later. There a kernel that is launched ahead
// waits itself for the work before it on its stream. Kernels of local and unary modules do not wait, and must not be
// launched ahead. The slice is shared and must not be changed.
func (m Module) AheadPTX() ([]byte, error) {
	return m.text(true, func(source []byte) []byte {
		ptx := bytes.ReplaceAll(source, []byte("\t.pragma \"griddepcontrol.wait\";"), []byte("\tgriddepcontrol.wait;")) // a copy
		if at := bytes.Index(ptx, []byte(header)); at >= 0 {
			copy(ptx[at:], aheadHeader)
		}
		return ptx
	})
}

// text returns one of a module's two texts, which is made once in a process: each rank of a process loads the same few.
func (m Module) text(ahead bool, from func(source []byte) []byte) ([]byte, error) {
	type key struct {
		archive *archive
		module  module
		ahead   bool
	}
	of := key{m.archive, m.module, ahead}
	if text, ok := texts.Load(of); ok {
		return text.([]byte), nil
	}
	source, err := m.source()
	if err != nil {
		return nil, err
	}
	text, _ := texts.LoadOrStore(of, from(source))
	return text.([]byte), nil
}

// texts has the texts of the modules that were asked for.
var texts sync.Map

// The lines that say what a module's source needs, and what it needs as AheadPTX. They are equally long.
const (
	header      = ".version 7.0\n.target sm_80\n"
	aheadHeader = ".version 7.8\n.target sm_90\n"
)

// source returns the module's source, which is shared and must not be changed.
func (m Module) source() ([]byte, error) {
	once, _ := unpacked.LoadOrStore(m.archive, sync.OnceValues(m.archive.unpack))
	all, err := once.(func() ([]byte, error))()
	if err != nil {
		return nil, fmt.Errorf("kernels/ptx: module %s: %w", m.Name(), err)
	}
	return all[m.module.start:m.module.end], nil
}

// unpacked has the contents of the archives that were asked for.
var unpacked sync.Map

func (a *archive) unpack() ([]byte, error) {
	packed, err := files.ReadFile(a.name + ".ptx.zst")
	if err != nil {
		return nil, err
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := r.DecodeAll(packed, make([]byte, 0, a.bytes))
	if err != nil {
		return nil, err
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(all)); sum != a.sum || len(all) != a.bytes {
		return nil, fmt.Errorf("the archive's %d bytes have sum %s, not %s", len(all), sum, a.sum)
	}
	return all, nil
}

// A field is the offset of a C++ struct's field, or the size of the struct if it has no name.
type field struct {
	structure, field string
	offset           uintptr
}
