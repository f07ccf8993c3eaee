package pickle

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func dict(pairs ...any) *Dict {
	var d Dict
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i], pairs[i+1])
	}
	return &d
}

func upTo(n int) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = int64(i)
	}
	return l
}

func bigInt(s string) *big.Int {
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic(s)
	}
	return i
}

// values are those of testdata/make.py.
func values() map[string]any {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	n := func(i ...any) Tuple { return append(Tuple{}, upTo(len(i) + 1)[1:]...) }
	return map[string]any{
		"none": nil, "true": true, "false": false,
		"ints": []any{int64(0), int64(1), int64(255), int64(256), int64(65535), int64(65536), int64(-1), int64(math.MaxInt32),
			int64(math.MinInt32), int64(1 << 31), int64(math.MaxInt64), int64(math.MinInt64)},
		"big": []any{bigInt("9223372036854775808"), bigInt("-9223372036854775809"), bigInt("18446744073709551616"),
			bigInt("1" + strings.Repeat("0", 30)), bigInt("-1" + strings.Repeat("0", 700))},
		"floats":    []any{0.0, math.Copysign(0, -1), 1.5, 1e300, math.Inf(1), math.Inf(-1)},
		"text":      []any{"", "a", "ä€😀", "back\\slash \\u0041 line\n", strings.Repeat("x", 300)},
		"list":      []any{[]any{}, []any{int64(1)}, upTo(1001)},
		"tuple":     Tuple{n(), n(1), n(1, 2), n(1, 2, 3), n(1, 2, 3, 4)},
		"dict":      dict("a", int64(1), int64(2), "b", nil, dict(), Tuple{int64(1), "x"}, []any{true}, 1.5, 2.5),
		"shared":    []any{[]any{"s"}, []any{"s"}, dict("k", []any{"s"})},
		"bytes":     []any{[]byte{}, []byte("abc"), all},
		"bytearray": []byte("array"),
	}
}

// printed writes a value so that equal values give equal text, and 0 differs from -0.
func printed(v any) string {
	switch v := v.(type) {
	case []any:
		return "[" + joined(v) + "]"
	case Tuple:
		return "(" + joined(v) + ")"
	case *Dict:
		var parts []string
		for k, e := range v.All() {
			parts = append(parts, printed(k)+": "+printed(e))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case string:
		return strconv.Quote(v)
	case []byte:
		return "b" + strconv.Quote(string(v))
	}
	return fmt.Sprintf("%T %v", v, v)
}

func joined(items []any) string {
	parts := make([]string, len(items))
	for i, v := range items {
		parts[i] = printed(v)
	}
	return strings.Join(parts, ", ")
}

func TestReadPython(t *testing.T) {
	want := values()
	for _, line := range golden(t) {
		v, err := Unmarshal(line.bytes)
		require.NoError(t, err, "%s, protocol %s", line.name, line.protocol)
		require.Equal(t, printed(want[line.name]), printed(v), "%s, protocol %s", line.name, line.protocol)
	}
}

type goldenLine struct {
	name, protocol string
	bytes          []byte
}

func golden(t testing.TB) []goldenLine {
	text, err := os.ReadFile("testdata/golden.txt")
	require.NoError(t, err)
	var all []goldenLine
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		b, err := hex.DecodeString(f[2])
		require.NoError(t, err)
		all = append(all, goldenLine{f[0], f[1], b})
	}
	require.Len(t, all, 11*6+3+1)
	return all
}

func TestReadOwn(t *testing.T) {
	for name, v := range values() {
		for _, protocol := range []int{2, 4} {
			b, err := Append([]byte("before"), v, protocol)
			if protocol == 2 && strings.HasPrefix(name, "byte") {
				require.ErrorContains(t, err, "bytes in protocol 2")
				require.Equal(t, "before", string(b))
				continue
			}
			require.NoError(t, err, name)
			again, err := Unmarshal(b[len("before"):])
			require.NoError(t, err, name)
			require.Equal(t, printed(v), printed(again), name)
		}
	}
}

