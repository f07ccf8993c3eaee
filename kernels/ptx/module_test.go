package ptx

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// everyModule calls f for each module that there is.
func everyModule(t *testing.T, f func(m Module)) {
	f(MoveModule())
	for _, d := range colligo.DTypes() {
		if u, err := UnaryModule(d); err == nil {
			f(u)
		} else {
			require.False(t, d.Float() || d.Complex(), d)
		}
		for k := colligo.KindSum; k <= colligo.KindPremulSum; k++ {
			everyFamily(t, d, k, f)
		}
	}
}

func everyFamily(t *testing.T, d colligo.DType, k colligo.OpKind, f func(m Module)) {
	for _, family := range []Family{LocalFamily, LLFamily, TileFamily, LL128Family, SentinelFamily, FusedFamily, DirectFamily} {
		m, err := ReduceModule(d, k, family)
		_, _, want := k.Check(d)
		require.Equal(t, want, err)
		if err == nil {
			f(m)
		}
	}
}

var entryOf = regexp.MustCompile(`\.visible \.entry (\w+)\(\n\s*\.param \.align 8 \.b8 \w+\[(\d+)\]\n\)`)

func TestModulesHaveTheirEntries(t *testing.T) {
	seen := map[string]bool{}
	everyModule(t, func(m Module) {
		if seen[m.Name()] {
			return
		}
		seen[m.Name()] = true
		ptx, err := m.PTX()
		require.NoError(t, err)
		require.Contains(t, string(ptx[:60]), fmt.Sprintf(".target sm_%d\n", Target), m.Name())
		var entries []Entry
		for _, found := range entryOf.FindAllStringSubmatch(string(ptx), -1) {
			size, err := strconv.Atoi(found[2])
			require.NoError(t, err)
			entries = append(entries, Entry{found[1], uintptr(size)})
		}
		require.ElementsMatch(t, m.Entries(), entries, m.Name())
		require.Equal(t, len(entries), strings.Count(string(ptx), ".entry"), m.Name())
		require.False(t, strings.Contains(string(ptx), ".local"), "%s keeps arrays in local memory", m.Name())
	})
	modules := 0
	for _, a := range archives {
		modules += len(a.modules)
	}
	require.Len(t, seen, modules, "modules that nobody asks for")
}

func TestReduceModuleOfBoolsAndAverages(t *testing.T) {
	for k, want := range map[colligo.OpKind]string{colligo.KindSum: "bor", colligo.KindMax: "bor", colligo.KindProd: "band",
		colligo.KindMin: "band", colligo.KindBXor: "bxor"} {
		m, err := ReduceModule(colligo.Bool, k, LocalFamily)
		require.NoError(t, err)
		require.Equal(t, "bool/local/"+want, m.Name())
	}
	m, err := ReduceModule(colligo.Complex64, colligo.KindAvg, TileFamily)
	require.NoError(t, err)
	require.Equal(t, "float32/tiles/sum", m.Name())
	_, err = ReduceModule(colligo.Float32, colligo.KindBXor, TileFamily)
	require.ErrorIs(t, err, colligo.ErrOp)
	require.Panics(t, func() { _, _ = ReduceModule(colligo.Float32, colligo.KindSum, "") })
	_, err = UnaryModule(colligo.Bool)
	require.EqualError(t, err, "kernels/ptx: no kernels of one source for bool elements")
}

func TestPTXTarget(t *testing.T) { require.Equal(t, fmt.Sprintf("sm_%d", Target), target) }

func TestArgsAreLaidOutAsInC(t *testing.T) {
	structs := map[string]reflect.Type{}
	for _, v := range []any{GroupArgs{}, ReduceArgs{}, AllReduceArgs{}, ReduceScatterArgs{}, EvenArgs{}, BroadcastArgs{}, LL128Args{}, DirectArgs{}, DirectExchangeArgs{},
		ChainArgs{}, LL128ChainArgs{}, SentinelArgs{}, FusedArgs{}, Message{}, EagerArgs{}, SendRecvArgs{}, ExchangeArgs{}, CopyArgs{}, FillArgs{}, UnaryArgs{}} {
		structs[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	fields := map[string]int{}
	for _, c := range layout {
		s, ok := structs[c.structure]
		require.True(t, ok, c.structure)
		if c.field == "" {
			require.Equal(t, c.offset, s.Size(), c.structure)
			continue
		}
		name := string(unicode.ToUpper(rune(c.field[0]))) + c.field[1:]
		if rest, ll := strings.CutPrefix(c.field, "ll"); ll {
			name = "LL" + rest
		}
		f, ok := s.FieldByName(name)
		require.True(t, ok, "%s.%s", c.structure, name)
		require.Equal(t, c.offset, f.Offset, "%s.%s", c.structure, name)
		fields[c.structure]++
	}
	for name, s := range structs {
		exported := 0
		for i := range s.NumField() {
			if s.Field(i).IsExported() {
				exported++
			}
		}
		require.Equal(t, exported, fields[name], "fields of %s that C++ does not have", name)
	}
}

func TestMemoryLengths(t *testing.T) {
	require.Equal(t, 2*3*512<<10, LLBytes(4, 512<<10))
	require.Equal(t, 64*2*3*4*16<<10, TileBytes(4, 16<<10, 64))
	require.Equal(t, 64*64, FlagBytes(64))
	require.Equal(t, 64*32, MarkBytes(64))
	require.Equal(t, 2*3*2<<20, LL128Bytes(4, 2<<20))
	require.Equal(t, 64+64*32, StateBytes(64))
	require.Equal(t, 4*16<<20/4, SentinelBytes(4, 128))
	require.Equal(t, 128*16*8, CountBytes(128))
	require.Equal(t, 128*16*4, CreditBytes(128))
}

func TestDamagedArchiveIsAnError(t *testing.T) {
	m := MoveModule()
	a := *m.archive
	a.sum = strings.Repeat("0", 64)
	_, err := Module{&a, m.module, nil}.PTX()
	require.ErrorContains(t, err, "kernels/ptx: module move/move: the archive's")
	b := *m.archive
	b.name = "absent"
	_, err = Module{&b, m.module, nil}.PTX()
	require.ErrorContains(t, err, "absent.ptx.zst")
}

// TestAheadPTX holds the two forms of a module apart by target and by the instruction that waits.
func TestAheadPTX(t *testing.T) {
	m, err := ReduceModule(colligo.Float32, colligo.KindSum, LLFamily)
	require.NoError(t, err)
	for _, m := range []Module{m, MoveModule()} {
		everywhere, err := m.PTX()
		require.NoError(t, err)
		require.NotContains(t, string(everywhere), "griddepcontrol")
		ahead, err := m.AheadPTX()
		require.NoError(t, err)
		require.Contains(t, string(ahead[:60]), ".version 7.8\n.target sm_90\n")
		require.NotContains(t, string(ahead), "pragma \"griddepcontrol")
		waits := 0
		for _, e := range m.Entries() {
			_, body, found := strings.Cut(string(ahead), ".entry "+e.Name+"(")
			require.True(t, found, e.Name)
			body, _, _ = strings.Cut(body, ".visible .entry")
			if strings.Contains(body, "griddepcontrol.wait;") {
				waits++
			} else {
				require.Fail(t, "it would begin before it may", e.Name)
			}
		}
		require.Positive(t, waits)
	}
}
