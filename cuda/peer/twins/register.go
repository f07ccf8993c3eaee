package twins

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
)

// Register gives a simulated machine the entry points that know no element type.
func Register(s *cudasim.Sim) error {
	return registerMoves(s, 0)
}

// RegisterDeaf is Register, and RegisterReduction of float32 sums, with twins that leave out a wait, so that a test can see it
// missed.
func RegisterDeaf(s *cudasim.Sim, w Wait) error {
	if err := registerMoves(s, w); err != nil {
		return err
	}
	return registerReduction(s, colligo.Float32, colligo.KindSum, w)
}

func registerMoves(s *cudasim.Sim, w Wait) error {
	return image(s, kernels.MoveModule(), map[string]cudasim.Twin{
		kernels.CopyBytes: copyBytes, kernels.FillLines: fillLines, kernels.ExchangePackets: exchangePackets,
		kernels.ExchangeEven: exchangeEven, kernels.BroadcastPackets: broadcastPackets, kernels.ExchangeTiles: exchangeTiles,
		kernels.ExchangeTurns: exchangeTurns, kernels.ExchangeDirect: exchangeDirect, kernels.BroadcastChain: broadcastChain,
		kernels.BroadcastRows: rowChain{w}.broadcast, kernels.BroadcastLines: lineChain{w}.broadcast,
		kernels.MoveFollow: moveFollow{w}.run, kernels.ExchangeMail: mail{w}.exchange,
		kernels.MeetLetters: swap{w}.meet, kernels.SwapLetters: swap{w}.carry,
	})
}

// RegisterReduction adds those of a kind of reduction on an element type.
func RegisterReduction(s *cudasim.Sim, d colligo.DType, k colligo.OpKind) error {
	return registerReduction(s, d, k, 0)
}

func registerReduction(s *cudasim.Sim, d colligo.DType, k colligo.OpKind, w Wait) error {
	of := d.Real() // identical code is one image: its twin must do for all that it is loaded for
	switch k {
	case colligo.KindSum, colligo.KindPremulSum:
		if d != colligo.Bool {
			k = colligo.KindAvg
		}
	case colligo.KindBAnd, colligo.KindBOr, colligo.KindBXor:
		if d != colligo.Bool {
			of = colligo.Uint8
		}
	}
	kernel, err := kernels.Lookup(of, k)
	if err != nil {
		return err
	}
	f := folder{kernel, d.Real().Size(), w}
	twins := map[string]cudasim.Twin{
		kernels.ReduceTwo: f.reduceTwo, kernels.AllReduceOneShot: f.oneShot, kernels.AllReduceTwoShot: f.twoShot,
		kernels.ReduceScatterPackets: f.scatterPackets, kernels.ReduceScatterEven: f.scatterEven,
		kernels.AllReduceTiles: f.tiles, kernels.ReduceScatterTiles: f.scatterTiles,
		kernels.AllReduceRows: f.rows, kernels.AllReduceRowsTwoShot: f.rowsTwoShot, kernels.AllReduceDirect: f.direct,
		kernels.AllReduceLines: f.lines, kernels.AllReduceFollow: f.follow,
	}
	for _, family := range []kernels.Family{kernels.LocalFamily, kernels.PacketFamily, kernels.TileFamily, kernels.RowFamily,
		kernels.LineFamily, kernels.FollowFamily, kernels.DirectFamily} {
		m, err := kernels.ReduceModule(d, k, family)
		if err != nil {
			return err
		}
		if err := image(s, m, twins); err != nil {
			return err
		}
	}
	if !d.Float() && !d.Complex() {
		return nil
	}
	m, err := kernels.UnaryModule(d)
	if err != nil {
		return err
	}
	return image(s, m, map[string]cudasim.Twin{kernels.Scale: f.scale})
}

// image registers a module's entry points. One that has no twin faults when it is launched.
func image(s *cudasim.Sim, m kernels.Module, twins map[string]cudasim.Twin) error {
	ptx, err := m.PTX()
	if err != nil {
		return err
	}
	ahead, err := m.AheadPTX()
	if err != nil {
		return err
	}
	for _, e := range m.Entries() {
		twin := twins[e.Name]
		if twin == nil {
			twin = func(l *cudasim.Launch) { panic(fmt.Sprintf("twins: %s has no twin", l.Name)) }
		}
		s.RegisterImage(ptx, e.Name, e.Args, twin)
		s.RegisterImage(ahead, e.Name, e.Args, twin)
	}
	return nil
}
