package flight

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/pickle"
)

// sample has every field set, and an entry that has none.
func sample() *Dump {
	return &Dump{
		Version: "2.10", Library: "2.28.9",
		Groups: map[string]Group{"0": {"0", "default_pg", []int{0, 1, 12}}, "a b": {"a b", "", []int{}}},
		Status: map[string]Status{"0": {5, 4, 3}, "1": {-1, -1, -1}},
		Entries: []Entry{
			{ID: 1 << 40, PG: 1, Group: "0", Desc: "default_pg", Seq: 7, P2PSeq: 8, OpID: 9, Name: "nccl:recv 0<-1", InSizes: [][]int64{{}, {1 << 33, 0}},
				OutSizes: [][]int64{{3}}, InTypes: []string{"Float", "Half"}, OutTypes: []string{"Bool"}, State: Completed, Created: 1 << 60,
				DiscoveredStarted: 1<<60 + 1, DiscoveredCompleted: 1<<60 + 2, Duration: 1500 * time.Microsecond, Timeout: 10 * time.Minute,
				Retired: true, P2P: true, ThreadID: "140", ThreadName: "python ä", Frames: []Frame{{"f", "a.go", 3}, {"g", "b.go", 4}},
				Tag: -7, Tagged: true},
			{Duration: -1},
		},
		Comms:    map[string]map[string]string{"0x1": {"rank": "0"}},
		Failures: map[string]Failure{"0": {"rank 12 does not answer", []int{12}, 1<<60 + 3}, "a b": {"", []int{}, 0}},
		Taken:    1<<60 + 4,
	}
}

func TestRoundTrip(t *testing.T) {
	for name, write := range map[string]func(*Dump, *bytes.Buffer) error{
		"pickle": func(d *Dump, b *bytes.Buffer) error { return d.WritePickle(b) },
		"json":   func(d *Dump, b *bytes.Buffer) error { return d.WriteJSON(b) },
	} {
		for _, d := range []*Dump{sample(), New(1, 1).Dump(DumpOptions{})} {
			var b bytes.Buffer
			require.NoError(t, write(d, &b), name)
			again, err := Read(&b)
			require.NoError(t, err, name)
			require.Equal(t, d, again, name)
		}
	}
}

// TestAnyText writes a dump whose texts are not UTF-8: an error that was cut, a description, a path.
func TestAnyText(t *testing.T) {
	d := &Dump{Version: "2.10", Groups: map[string]Group{"0": {"0", "d\xff", []int{0}}}, Failures: map[string]Failure{"0": {"took 5\xc2...", nil, 0}},
		Entries: []Entry{{Group: "0", Desc: "d\xff", Name: "nccl:all_reduce", Frames: []Frame{{"f", "/\xe4/a.go", 3}}}}}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"pickle": func(b *bytes.Buffer) error { return d.WritePickle(b) },
		"json":   func(b *bytes.Buffer) error { return d.WriteJSON(b) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b), name)
		again, err := Read(&b)
		require.NoError(t, err, name)
		require.Equal(t, "d\uFFFD", again.Groups["0"].Desc, name)
		require.Equal(t, "d\uFFFD", again.Entries[0].Desc, name)
		require.Equal(t, "took 5\uFFFD...", again.Failures["0"].Text, name)
		require.Equal(t, "/\uFFFD/a.go", again.Entries[0].Frames[0].File, name)
	}
}

// TestReferences refuses small dumps that say one thing many times over.
func TestReferences(t *testing.T) {
	ranks, groups, failures := "["+strings.Repeat("0,", 1<<20-1)+"0]", dict(), dict()
	for i := range 9 {
		groups.Set(number(i), dict("ranks", ranks))
		failures.Set(number(i), dict("ranks", ranks))
	}
	entries := "\x80\x02}(X\x07\x00\x00\x00versionX\x03\x00\x00\x002.7X\x07\x00\x00\x00entries](}q\x00" + strings.Repeat("h\x00", 1<<20) + "eu."
	for says, v := range map[string]any{
		"groups of more than 8388608 ranks":   dict("version", "2.10", "pg_config", groups),
		"failures of more than 8388608 ranks": dict("version", "2.10", "colligo_failures", failures),
		"entries, the limit is 1048576":       nil,
	} {
		b := []byte(entries)
		if v != nil {
			var err error
			b, err = pickle.Append(nil, v, 2)
			require.NoError(t, err)
		}
		_, err := Read(bytes.NewReader(b))
		require.ErrorContains(t, err, says)
	}
}

