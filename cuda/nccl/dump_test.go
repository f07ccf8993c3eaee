package nccl_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg/flight"
)

// TestDumpedCommunicators looks for communicators in a dump of the flight recorder, also when that was written and read. They are of a group,
// of a pair of ranks and of a rail.
func TestDumpedCommunicators(t *testing.T) {
	(&job{hosts: []int{0, 0, 1, 1}, rules: always}).run(t, func(r *rank) error {
		if d := r.Dump(flight.DumpOptions{}); d.Comms != nil {
			return fmt.Errorf("communicators %v before there are any", d.Comms)
		}
		if err := errors.Join(r.sum(), r.messages(colligo.Int64)); err != nil {
			return err
		}
		d, name := r.Dump(flight.DumpOptions{}), fmt.Sprintf("%s/%v", r.Name(), r.device)
		for len(d.Comms) == 0 && r.ctx.Err() == nil { // while the watchdog asks the library
			d = r.Dump(flight.DumpOptions{})
		}
		sizes := map[string]string{name: "4", fmt.Sprintf("%s/rail %d", name, r.Rank()%2): "2", fmt.Sprintf("%s/with %d", name, r.Rank()^1): "2"}
		for comm, size := range sizes {
			values := d.Comms[comm]
			if values["nranks"] != size || values["state"] != "ready" || values["version"] != "2.28.9" || values["mode"] != "blocking" {
				return fmt.Errorf("communicator %s among %v", comm, d.Comms)
			}
		}
		if len(d.Comms) != len(sizes) {
			return fmt.Errorf("communicators %v", d.Comms)
		}
		var b bytes.Buffer
		if err := d.WritePickle(&b); err != nil {
			return err
		}
		again, err := flight.Read(&b)
		if err == nil && !reflect.DeepEqual(again.Comms, d.Comms) {
			err = fmt.Errorf("read back: %v", again.Comms)
		}
		return err
	})
}

// TestDumpedAborted has a dump tell that a communicator was aborted. Rank 1 aborts once both ranks have their sums. An abort may end the sum
// of a rank that has yet to see its own completed.
func TestDumpedAborted(t *testing.T) {
	var summed sync.WaitGroup
	summed.Add(2)
	onRanks(t, 2, nccl.Options{}, func(r *rank) error {
		err := r.sum()
		summed.Done()
		if err != nil {
			return err
		}
		if r.Rank() == 1 {
			summed.Wait()
			r.Abort(errors.New("enough"))
		}
		name := fmt.Sprintf("%s/%v", r.Name(), r.device)
		for r.Dump(flight.DumpOptions{}).Comms[name]["state"] != "aborted" {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}
