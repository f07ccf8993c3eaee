package pg_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// harmless are the methods that give an error other than ErrNotMember, or none, on a handle outside.
var harmless = []string{"Close", "CloseAll", "Err", "GlobalRank", "GroupRank", "SetTimeout", "AddEphemeralTimeout"}

// TestOutside calls every method on a nil group, and on the handle that a rank outside a group gets. None panics. Methods
// that would do something say that this rank is not a member.
func TestOutside(t *testing.T) {
	t.Run("nil", func(t *testing.T) { callAll(t, nil) })
	t.Run("outside", func(t *testing.T) {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			n, err := g.NewGroup(t.Context(), []int{0})
			require.NoError(t, err)
			if g.Rank() == 1 {
				pg.FailForTest(n, errors.New("a reason"))
				callAll(t, n)
			}
		})
	})
}

func callAll(t *testing.T, g *pg.Group) {
	group := reflect.ValueOf(g)
	for i := range group.NumMethod() {
		method := group.Type().Method(i)
		in := arguments(t, method.Type)
		var out []reflect.Value
		assert.NotPanics(t, func() {
			if method.Type.IsVariadic() {
				out = group.Method(i).CallSlice(in)
			} else {
				out = group.Method(i).Call(in)
			}
		}, method.Name)
		for _, v := range out {
			err, failed := v.Interface().(error)
			if w, ok := v.Interface().(*pg.Work); ok {
				if assert.NotNil(t, w, method.Name) {
					err, failed = w.Wait(t.Context()), true
				}
			}
			if v.Type() == reflect.TypeFor[error]() || failed {
				if !slices.Contains(harmless, method.Name) {
					assert.ErrorIs(t, err, pg.ErrNotMember, method.Name)
				}
			}
		}
	}
}

// arguments makes some that a member could pass.
func arguments(t *testing.T, method reflect.Type) (in []reflect.Value) {
	x := colligo.Of([]float32{1, 2})
	some := []any{context.Context(t.Context()), x, []colligo.Tensor{x}, [][]colligo.Tensor{{x}}, colligo.Sum, []int{0}, [][]int{{0}},
		time.Second, errors.New("a reason"), func(pg.WorkInfo) {}, []byte{1}, [][]byte{{1}}}
	for i := 1; i < method.NumIn(); i++ {
		typ := method.In(i)
		v := reflect.Zero(typ)
		for _, s := range some {
			if reflect.TypeOf(s).AssignableTo(typ) {
				v = reflect.ValueOf(s)
				break
			}
		}
		if typ.Kind() == reflect.Func && v.IsNil() {
			v = reflect.MakeFunc(typ, func([]reflect.Value) (out []reflect.Value) {
				for i := range typ.NumOut() {
					out = append(out, reflect.Zero(typ.Out(i)))
				}
				return out
			})
		}
		in = append(in, v)
	}
	return in
}