// TestEmptyRing: PyTorch's analyzer wants the key entries, also when there are none; JSON leaves it out then.
func TestEmptyRing(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, New(1, 1).Dump(all).WritePickle(&b))
	v, err := pickle.Unmarshal(b.Bytes())
	require.NoError(t, err)
	entries, ok := v.(*pickle.Dict).Get("entries")
	require.True(t, ok)
	require.Equal(t, []any{}, entries)
	d, err := Read(&b)
	require.NoError(t, err)
	require.Equal(t, []Entry{}, d.Entries)
}

// TestJSONForm holds what differs from the pickle.
func TestJSONForm(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample().WriteJSON(&b))
	var top struct {
		Status  map[string]map[string]string `json:"pg_status"`
		Entries []struct {
			Started   *int64   `json:"time_discovered_started_ns"`
			Group     []string `json:"process_group"`
			Duration  *float64 `json:"duration_ms"`
			InSizes   [][]int  `json:"input_sizes"`
			ID        int64    `json:"record_id"`
			Name      string   `json:"profiling_name"`
			Collected []any    `json:"frames"`
		}
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &top))
	require.Equal(t, "-1", top.Status["1"]["last_started_collective"])
	require.Equal(t, int64(0), *top.Entries[1].Started)
	require.Equal(t, []string{"", ""}, top.Entries[1].Group)
	require.Nil(t, top.Entries[1].Duration)
	require.NotNil(t, top.Entries[1].InSizes)
	require.Equal(t, "nccl:recv 0<-1", top.Entries[0].Name)
	require.Len(t, top.Entries[0].Collected, 2)
}

// TestPickleForm holds protocol 2 and the keys of version 2.10 in PyTorch's order.
func TestPickleForm(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample().WritePickle(&b))
	require.Equal(t, "\x80\x02}", b.String()[:3])
	v, err := pickle.Unmarshal(b.Bytes())
	require.NoError(t, err)
	top := v.(*pickle.Dict)
	require.Equal(t, "version comm_lib_version pg_config pg_status nccl_comm_state colligo_failures colligo_time_ns entries", keys(top))
	entries, _ := top.Get("entries")
	first := entries.([]any)[0].(*pickle.Dict)
	require.Equal(t, "record_id pg_id process_group collective_seq_id p2p_seq_id op_id profiling_name time_created_ns duration_ms "+
		"input_sizes input_dtypes output_sizes output_dtypes state time_discovered_started_ns time_discovered_completed_ns retired "+
		"timeout_ms is_p2p thread_id thread_name frames colligo_tag", keys(first))
	group, _ := first.Get("process_group")
	require.Equal(t, pickle.Tuple{"0", "default_pg"}, group)
	config, _ := top.Get("pg_config")
	zero, _ := config.(*pickle.Dict).Get("0")
	ranks, _ := zero.(*pickle.Dict).Get("ranks")
	require.Equal(t, "[0, 1, 12]", ranks)
	started, _ := entries.([]any)[1].(*pickle.Dict).Get("time_discovered_started_ns")
	require.Nil(t, started)
}

func keys(d *pickle.Dict) string {
	var all []string
	for k := range d.All() {
		all = append(all, k.(string))
	}
	return strings.Join(all, " ")
}

