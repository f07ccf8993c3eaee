package pg

import (
	"crypto/tls"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/store"
)

func from(vars map[string]string) bootstrap.Lookup {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// TestSettingsDefaults takes the defaults from the table, which is what is printed.
func TestSettingsDefaults(t *testing.T) {
	var c Config
	require.NoError(t, c.settle(from(nil)))
	require.Equal(t, DefaultTimeout, c.Timeout)
	c.Recorder.env = nil
	require.Equal(t, WatchdogOptions{BlockingWait: Off, OnError: CleanUp, Propagate: Off, Monitor: On, Heartbeat: 480 * time.Second,
		CoordCheck: time.Second}, c.Watchdog)
	require.Equal(t, DebugOptions{NaNCheck: Off, Level: DebugOff, Desync: Off}, c.Debug)
	require.Equal(t, RecorderOptions{Entries: 2000, Timing: Off, DumpOnError: On, DumpOnAbort: Off, DumpLimit: 15 * time.Second,
		DumpFileAnew: Off, DumpStacks: On, DumpOnlyActive: Off}, c.Recorder)
}

// TestSettings reads values, aliases and the program's own choice.
func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		vars map[string]string
		set  Config
		want func(c *Config) any
		is   any
	}{
		"own name":            {map[string]string{"COLLIGO_NAN_CHECK": "Yes"}, Config{}, func(c *Config) any { return c.Debug.NaNCheck }, On},
		"alias":               {map[string]string{"TORCH_NCCL_NAN_CHECK": "t"}, Config{}, func(c *Config) any { return c.Debug.NaNCheck }, On},
		"transport":           {map[string]string{"COLLIGO_TRANSPORT": "tcp"}, Config{}, func(c *Config) any { return c.Transport }, "tcp"},
		"program's transport": {map[string]string{"COLLIGO_TRANSPORT": "tcp"}, Config{Transport: "shm"}, func(c *Config) any { return c.Transport }, "shm"},
		"interface":           {map[string]string{"COLLIGO_INTERFACE": "eth1"}, Config{}, func(c *Config) any { return c.Interface }, "eth1"},
		"compression":         {map[string]string{"COLLIGO_COMPRESSION": "zstd"}, Config{}, func(c *Config) any { return c.Compression }, "zstd"},
		"no TLS":              {nil, Config{}, func(c *Config) any { return c.TLS == nil }, true},
		"program's TLS":       {map[string]string{"COLLIGO_TLS_CERT": "/nowhere"}, Config{TLS: &tls.Config{ServerName: "own"}}, func(c *Config) any { return c.TLS.ServerName }, "own"},
		"own name before alias": {map[string]string{"COLLIGO_FR_BUFFER_SIZE": "7", "TORCH_FR_BUFFER_SIZE": "8"}, Config{},
			func(c *Config) any { return c.Recorder.Entries }, 7},
		"first alias before second": {map[string]string{"TORCH_NCCL_TRACE_BUFFER_SIZE": "7", "TORCH_FR_BUFFER_SIZE": "8"}, Config{},
			func(c *Config) any { return c.Recorder.Entries }, 8},
		"program before all":   {map[string]string{"COLLIGO_NAN_CHECK": "1"}, Config{Debug: DebugOptions{NaNCheck: Off}}, func(c *Config) any { return c.Debug.NaNCheck }, Off},
		"no recorder":          {map[string]string{"COLLIGO_FR_BUFFER_SIZE": "0"}, Config{}, func(c *Config) any { return c.Recorder.Entries }, -1},
		"milliseconds":         {map[string]string{"TORCH_NCCL_COORD_CHECK_MILSEC": "250"}, Config{}, func(c *Config) any { return c.Watchdog.CoordCheck }, 250 * time.Millisecond},
		"seconds":              {map[string]string{"COLLIGO_TIMEOUT_SEC": "90"}, Config{}, func(c *Config) any { return c.Timeout }, 90 * time.Second},
		"torchrun's 1":         {map[string]string{"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, Config{}, func(c *Config) any { return c.Watchdog.OnError }, CleanUp},
		"tear down":            {map[string]string{"COLLIGO_ASYNC_ERROR_HANDLING": "1"}, Config{}, func(c *Config) any { return c.Watchdog.OnError }, TearDown},
		"PyTorch's 0":          {map[string]string{"NCCL_ASYNC_ERROR_HANDLING": "0"}, Config{}, func(c *Config) any { return c.Watchdog.OnError }, NoHandling},
		"debug":                {map[string]string{"TORCH_DISTRIBUTED_DEBUG": "detail"}, Config{}, func(c *Config) any { return c.Debug.Level }, DebugDetail},
		"empty counts as none": {map[string]string{"COLLIGO_NAN_CHECK": ""}, Config{}, func(c *Config) any { return c.Debug.NaNCheck }, Off},
		"no heartbeat":         {map[string]string{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "0"}, Config{}, func(c *Config) any { return c.Watchdog.Heartbeat }, time.Duration(math.MaxInt64)},
		"desync by DETAIL":     {map[string]string{"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, Config{}, func(c *Config) any { return c.Debug.Desync }, On},
		"desync by a variable": {map[string]string{"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "NCCL_DESYNC_DEBUG": "0"}, Config{}, func(c *Config) any { return c.Debug.Desync }, On},
		"no desync by choice":  {map[string]string{"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, Config{Debug: DebugOptions{Desync: Off}}, func(c *Config) any { return c.Debug.Desync }, Off},
		"path":                 {map[string]string{"TORCH_FR_DUMP_TEMP_FILE": "/x/y_"}, Config{}, func(c *Config) any { return c.Recorder.DumpFile }, "/x/y_"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.set
			require.NoError(t, got.settle(from(c.vars)))
			require.Equal(t, c.is, c.want(&got))
		})
	}
}

// TestSettingsTuning reads a table, which comes after the program's own.
func TestSettingsTuning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(file, []byte("all_reduce crowded up to 4 KiB: ring, lanes 1\n"), 0o600))
	vars := from(map[string]string{"COLLIGO_TUNING": file})
	var c Config
	require.NoError(t, c.settle(vars))
	require.Equal(t, []tuning.Rule{{Coll: plan.AllReduce, Cores: tuning.Crowded, MaxBytes: 4 << 10, Algo: "ring"}}, c.Tuning)
	own := Config{Tuning: []tuning.Rule{}}
	require.NoError(t, own.settle(vars))
	require.Empty(t, own.Tuning)
	for text, says := range map[string]string{"all_reduce: none": "no algorithm", "": "no such file"} {
		name := file + text
		if text != "" {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		} else {
			name = file + ".none"
		}
		err := new(Config).settle(from(map[string]string{"COLLIGO_TUNING": name}))
		require.ErrorContains(t, err, "environment variable COLLIGO_TUNING is ")
		require.ErrorContains(t, err, says)
	}
}

// TestSettingsAlgorithm takes the algorithms of the environment before a table, and the program's before those.
func TestSettingsAlgorithm(t *testing.T) {
	vars := from(map[string]string{"COLLIGO_ALGORITHM": "all_reduce:ring,broadcast:chain"})
	var c Config
	require.NoError(t, c.settle(vars))
	c, err := c.withDefaults()
	require.NoError(t, err)
	for coll, algo := range map[plan.Coll]string{plan.AllReduce: "ring", plan.Broadcast: "chain", plan.Reduce: "binomial"} {
		require.Equal(t, algo, tuning.Pick(c.Tuning, coll, tuning.Place{Medium: "shm", Size: 4}, 8).Algo, coll)
	}
	own := Config{Algo: map[string]string{"all_reduce": "direct"}}
	require.NoError(t, own.settle(vars))
	require.Equal(t, map[string]string{"all_reduce": "direct"}, own.Algo)
	err = new(Config).settle(from(map[string]string{"COLLIGO_ALGORITHM": "all_reduce:tree"}))
	require.EqualError(t, err, `pg: environment variable COLLIGO_ALGORITHM is "all_reduce:tree": all_reduce has no algorithm "tree"; `+
		"there are direct, recursive_doubling, halving_doubling, circulant, double_tree, ring_zero_copy, ring")
}

// TestAlgorithmFromEnvironment forms a group and its subgroup by the variable, and refuses a rank that has another value.
func TestAlgorithmFromEnvironment(t *testing.T) {
	t.Setenv("COLLIGO_ALGORITHM", "all_reduce:ring")
	s := store.NewHash()
	groups, err := each(2, func(rank int) (*Group, error) {
		c := quiet
		c.Store, c.Rank, c.Size = s, rank, 2
		g, err := Init(t.Context(), c)
		if err != nil {
			return nil, err
		}
		_, err = g.NewGroup(t.Context(), []int{0, 1})
		return g, err
	})
	require.NoError(t, err)
	for _, g := range groups {
		require.Equal(t, "ring", g.Algorithm(plan.AllReduce, 8))
		require.Equal(t, plan.AllReduce, g.Tuning()[0].Coll)
	}
	_, err = each(2, func(rank int) (*Group, error) { return nil, groups[rank].Close() })
	require.NoError(t, err)
	s = store.NewHash()
	_, err = each(2, func(rank int) (*Group, error) {
		c := quiet
		c.Store, c.Rank, c.Size, c.ConnectTimeout = s, rank, 2, 20*time.Second
		if rank == 1 {
			c.Algo = map[string]string{"all_reduce": "direct"}
		}
		return Init(t.Context(), c)
	})
	require.ErrorContains(t, err, "picks algorithms by a table of")
}

// TestTablesDiffer refuses ranks that would pick other algorithms.
func TestTablesDiffer(t *testing.T) {
	s := store.NewHash()
	_, err := each(2, func(rank int) (*Group, error) {
		c := quiet
		c.Store, c.Rank, c.Size, c.ConnectTimeout = s, rank, 2, 20*time.Second
		if rank == 1 {
			c.Tuning = []tuning.Rule{{Coll: plan.AllReduce, Algo: "direct"}}
		}
		return Init(t.Context(), c)
	})
	require.ErrorContains(t, err, "picks algorithms by a table of 1 rules, checksum")
	require.ErrorContains(t, err, "by one of the default's rules")
}

// TestSettingsRefused names variable and value of what cannot be read.
func TestSettingsRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"COLLIGO_BLOCKING_WAIT": {"2", "maybe", " 1"}, "TORCH_NCCL_ENABLE_TIMING": {"on"},
		"COLLIGO_ASYNC_ERROR_HANDLING": {"4", "-1", "true"}, "COLLIGO_HEARTBEAT_TIMEOUT_SEC": {"-3", "1.5", "8m", "9999999999999"},
		"TORCH_FR_BUFFER_SIZE": {"-1", "many", "99999999999"}, "TORCH_DISTRIBUTED_DEBUG": {"VERBOSE"}, "COLLIGO_COORD_CHECK_MILSEC": {"0"},
	} {
		for _, value := range values {
			var c Config
			require.ErrorContains(t, c.settle(from(map[string]string{name: value})), "environment variable "+name+" is \""+value+"\": want ")
		}
	}
}

// TestOptionsRefused refuses what a program cannot mean.
func TestOptionsRefused(t *testing.T) {
	for says, c := range map[string]Config{
		"Watchdog.Heartbeat is -1s":      {Watchdog: WatchdogOptions{Heartbeat: -time.Second}},
		"Watchdog.CoordCheck is -1ns":    {Watchdog: WatchdogOptions{CoordCheck: -1}},
		"Recorder.DumpLimit is -1ns":     {Recorder: RecorderOptions{DumpLimit: -1}},
		"OnError is 9 and Debug.Level 0": {Watchdog: WatchdogOptions{OnError: 9}},
		"OnError is 0 and Debug.Level 4": {Debug: DebugOptions{Level: 4}},
	} {
		require.ErrorContains(t, c.settle(from(nil)), says)
	}
}

// TestTimeoutOfDevices is 10 minutes unless the program or the environment says otherwise.
func TestTimeoutOfDevices(t *testing.T) {
	for want, c := range map[time.Duration]struct {
		vars map[string]string
		set  Config
	}{
		DefaultDeviceTimeout: {nil, Config{}},
		time.Minute:          {map[string]string{"COLLIGO_TIMEOUT_SEC": "60"}, Config{}},
		time.Hour:            {nil, Config{Timeout: time.Hour}},
	} {
		c.set.onDevices = 0
		require.NoError(t, c.set.settle(from(c.vars)))
		l := limits{timeout: c.set.Timeout, devices: c.set.onDevices}
		require.Equal(t, want, l.onDevices())
		l.changed.Store(int64(time.Second))
		require.Equal(t, time.Second, l.onDevices())
	}
}

// TestSettingsNamed lists every variable that PyTorch's NCCL backend, its tests and its wrapper of NCCL read.
func TestSettingsNamed(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range Settings() {
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			listed[name] = true
		}
	}
	for _, name := range []string{"NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DESYNC_DEBUG",
		"NCCL_ENABLE_TIMING", "TORCH_DISTRIBUTED_DEBUG", "TORCH_DIST_INIT_BARRIER", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
		"TORCH_NCCL_AVOID_RECORD_STREAMS", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_COORD_CHECK_MILSEC", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
		"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_NCCL_DESYNC_DEBUG", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ENABLE_MONITORING",
		"TORCH_NCCL_ENABLE_TIMING", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HIGH_PRIORITY", "TORCH_NCCL_NAN_CHECK",
		"TORCH_NCCL_NONBLOCKING_TIMEOUT", "TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_TRACE_CPP_STACK",
		"TORCH_NCCL_USE_COMM_NONBLOCKING", "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"} {
		require.True(t, listed[name], name)
	}
}

// TestSettingsOfNCCL says of a variable that NCCL's own library reads it, and where its twins of PyTorch are that Init does not read.
func TestSettingsOfNCCL(t *testing.T) {
	meanings := map[string]string{}
	for _, s := range Settings() {
		meanings[s.Name] = s.Meaning
	}
	for name, want := range map[string]string{
		"NCCL_DEBUG":                      "not read here: where NCCL carries operations, its library reads this",
		"NCCL_DEBUG_FILE":                 "not read here: as NCCL_DEBUG",
		"TORCH_NCCL_USE_COMM_NONBLOCKING": "nccl.With says by Config.NonBlocking",
		"TORCH_NCCL_NONBLOCKING_TIMEOUT":  "no longer than an operation may take",
		"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING": "wait for its collectives",
	} {
		require.Contains(t, meanings[name], want, name)
	}
}

// TestSettingsTable holds the printed table against itself.
func TestSettingsTable(t *testing.T) {
	seen := map[string]bool{}
	for i, s := range Settings() {
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
		}
		require.NotEmpty(t, s.Meaning)
		require.Equal(t, s.Kind == "", variables[i].apply == nil, s.Name)
		t.Log(s)
	}
}