// TestPythonReads needs Python, and compares what it reads with what it wrote.
func TestPythonReads(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("python3 is not here: only recorded pickles were compared")
		return
	}
	var in strings.Builder
	for _, line := range golden(t) {
		for _, protocol := range []int{2, 4} {
			b, err := Append(nil, values()[line.name], protocol)
			if err == nil {
				fmt.Fprintf(&in, "%x %x\n", line.bytes, b)
			}
		}
	}
	c := exec.Command(python, "-c", `
import pickle, sys
n = 0
for line in sys.stdin:
    want, got = (pickle.loads(bytes.fromhex(h)) for h in line.split())
    if isinstance(want, bytearray): want = bytes(want)
    assert repr(want) == repr(got), (want, got)
    n += 1
print(n)
`)
	c.Stdin, c.Stderr = strings.NewReader(in.String()), os.Stderr
	out, err := c.Output()
	require.NoError(t, err)
	require.Equal(t, strings.Count(in.String(), "\n"), must(strconv.Atoi(strings.TrimSpace(string(out)))))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWriteGoTypes(t *testing.T) {
	type rank int
	type name string
	for _, c := range []struct{ v, want any }{
		{7, int64(7)}, {int8(-7), int64(-7)}, {uint16(7), int64(7)}, {uint64(math.MaxUint64), bigInt("18446744073709551615")},
		{rank(3), int64(3)}, {name("n"), "n"}, {float32(0.5), 0.5}, {big.NewInt(5), int64(5)},
		{[]int{1, 2}, []any{int64(1), int64(2)}}, {[]string{"a", "a"}, []any{"a", "a"}}, {[][]byte{{1}}, []any{[]byte{1}}},
		{map[string]int{"b": 2, "a": 1}, dict("a", int64(1), "b", int64(2))},
		{map[rank]any{2: nil, 1: true}, dict(int64(1), true, int64(2), nil)},
		{map[uint8]name{2: "x", 1: "y"}, dict(int64(1), "y", int64(2), "x")},
	} {
		b, err := Marshal(c.v)
		require.NoError(t, err)
		require.Equal(t, printed(c.want), printed(must(Unmarshal(b))))
	}
}

func TestWriteRefuses(t *testing.T) {
	cycle := []any{nil}
	cycle[0] = cycle
	for _, c := range []struct {
		says string
		v    any
	}{
		{"struct {}", struct{}{}}, {"func()", func() {}}, {"not UTF-8", "\xff"}, {"or a cycle", cycle}, {"keys of type bool", map[bool]int{true: 1}},
		{"nil *Dict", (*Dict)(nil)}, {"nil *big.Int", (*big.Int)(nil)}, {"the limit is 1024", new(big.Int).Lsh(big.NewInt(1), 9000)},
	} {
		_, err := Marshal(c.v)
		require.ErrorContains(t, err, c.says)
	}
	_, err := Append(nil, nil, 3)
	require.ErrorContains(t, err, "protocol 3")
}

func TestReadRefuses(t *testing.T) {
	deep := strings.Repeat("]", 600) + strings.Repeat("a", 599) + "."
	laughs := "]q\x00" + strings.Repeat("]q\x01(h\x00h\x00h\x00h\x00e]q\x00(h\x01h\x01h\x01h\x01e", 20)
	long := "X\x00\x00\x10\x00" + strings.Repeat("x", 1<<20) + "q\x00"
	for _, c := range []struct{ says, pickle string }{
		{"bytes of keys", "}(" + long + "N" + strings.Repeat("h\x00N", 2000) + "u."}, // one key many times
		{"bytes of keys", "}(" + long + strings.Repeat("h\x00", 2000) + "tNs."},      // and many times in one
		{"byte 0: opcode GLOBAL: not a plain value", "cos\nsystem\n(S'true'\ntR."},
		{"byte 6: opcode STACK_GLOBAL", "\x80\x04]\x8c\x01x\x93."},
		{"byte 1: opcode REDUCE", ")R."}, {"opcode BUILD", "Nb."}, {"opcode INST", "(ios\nsystem\n."}, {"opcode OBJ", "(o."},
		{"opcode NEWOBJ", "\x81."}, {"opcode NEWOBJ_EX", "\x92."}, {"opcode EXT1", "\x82\x01."}, {"opcode PERSID", "Px\n."},
		{"opcode BINPERSID", "NQ."}, {"opcode NEXT_BUFFER", "\x97."}, {"opcode POP", "N0."}, {"opcode EMPTY_SET", "\x8f."},
		{"byte 0xff is not an opcode", "\xff"},
		{"end after 0", ""}, {"end after 0", "K"}, {"1 bytes end after 0", "N"}, {"1 bytes behind the value", "N.."},
		{"the end, with 0 values", "."}, {"the end, with 2 values", "NN."}, {"1 marks", "N(."},
		{"no mark", "]e."}, {"1 values needed, 0", "](a."}, {"another type", "NNa."}, {"another type", "]NNs."}, {"another type", "}(NNe."},
		{"1 keys and values", "}(Nu."}, {"list cannot be a key", "}]Ns."}, {"dict cannot be a key", "}}Ns."},
		{"a cycle", "]q\x00h\x00a."}, {"a cycle", "}q\x00Nh\x00s."}, {"filled after it was used", "]q\x00h\x00Na."},
		{"nothing on the stack", "q\x00."}, {"memo 7 is empty", "h\x07."}, {"not a memo's number", "g-1\n."}, {"without an end", "I1"},
		{"2147483648 bytes end after 1", "X\x00\x00\x00\x80."}, {"length 18446744073709551615", "\x8e" + strings.Repeat("\xff", 8)},
		{"the limit is 1024", "\x8b\x01\x04\x00\x00" + strings.Repeat("x", 1025)}, {"digits", "I" + strings.Repeat("1", 3000) + "\n"},
		{"not an int", "Ix\n"}, {"not a float", "Fx\n"}, {"not text", "V\\uD800\n"}, {"not text", "V\\u12\n"}, {"not UTF-8", "\x8c\x01\xff"},
		{"protocol 6", "\x80\x06N."}, {"a frame of 9 bytes ends after 2", "\x95\x09\x00\x00\x00\x00\x00\x00\x00N."},
		{"nested deeper than 512", deep}, {"meets more than 4194304 values", laughs},
	} {
		_, err := Unmarshal([]byte(c.pickle))
		require.ErrorContains(t, err, c.says, "%.60q", c.pickle)
	}
	_, err := Limits{Values: 10}.Unmarshal([]byte(strings.Repeat("N", 21)))
	require.ErrorContains(t, err, "byte 20: more than 10 values")
	_, err = Limits{Depth: 1}.Unmarshal([]byte("]]]aa."))
	require.ErrorContains(t, err, "deeper than 1")
}

