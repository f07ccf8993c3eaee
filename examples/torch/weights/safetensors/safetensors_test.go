package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// file makes a file by hand.
func file(header, data string) *bytes.Reader {
	return bytes.NewReader(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+data...))
}

// TestRead reads a file that is made by hand, with its names in another order than its bytes.
func TestRead(t *testing.T) {
	r := file(`{"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[3,7]},"__metadata__":{"format":"pt"},`+
		`"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"none":{"shape":[0,9],"data_offsets":[7,7],"dtype":"F64"},`+
		`"one":{"dtype":"I16","shape":[],"data_offsets":[7,9]}}   `, "abcdefghi")
	f, err := Read(r, r.Size())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"format": "pt"}, f.Metadata)
	var all []string
	for i := range f.Tensors {
		b, err := io.ReadAll(f.Open(&f.Tensors[i]))
		require.NoError(t, err)
		all = append(all, fmt.Sprint(f.Tensors[i].Name, " ", f.Tensors[i].DType, " ", f.Tensors[i].Shape, " ", string(b)))
	}
	require.Equal(t, []string{"a U8 [3] abc", "b BF16 [2 1] defg", "none F64 [0 9] ", "one I16 [] hi"}, all)
}

// TestWrite writes a tensor of every type and reads all of them back.
func TestWrite(t *testing.T) {
	h := &Header{Metadata: map[string]string{"by": "a \"test\"\n", "": "é"}}
	var data []byte
	for dtype, bits := range sizes {
		b := bytes.Repeat([]byte{byte(len(data))}, bits) // 8 elements
		h.Tensors = append(h.Tensors, Tensor{"<" + dtype + ">", dtype, []int64{2, 1, 4}, int64(len(data)), int64(len(data) + bits)})
		data = append(data, b...)
	}
	var out bytes.Buffer
	require.NoError(t, WriteHeader(&out, h))
	require.Zero(t, out.Len()%8, "tensors begin at a multiple of 8")
	out.Write(data)
	f, err := Read(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	require.Equal(t, *h, f.Header)
	b, err := io.ReadAll(f.Open(&f.Tensors[3]))
	require.NoError(t, err)
	require.Equal(t, data[f.Tensors[3].Begin:f.Tensors[3].End], b)
}

// TestHostileHeaders holds each header that must be refused to the words that say why.
func TestHostileHeaders(t *testing.T) {
	one := func(dtype, shape, at string) string {
		return `{"w":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + at + `}}`
	}
	deep := strings.Repeat(`[`, 1<<20)
	for _, c := range []struct{ header, want string }{
		{``, "does not begin with {"},
		{` {}`, "does not begin with {"},
		{`[]`, "does not begin with {"},
		{`{`, "unexpected EOF"},
		{`{}{}`, "2 bytes stand behind it"},
		{"{}\n", "1 bytes stand behind it"},
		{"{\"\xff\":1}", "not UTF-8"},
		{`{"w":1}`, `1 at byte 6, want {`},
		{`{"w":` + deep, `[ at byte 6, want {`},
		{one("F32", deep, "[0,4]"), `[ at byte`},
		{one("F32", "[1]", "[0,4,4]"), "more than 2 numbers"},
		{one("F32", "[1]", "[4]"), "data_offsets has 1 numbers"},
		{one("F33", "[1]", "[0,4]"), `element type "F33" is not known`},
		{one("F32", "[1]", "[0,8]"), `tensor "w" has 8 bytes, F32 of shape [1] has 4`},
		{one("F32", "[1]", "[4,8]"), "begins at byte 4, the one before it ends at 0"},
		{one("F32", "[-1]", "[0,4]"), "want a whole number from 0"},
		{one("F32", "[1e1]", "[0,40]"), "want a whole number from 0"},
		{one("F32", "[1.0]", "[0,4]"), "want a whole number from 0"},
		{one("F32", "[1]", "[4,0]"), "has bytes [4, 0)"},
		{one("F32", "[9223372036854775807]", "[0,4]"), "overflows"},
		{one("F32", "[4294967296,4294967296,4294967296]", "[0,0]"), "overflows"},
		{one("F32", "[9223372036854775808]", "[0,4]"), "want a whole number from 0"},
		{one("F32", "["+strings.Repeat("1,", 64)+"1]", "[0,4]"), "more than 64 numbers"},
		{one("F4", "[3]", "[0,1]"), "does not fill its last byte"},
		{`{"w":{"dtype":"U8","shape":[]}}`, "are not all there"},
		{`{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1],"code":"x"}}`, `"code" is not part of the format`},
		{`{"w":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "dtype stands there twice"},
		{`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, `tensor "w" stands in it twice`},
		{`{"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, `"w" begins at byte 1`},
		{`{"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, `"w" begins at byte 3`},
		{`{"__metadata__":{},"__metadata__":{}}`, "twice"},
		{`{"__metadata__":{"a":"b","a":"c"}}`, `metadata "a" stands in it twice`},
		{`{"__metadata__":{"a":1}}`, "want a string"},
	} {
		_, err := Parse([]byte(c.header))
		require.ErrorContains(t, err, c.want, "%.200s", c.header)
	}
	_, err := Parse(make([]byte, MaxHeader+1))
	require.ErrorContains(t, err, "at most 100000000")
}

// TestHostileFiles refuses files whose length does not fit, before it takes memory for a header.
func TestHostileFiles(t *testing.T) {
	length := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	for _, c := range []struct{ file, want string }{
		{"", "a file of 0 bytes"},
		{"1234567", "a file of 7 bytes"},
		{length(1 << 63), "a header of 9223372036854775808 bytes"},
		{length(MaxHeader), "a header of 100000000 bytes in a file of 8"},
		{length(3) + "{}", "a header of 3 bytes"},
		{length(2) + "{}x", "the file has 1 bytes of tensors, its header tells of 0"},
		{length(56) + `{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   x`, "the file has 1 bytes of tensors, its header tells of 2"},
	} {
		_, err := Read(strings.NewReader(c.file), int64(len(c.file)))
		require.ErrorContains(t, err, c.want)
	}
	h := &Header{Tensors: []Tensor{{"\xff", "U8", nil, 0, 1}}}
	require.ErrorContains(t, WriteHeader(io.Discard, h), "not UTF-8")
	h.Tensors[0].Name = metadata
	require.ErrorContains(t, WriteHeader(io.Discard, h), metadata)
	require.Equal(t, 8, Bits("U8"))
	require.Zero(t, Bits("U9"))
}

// FuzzParse compares Parse with package json for every header that Parse takes, and reads back what Encode writes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`,
		`{"__metadata__":{"a":"b"},"e":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}  `,
		`{"\u00e9\ud800":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}}`, `{"w":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(b)
		if err != nil {
			return
		}
		var twin map[string]struct {
			DType   string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		rest := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal(b, &rest))
		texts := map[string]string(nil)
		if m, ok := rest[metadata]; ok {
			require.NoError(t, json.Unmarshal(m, &texts))
			delete(rest, metadata)
		}
		require.Equal(t, len(texts), len(h.Metadata))
		tensors, err := json.Marshal(rest)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(tensors, &twin))
		require.Len(t, twin, len(h.Tensors))
		var at int64
		for _, x := range h.Tensors {
			y := twin[x.Name]
			require.Equal(t, []any{y.DType, y.Offsets}, []any{x.DType, []int64{x.Begin, x.End}})
			require.Equal(t, len(y.Shape), len(x.Shape))
			require.Equal(t, at, x.Begin)
			at = x.End
		}
		again, err := h.Encode()
		require.NoError(t, err)
		back, err := Parse(again)
		require.NoError(t, err)
		if len(h.Metadata) == 0 {
			h.Metadata = nil // Encode leaves an empty one out
		}
		require.Equal(t, h, back)
	})
}