func TestReadOld(t *testing.T) {
	d, err := ReadFile("testdata/old.pickle")
	require.NoError(t, err)
	require.Equal(t, &Dump{Version: "2.2", Groups: map[string]Group{"0": {"0", "default_pg", []int{0, 1}}}, Status: map[string]Status{},
		Comms: map[string]map[string]string{"0x1": {"rank": "0"}}, Entries: []Entry{{ID: 3, Group: "0", Desc: "default_pg", Seq: 4, OpID: 4,
			Name: "nccl:all_reduce", InSizes: [][]int64{{3, 4}}, OutSizes: [][]int64{{3, 4}}, InTypes: []string{"Float"}, OutTypes: []string{"Float"},
			State: Completed, Created: 1700000000000000001, DiscoveredCompleted: 1700000000000000002, Duration: 1500 * time.Microsecond,
			Timeout: 10 * time.Minute, Retired: true, Frames: []Frame{{"train", "train.py", 12}}}}}, d)
}

// TestReadTorch reads dumps that PyTorch 2.11 wrote on two GPUs. One job went well and recorded no call stacks. In the
// other, rank 1 left out the last call. Paths in them have been replaced by others of the same length.
func TestReadTorch(t *testing.T) {
	for rank := range 2 {
		well, err := ReadFile(Path("testdata/torch-2.11/well_rank_", rank))
		require.NoError(t, err)
		require.Equal(t, "2.10", well.Version)
		require.Equal(t, "2.28.9", well.Library)
		require.Equal(t, map[string]Group{"0": {"0", "default_pg", []int{0, 1}}, "1": {"1", "undefined", []int{0, 1}}}, well.Groups)
		require.Equal(t, map[string]Status{"0": {15, 15, 15}, "1": {1, 1, 1}}, well.Status)
		require.Len(t, well.Entries, 16)
		for _, e := range well.Entries {
			require.Equal(t, Completed, e.State)
			require.True(t, e.Retired)
			require.Positive(t, e.Duration)
			require.Equal(t, 10*time.Minute, e.Timeout)
			require.Equal(t, "python3", e.ThreadName)
			require.GreaterOrEqual(t, e.DiscoveredStarted, e.Created)
		}
		require.Equal(t, []string{"BFloat16"}, well.Entries[1].InTypes)
		require.Equal(t, [][]int64{{4, 3}}, well.Entries[2].OutSizes)
		require.True(t, well.Entries[14].P2P)
		require.Equal(t, []string{"nccl:send 0->1", "nccl:recv 1<-0"}[rank], well.Entries[14].Name)
		again := &strings.Builder{}
		require.NoError(t, well.WritePickle(again))
		same, err := Read(strings.NewReader(again.String()))
		require.NoError(t, err)
		require.Equal(t, well, same)

		skip, err := ReadFile(Path("testdata/torch-2.11/skip_rank_", rank))
		require.NoError(t, err)
		require.Len(t, skip.Entries, 16-rank)
		require.Equal(t, Frame{"main", "/srv/train/examples/torch/job.py", 56}, Frame{"main", skip.Entries[0].Frames[4].File, skip.Entries[0].Frames[4].Line})
	}
}