// TestRefusedNames holds the table of refused opcodes against that of known ones.
func TestRefusedNames(t *testing.T) {
	known := 0
	for op := range steps {
		_, no := refused[byte(op)]
		require.False(t, no && steps[op] != nil, "%#x", op)
		if no || steps[op] != nil {
			known++
		}
	}
	require.Equal(t, 68, known, "pickletools knows 68 opcodes")
}

func TestDictKeys(t *testing.T) {
	d := dict(true, "yes", "1", "text", []byte("1"), "bytes", Tuple{1.0}, "tuple", Tuple{"1"}, "other", bigInt("1"+strings.Repeat("0", 30)), "big")
	for _, c := range []struct{ key, want any }{
		{1, "yes"}, {1.0, "yes"}, {float32(1), "yes"}, {uint8(1), "yes"}, {"1", "text"}, {[]byte("1"), "bytes"}, {Tuple{true}, "tuple"}, {Tuple{"1"}, "other"},
		{bigInt("1" + strings.Repeat("0", 30)), "big"},
	} {
		v, ok := d.Get(c.key)
		require.True(t, ok, "%v", c.key)
		require.Equal(t, c.want, v)
	}
	_, ok := d.Get(math.NaN())
	require.False(t, ok)
	_, ok = d.Get(1e30 + 1e20)
	require.False(t, ok)
	d.Set(1, "again")
	require.Equal(t, 6, d.Len())
	require.PanicsWithValue(t, "pickle: list cannot be a key of a dict", func() { d.Get([]any{}) })
	require.PanicsWithValue(t, "pickle: map[string]int cannot be a key of a dict", func() { d.Set(map[string]int{}, 1) })
}

// FuzzUnmarshal holds invariants 2 to 4: whatever is read can be written, and is then read again as the same.
func FuzzUnmarshal(f *testing.F) {
	for _, line := range golden(f) {
		f.Add(line.bytes)
	}
	f.Add([]byte("]q\x00(h\x00h\x00e."))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Limits{Depth: 50, Values: 1000}.Unmarshal(b)
		if err != nil {
			return
		}
		first, err := Marshal(v)
		if err != nil {
			t.Fatalf("%s: %v", printed(v), err)
		}
		again, err := Unmarshal(first)
		if err != nil {
			t.Fatalf("%s: %v", printed(v), err)
		}
		second, err := Marshal(again)
		if err != nil || !bytes.Equal(first, second) && !strings.Contains(printed(v), "NaN") {
			t.Fatalf("%s became %s, %v", printed(v), printed(again), err)
		}
	})
}

func FuzzMarshal(f *testing.F) {
	f.Add("text", []byte("bytes"), int64(-1<<40), 0.5, true)
	f.Fuzz(func(t *testing.T, s string, b []byte, i int64, x float64, yes bool) {
		s = strings.ToValidUTF8(s, "?")
		v := []any{s, Tuple{i, x}, dict(s, b, i, yes), b, slices.Repeat([]any{s}, int(uint8(i)))}
		p, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Unmarshal(p)
		if err != nil || printed(again) != printed(v) {
			t.Fatalf("%s became %s, %v", printed(v), printed(again), err)
		}
	})
}
