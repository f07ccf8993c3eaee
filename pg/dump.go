package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/colligo-go/colligo/pg/flight"
)

// dumper writes what the flight recorder holds, one file at a time.
type dumper struct {
	recorder *flight.Recorder                 // of all groups, nil if off
	failures func() map[string]flight.Failure // of the groups that have failed
	comms    func() map[string]map[string]string
	once     sync.Once
	turn     chan struct{} // has room for one: whoever writes
}

// fill adds to a dump what groups know beside their operations.
func (d *dumper) fill(to *flight.Dump) { to.Failures, to.Comms = d.failures(), d.comms() }

func (d *dumper) turns() chan struct{} {
	d.once.Do(func() { d.turn = make(chan struct{}, 1) })
	return d.turn
}

// dumpPath is where a failure's dump will be, "none" if there will be none.
func (h *failureHandler) dumpPath(err error) string {
	if h.dumper == nil || h.dumper.recorder == nil || !h.dumps(err) {
		return "none"
	}
	prefix, err := h.config.Recorder.dumpPrefix()
	if err != nil {
		return "none"
	}
	return flight.Path(prefix, h.globalRank())
}

// dumpBecause writes a dump and says so at a level of the log; a second attempt leaves out call stacks.
func (h *failureHandler) dumpBecause(level slog.Level, why string) {
	o := &h.config.Recorder
	for _, stacks := range [2]bool{o.DumpStacks == On, false} {
		ctx, cancel := context.WithTimeout(context.Background(), o.DumpLimit)
		path, err := h.dumpFile(ctx, stacks)
		cancel()
		switch {
		case errors.Is(err, errNoRecorder):
			return
		case err == nil:
			h.log.Log(ctx, level, "wrote what was recorded", "group", h.name, "rank", h.rank, "file", path, "reason", why)
			return
		}
		h.log.Warn("dump failed", "group", h.name, "rank", h.rank, "stacks", stacks, "reason", why, "error", err)
		if !stacks {
			return
		}
	}
}

// dumpAsked writes a dump because a peer asks for one.
func (h *failureHandler) dumpAsked(peer int) {
	if h.dumper != nil && !h.dumping.Swap(true) {
		h.Go(func() {
			h.dumpBecause(slog.LevelWarn, fmt.Sprintf("rank %d asked", peer))
			h.dumping.Store(false)
		})
	}
}

var errNoRecorder = errors.New("there is no flight recorder: COLLIGO_FR_BUFFER_SIZE is 0")

// dumpFile gives up when the context ends; a write that the system holds up goes on behind it.
func (h *failureHandler) dumpFile(ctx context.Context, stacks bool) (string, error) {
	recorder := h.dumper.recorder // the group's own may not be there yet when a peer asks
	if recorder == nil {
		return "", errNoRecorder
	}
	prefix, err := h.config.Recorder.dumpPrefix()
	if err != nil {
		return "", err
	}
	path := flight.Path(prefix, h.globalRank())
	turn := h.dumper.turns()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("%s: another dump is being written: %w", path, context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-turn }()
		d := recorder.Dump(flight.DumpOptions{Entries: true, Frames: stacks, OnlyActive: h.config.Recorder.DumpOnlyActive == On})
		h.dumper.fill(d)
		_, err := d.WriteFile(prefix, h.globalRank())
		done <- err
	}()
	select {
	case err = <-done:
		return path, err
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %w", path, context.Cause(ctx))
	}
}

// dumpPrefix is the beginning of the path of all dumps.
func (o *RecorderOptions) dumpPrefix() (string, error) {
	beginning := o.DumpFile
	if o.DumpFileAnew == On && o.env != nil {
		if anew := o.env.First(append([]string{"COLLIGO_FR_DUMP_TEMP_FILE"}, dumpAliases()...)...); anew != "" {
			beginning = anew
		}
	}
	if beginning == "" {
		beginning = o.cachePath()
	}
	abs, err := filepath.Abs(beginning)
	if err == nil && os.IsPathSeparator(beginning[len(beginning)-1]) {
		abs += string(filepath.Separator) // a folder in which files are named by rank alone
	}
	return abs, err
}

// cachePath is where dumps go that nobody has named a place for.
func (o *RecorderOptions) cachePath() string {
	const name = "trace_rank_"
	env := o.env
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	if dir := env.First("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "colligo", name)
	}
	if dir := env.First("LOCALAPPDATA"); dir != "" && runtime.GOOS == "windows" {
		return filepath.Join(dir, "colligo", name)
	}
	if dir := env.First("HOME"); dir != "" {
		return filepath.Join(dir, ".cache", "colligo", name)
	}
	return filepath.Join(os.TempDir(), "colligo", name)
}