func TestReadRefuses(t *testing.T) {
	entry := func(s string) string { return `{"version":"2.10","entries":[{"state":"started",` + s + `}]}` }
	for _, c := range []struct{ says, dump string }{
		{"pickle: byte 0: 1 bytes end after 0", ""}, {"opcode GLOBAL", "cos\nsystem\n."}, {"the dump is []interface {}", "]."},
		{`version "" is not read`, "{}"}, {`version "3.0"`, `{"version":"3.0"}`}, {`version is "2" (int64)`, `{"version":2}`},
		{"unexpected EOF", "{"}, {"more than one JSON value", `{"version":"2.10"}{}`}, {"50 levels", `{"a":` + strings.Repeat("[", 100)},
		{"entries is", `{"version":"2.10","entries":{}}`}, {"entry is string", `{"version":"2.10","entries":["x"]}`},
		{`entry 0: state "paused"`, `{"version":"2.10","entries":[{"state":"paused"}]}`}, {`record_id is "1.5" (float64)`, entry(`"record_id":1.5`)},
		{"pg_id is \"-1\"", entry(`"pg_id":-1`)}, {"collective_seq_id is", entry(`"collective_seq_id":"7"`)}, {"process_group has 1", entry(`"process_group":["0"]`)},
		{"float64 in a list of texts", entry(`"input_dtypes":[0.5]`)}, {"a tensor's size is -1", entry(`"input_sizes":[[-1]]`)},
		{"a tensor's size is x", entry(`"output_sizes":[["x"]]`)}, {"sizes are int64", entry(`"output_sizes":[3]`)},
		{"sizes are []interface {} of 65", entry(`"input_sizes":[[0` + strings.Repeat(",0", 64) + `]]`)}, {"retired is", entry(`"retired":1`)},
		{"duration_ms is", entry(`"duration_ms":"1"`)}, {"frame is string", entry(`"frames":["f"]`)}, {"line is", entry(`"frames":[{"line":"f"}]`)},
		{"last_started_collective is \"x\"", `{"version":"2.10","pg_status":{"0":{"last_started_collective":"x"}}}`},
		{"pg_config is string", `{"version":"2.10","pg_config":{"0":""}}`}, {`ranks "0, 1"`, `{"version":"2.10","pg_config":{"0":{"ranks":"0, 1"}}}`},
		{`rank "-1"`, `{"version":"2.10","pg_config":{"0":{"ranks":"[-1]"}}}`}, {"nccl_comm_state", `{"version":"2.10","nccl_comm_state":{"0":3}}`},
		{"colligo_failures", `{"version":"2.10","colligo_failures":{"0":3}}`}, {`ranks "2"`, `{"version":"2.10","colligo_failures":{"0":{"ranks":"2"}}}`},
	} {
		_, err := Read(strings.NewReader(c.dump))
		require.ErrorContains(t, err, c.says, c.dump)
		require.ErrorContains(t, err, "read flight dump: ")
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	prefix := filepath.Join(dir, "deep", "er", "trace_rank_")
	for _, rank := range []int{0, 3, 12, 3} {
		path, err := sample().WriteFile(prefix, rank)
		require.NoError(t, err)
		require.Equal(t, Path(prefix, rank), path)
		again, err := ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, sample(), again)
	}
	folder := filepath.Dir(prefix)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing else is left")
	want := map[int]string{0: prefix + "0", 3: prefix + "3", 12: prefix + "12"}
	for _, given := range []string{"", "trace_rank_"} {
		found, err := Files(folder, given)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	for _, other := range []string{"trace_rank_x", "trace_rank_007", "trace_rank_99999999999", "run7_", ".trace_rank_5.1234567"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, other), nil, 0o600))
	}
	found, err := Files(folder, "")
	require.NoError(t, err)
	require.Equal(t, want, found)
	_, err = sample().WriteFile(filepath.Join(folder, "run7"), 1)
	require.NoError(t, err)
	_, err = Files(folder, "")
	require.ErrorContains(t, err, "prefixes run, trace_rank_")
	found, err = Files(folder, "run7")
	require.NoError(t, err)
	require.Len(t, found, 1)
	_, err = Files(filepath.Join(dir, "absent"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadFile(filepath.Join(folder, "run7_"))
	require.ErrorContains(t, err, "run7_")
	_, err = sample().WriteFile(filepath.Join(folder, "run7_")+"/below_", 0)
	require.Error(t, err)
}

// FuzzRead: whatever is read can be written both ways and is read again.
func FuzzRead(f *testing.F) {
	var b, j bytes.Buffer
	require.NoError(f, sample().WritePickle(&b))
	require.NoError(f, sample().WriteJSON(&j))
	old, err := os.ReadFile("testdata/old.pickle")
	require.NoError(f, err)
	for _, seed := range [][]byte{b.Bytes(), j.Bytes(), old, []byte(`{"version":"2.4","entries":[]}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var p, j bytes.Buffer
		if err := d.WritePickle(&p); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&p); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteJSON(&j); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&j); err != nil {
			t.Fatal(err)
		}
	})
}
